# Everything a developer does here, from a fresh checkout with Python >= 3.11, git and make.
# The environment lives in .venv and is rebuilt only when a lock file, pyproject.toml or
# PYTHON changes. Progress goes to stderr: stdout belongs to the command that is run.

PYTHON   ?= python3
DATA_DIR ?= ./data
ARGS     ?=
# How many tests run at a time: `auto` is one a core; 0, one after the other, in one process.
WORKERS  ?= auto
SECONDS  ?= 60

VENV := .venv
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip --disable-pip-version-check -qq
SAY  := @echo >&2

# The tool that writes the lock files; never part of the environment itself.
LOCK_TOOL := uv==0.13.8
LOCK_VENV := build/lock-venv
COMPILE    = $(LOCK_VENV)/bin/uv pip compile --quiet --universal \
             --generate-hashes --no-header --no-emit-index-url $(ARGS)

# The stamp's name carries PYTHON, so that another interpreter makes a new environment.
MADE    := $(VENV)/made-with-$(subst /,_,$(PYTHON))
RUNTIME := $(VENV)/runtime-installed
DEV     := $(VENV)/dev-installed
FUZZ    := $(VENV)/fuzz-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test crash check lint format bench fuzz lock clean strace

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "  Settings: PYTHON=$(PYTHON)  DATA_DIR=$(DATA_DIR)  SECONDS=$(SECONDS)  WORKERS=$(WORKERS)  ARGS='more arguments'"

run: $(RUNTIME) ## Start the daemon on DATA_DIR
	@[ ! -d data ] || chmod 700 data # git made it, as open as the umask allows
	@exec $(VENV)/bin/zoned serve --data-dir $(DATA_DIR) $(ARGS)

# Tests of one file stay together and share its fixtures; the files that take long start first
# (tests/conftest.py). Thousands of processes start: what they import shall be compiled only once.
test: $(DEV) strace ## Run all tests
	@env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -n $(WORKERS) --dist loadfile \
	  --no-loadscope-reorder $(ARGS)

crash: $(DEV) strace ## Run the fault suites for long (ARGS="--minutes 60 --suites kills,cuts --seed 7")
	@$(PY) -m tests.crash $(ARGS)

check: lint test ## Run the whole gate: lint, then test

lint: $(DEV) ## Check format, style, types and import contracts
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

format: $(DEV) ## Format the code and repair what ruff can
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

bench: $(DEV) ## Run the benchmarks
	@$(PY) -m bench $(ARGS)

fuzz: $(FUZZ) ## Fuzz what reads foreign bytes, SECONDS for each target
	@$(PY) -m tests.fuzz --seconds $(SECONDS) $(ARGS)

lock: $(LOCK_VENV) ## Write the lock files anew (ARGS=--upgrade for newer versions)
	@$(COMPILE) pyproject.toml --group build -o requirements.lock
	@$(COMPILE) pyproject.toml --group build --group dev -c requirements.lock -o requirements-dev.lock
	@$(COMPILE) --group pyproject.toml:fuzz -o requirements-fuzz.lock

clean: ## Remove the environment, caches and build output; data stays
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis .coverage htmlcov
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# A missing tool skips tests; it never fails the run.
strace:
	@command -v strace >/dev/null && test -e /usr/lib/*/faketime/libfaketime.so.1 || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  export DEBIAN_FRONTEND=noninteractive && { \
	    timeout 120 apt-get install -y strace libfaketime || \
	    { timeout 120 apt-get update && timeout 120 apt-get install -y strace libfaketime; }; \
	  } >/dev/null 2>&1; \
	} || echo "strace or libfaketime is missing: the tests that need it are skipped" >&2

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "zoned needs Python 3.11 or newer; try: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(SAY) "Making the environment in $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV) || \
	  { echo "$(PYTHON) cannot make virtual environments (Debian: install python3-venv)" >&2; exit 1; }
	@touch $@

# The project goes in without build isolation: its build backend is locked as well.
$(RUNTIME): $(MADE) requirements.lock pyproject.toml
	$(SAY) "Installing the locked dependencies ..."
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	$(SAY) "Installing the locked test tools ..."
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

$(FUZZ): $(DEV) requirements-fuzz.lock
	$(SAY) "Installing the locked fuzzer ..."
	@$(PIP) install --require-hashes --only-binary atheris -r requirements-fuzz.lock || \
	  { echo "atheris has no wheel for this Python: nothing is fuzzed" >&2; exit 1; }
	@touch $@

$(LOCK_VENV):
	@$(PYTHON) -m venv $@ && $@/bin/python -m pip install -qq $(LOCK_TOOL) || { rm -rf $@; exit 1; }
