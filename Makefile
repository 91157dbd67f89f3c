# Two commands for a newcomer: `make demo` and `make test`. Both run `make setup` first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test test-slow prove lint bench reference clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("headrace needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup  ## the main job on an embedded PostgreSQL: 336 776 flights as events
	$(BIN)/headrace demo

test: lint  ## everything but the slow marks
	$(BIN)/pytest -n 2 --max-worker-restart 1

test-slow: setup  ## the long runs
	$(BIN)/pytest -n 2 -m 'slow or hypothesis' --hypothesis-profile explore

prove: setup  ## a good hour under faults: at least a million operations, and a hundred faults that strike
	$(BIN)/headrace prove --minutes 64 --spark --producers 3 --rate 50 --margin 0 --report proof.html --report bench/results/prove.json

lint: setup
	$(BIN)/ruff check src tests bench docs
	$(BIN)/ruff format --check src tests bench docs
	$(BIN)/mypy
	$(BIN)/lint-imports

reference: setup  ## the pages of docs/reference, from the code
	$(BIN)/python docs/generate.py

bench: setup  ## ratios side by side in one run, written to bench/results
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .headrace .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
