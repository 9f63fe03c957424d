# Every target first sets up its environment in .venv; only Python 3.11 or newer must be installed.
#
#   make demo       the demo: live views over the source of the standard library, on Spark
#                   (ARGS="--shards 2": divided over executors; ARGS=--local: without Spark)
#   make test       all tests, in parallel
#   make test-fast  the tests without Spark, crashes and slow tests
#   make lint       ruff, mypy --strict, the direction of imports, the words of the prose
#   make docs       the documentation site, in build/site; fails for a broken link or reference
#   make format     apply ruff's fixes and format
#   make bench      the benchmarks
#   make lock       write constraints.txt: the versions that every target installs
#   make clean      remove the environment and all build files
#
# ARGS=... adds arguments: make test ARGS="tests/data/test_zset.py -n 0"

VENV ?= .venv
# The first new enough interpreter on the path; `make test PYTHON=...` selects another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# All Spark tests run in one worker, so that one Java runs at a time; a worker needs up to 2 GB.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lint docs format bench lock clean

help:
	@sed -n 's/^#   //p' Makefile

# PySpark is large, so the demo without Spark does not install it.
demo: $(VENV)/$(if $(filter --local,$(ARGS)),.ready,.ready-spark)
	$(BIN)/python -m examples.stdlib_demo $(ARGS)

# Else the tests of each process compile kernels one by one, and wait for each other.
test: $(VENV)/.ready-dev
	$(BIN)/dbsp warmup
	$(PYTEST) $(ARGS)

test-fast: $(VENV)/.ready-dev
	HYPOTHESIS_PROFILE=ci $(PYTEST) -m 'not spark and not crash and not slow' $(ARGS)

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/check_prose.py

# The variable turns off an advertisement for another tool.
docs: $(VENV)/.ready-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site is in build/site; to read it with search: $(BIN)/mkdocs serve"

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-dev
	$(BIN)/python -m benchmarks $(ARGS)

# From an empty environment of the oldest Python: newer Pythons can install the same versions.
lock: $(BIN)/python
	rm -rf $(VENV)-lock
	$(BIN)/python -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev]'
	{ sed '/^#/!d' constraints.txt; $(VENV)-lock/bin/python -m pip freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "expected Python 3.11 or newer on the path, found none; install it, or run: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "expected Python 3.11 or newer, got $$($(PYTHON) --version 2>&1) from $(PYTHON)" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version) (once; takes minutes on a slow connection)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.ready: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) --editable .
	@touch $@

$(VENV)/.ready-spark: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing PySpark and a Java runtime (once; a download of about 500 MB)"
	@$(PIP) --editable '.[spark]'
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-dev: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.ready $(VENV)/.ready-spark
