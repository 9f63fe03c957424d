# Every target sets up what it needs in .venv first; nothing has to be installed by hand but Python 3.11 or newer.
#
#   make demo     the main job on real input: live views over the standard library's own source
#   make test     the tests
#   make lint     ruff, mypy --strict, the direction of imports
#   make format   let ruff rewrite what it can
#   make bench    the measurements of benchmarks/
#   make clean    remove the environment and everything that was built

VENV ?= .venv
# The first interpreter on the path that is new enough; `make test PYTHON=...` names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.ready
	$(BIN)/python -m examples.stdlib_demo $(ARGS)

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-dev
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found on the path. Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version) (once; some minutes on a slow line)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.ready: pyproject.toml | $(BIN)/python
	@$(PIP) --editable .
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(BIN)/python
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.ready
