# Two commands for a newcomer: `make demo` and `make test`. Both run `make setup` first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Demo and tests start many processes: where bytecode is not written, each of them compiles headrace first.
export PYTHONDONTWRITEBYTECODE =
# Processes that run tests: three more than cores, because tests of crashes and of idle nodes wait most of their time.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 3)))

.PHONY: setup demo test test-slow test-relays test-console test-package prove style lint bench bench-guard reference pictures site release-check clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit("headrace needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python scripts/install.py
	@touch $@

demo: setup  ## the main job on an embedded PostgreSQL: 336 776 flights as events
	$(BIN)/headrace demo


test: style  ## everything but the slow marks; mypy runs beside the tests and reports after them
	@types=$$(mktemp); $(BIN)/mypy >$$types 2>&1 & mypy=$$!; \
	$(BIN)/pytest -n $(WORKERS) --max-worker-restart 1; tests=$$?; \
	wait $$mypy; types_ok=$$?; cat $$types; rm $$types; \
	[ $$tests -eq 0 ] && [ $$types_ok -eq 0 ]

test-slow: setup  ## the long runs
	$(BIN)/pytest -n $(WORKERS) -m 'slow or hypothesis' --hypothesis-profile explore

test-relays: setup  ## relays into every broker, RabbitMQ and the long kills included
	$(BIN)/pytest -n $(WORKERS) -m 'slow or not slow' tests/relays

test-console: setup  ## the console's pages in a browser, with the aria snapshots and pictures in build/console
	HEADRACE_ARTEFACTS=build/console $(BIN)/pytest -n 0 tests/web/console

test-package: setup  ## builds the wheel, and tries it with every extra and on every Python that pyenv has
	$(BIN)/pytest -n $(WORKERS) -m 'slow or not slow' tests/package

prove: setup  ## a good hour under faults: at least a million operations, and a hundred faults that strike
	$(BIN)/headrace prove --minutes 64 --spark --producers 3 --rate 50 --margin 0 --report proof.html --report bench/results/prove.json

style: setup
	$(BIN)/ruff check src tests bench docs examples scripts
	$(BIN)/ruff format --check src tests bench docs examples scripts
	$(BIN)/lint-imports

lint: style
	$(BIN)/mypy

reference: setup  ## the pages of docs/reference, from the code
	$(BIN)/python docs/generate.py

pictures: setup  ## the pictures of docs/console.md, with chromium
	$(BIN)/python docs/pictures.py

site: setup  ## the documentation as a site with search, in build/site
	$(BIN)/python -m scripts.site

release-check: setup  ## the release checklist, step by step; DRAFT=1 before the date is in CHANGELOG.md
	$(BIN)/python -m scripts.release_check $(if $(DRAFT),--draft) $(if $(JSON),--json) $(if $(KEEP),--keep $(KEEP))

bench: setup  ## ratios side by side in one run, written to bench/results
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench

bench-guard: setup  ## fails if CPU per event has risen by more than 15 % against bench/results/guard.json
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench guard

clean:
	rm -rf $(VENV) build dist .headrace .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
