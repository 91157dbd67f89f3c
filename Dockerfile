FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /wheels

FROM python:3.12-slim
RUN useradd --system --create-home headrace
COPY --from=build /wheels/*.whl /tmp/
COPY constraints.txt /tmp/
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(ls /tmp/headrace-*.whl)[console,http,relay,fast]" && rm -r /tmp/*
USER headrace
WORKDIR /app
ENTRYPOINT ["headrace"]
CMD ["node", "run"]
