# Every target makes what it needs: a fresh clone and Python 3.11 or newer are enough.
#
#   make demo       run each shipped kernel on every device present
#   make test       the tests of a change, in minutes
#   make test-all   all tests                 make gpu-test   only those that need a GPU
#   make lint       style, types, generated files up to date
#   make build      generated/kspec_kernels   make bench      measure against other libraries
#   make docs       the pages of docs as a site: build/site/index.html
#   make sanitize   the tests that need a GPU, under compute-sanitizer
#   make clean      remove the environment and everything that can be made again

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The host device needs a C++ compiler; machines without one get it as a wheel.
comma := ,
HOST := $(if $(shell command -v c++ || command -v g++ || command -v clang++),,$(comma)host)

# Every process of a test, and there are hundreds, would compile the modules it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all gpu-test sanitize lint bench docs build clean

# A demo without a GPU needs no CUDA toolkit, which has 340 MB.
demo: $(if $(wildcard /dev/nvidiactl /dev/dxg),$(VENV)/.build-stamp,$(VENV)/.author-stamp)
	$(BIN)/kspec demo

build: $(VENV)/.build-stamp
	$(BIN)/kspec build

# CONTRIBUTING.md says what is slow, tests/profiles.py how many examples are drawn.
test: $(VENV)/.dev-stamp
	HYPOTHESIS_PROFILE=fast $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: $(VENV)/.dev-stamp
	$(BIN)/python -m pytest -n auto --dist worksteal

gpu-test: $(VENV)/.dev-stamp
	$(BIN)/python -m pytest -m gpu

sanitize: $(VENV)/.dev-stamp
	$(BIN)/python -m tests.sanitizer

lint: $(VENV)/.dev-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/kspec check
	$(BIN)/kspec schema --check

docs: $(VENV)/.dev-stamp
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo build/site/index.html

bench: $(VENV)/.dev-stamp
	$(BIN)/python -m benchmarks --json build/bench/results.json \
		--markdown build/bench/RESULTS.md --plots build/bench

clean:
	rm -rf $(VENV) build dist docs/_generated generated/.kspec_kernels.* generated/kspec_kernels/*.fatbin
	rm -rf .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Named by the extra of pyproject.toml that the environment has then.
$(VENV)/.%-stamp: pyproject.toml | $(BIN)/pip
	$(PIP) -e '.[$*$(HOST)]'
	@touch $@

$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "kspec needs Python 3.11 or newer: make PYTHON=..."; exit 3; }
	$(PYTHON) -m venv $(VENV)
