# The base by its digest; docs/operations.md shows the command.
ARG BASE
FROM ${BASE:?set --build-arg BASE=python:3.12-slim@sha256:…, see docs/operations.md} AS build
ARG BASE
RUN case "$BASE" in *@sha256:*) ;; *) echo "BASE is $BASE, which can change: name it with its digest, python:3.12-slim@sha256:…" >&2; exit 1;; esac
WORKDIR /src
COPY requirements.build.txt .
RUN pip install --no-cache-dir --require-hashes --no-deps -r requirements.build.txt
COPY . .
RUN python -m build --wheel --no-isolation --outdir /wheels

FROM ${BASE}
RUN useradd --system --create-home headrace
COPY requirements.image.txt /tmp/
RUN pip install --no-cache-dir --require-hashes --no-deps -r /tmp/requirements.image.txt
COPY --from=build /wheels/*.whl /tmp/
RUN pip install --no-cache-dir --no-deps /tmp/headrace-*.whl && pip check && rm -r /tmp/*
USER headrace
WORKDIR /app
ENTRYPOINT ["headrace"]
CMD ["node", "run"]
