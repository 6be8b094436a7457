# make demo   trains on the docstrings of scientific Python and answers questions
# make test   runs the tests
# Both do all the set-up, once, in .venv. The rest is for those who change the code.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LINTERS := $(VENV)/.linters
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
SOURCES := $(wildcard csrc/*/*.cpp csrc/*/*.h)
FORMATTED := $(SOURCES) $(wildcard tests/native/*.cpp)

# The first Python that is new enough. PYTHON=/path/to/python names another one.
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
NEW_ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach p,$(CANDIDATES),$(shell $(p) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo $(p))))

.PHONY: demo test test-rest test-all test-numba fuzz sanitize docs test-arm test-arm-quick test-x86-levels wheels lint bench bench-check peers clean distclean

demo: $(INSTALLED)
	$(BIN)/sparsenet demo
	@echo "There are more: $(BIN)/sparsenet demo tables, $(BIN)/sparsenet demo log"

# `make test` leaves out what is marked slow or levels (see pyproject.toml); test-rest runs that, test-all everything.
# In parallel, unless PYTEST_ARGS names tests: a few files are done before the workers have started.
WORKERS = $(if $(findstring tests,$(PYTEST_ARGS)),,-n auto --maxprocesses 8 --dist loadfile)

test: $(INSTALLED)
	$(BIN)/python -m pytest $(WORKERS) -m 'not slow and not levels' $(PYTEST_ARGS)

test-rest: $(INSTALLED)
	$(BIN)/python -m pytest $(WORKERS) -m 'slow or levels' $(PYTEST_ARGS)

test-all: $(INSTALLED)
	$(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)

test-numba: $(INSTALLED)
	SPARSENET_KERNELS=numba $(BIN)/python -m pytest $(WORKERS) $(PYTEST_ARGS)

# Tests over generated examples, with many more of them, and different ones each time.
fuzz: $(INSTALLED)
	SPARSENET_EXAMPLES=fuzz $(BIN)/python -m pytest $(WORKERS) -m hypothesis $(PYTEST_ARGS)

# The native driver and the kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(INSTALLED)
	$(BIN)/python tools/sanitize.py $(PYTEST_ARGS)

# Under emulation: see the scripts for what they need and what they prove. The whole of test-arm takes hours.
test-arm: $(INSTALLED)
	$(BIN)/python tools/arm.py $(PYTEST_ARGS)

test-arm-quick: $(INSTALLED)
	$(BIN)/python tools/arm.py --quick

test-x86-levels: $(INSTALLED)
	$(BIN)/python tools/x86.py

# A source distribution, and wheels for x86_64 and aarch64, each tried in an empty environment.
wheels: $(INSTALLED)
	$(BIN)/python tools/wheels.py

lint: $(LINTERS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	$(BIN)/python tools/tidy.py
	$(BIN)/codespell

# The site, in site/. Warnings are errors.
.PHONY: docs
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Only what the site needs: the reference is read from the sources, so nothing is compiled.
$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
	  | $(PIP) install --requirement /dev/stdin
	@touch $@

bench: $(INSTALLED)
	$(BIN)/python -m bench.readers
	$(BIN)/python -m bench.lsh

# Fails if a figure has fallen by more than 5 % since another commit: make bench-check BASE=HEAD~1
BASE ?= main
bench-check: $(INSTALLED)
	$(BIN)/python -m bench.check --base $(BASE)

# What bench/quality.py compares with, an environment each: gigabytes, for those who repeat the comparison.
PEERS := $(patsubst bench/requirements/%.txt,.bench/envs/%/.installed,$(wildcard bench/requirements/*.txt))
peers: $(INSTALLED) $(PEERS)

.bench/envs/%/.installed: bench/requirements/%.txt
	'$(PYTHON)' -m venv .bench/envs/$*
	.bench/envs/$*/bin/python -m pip --quiet --disable-pip-version-check --no-input install --requirement $<
	@touch $@

clean:
	rm -rf build dist site demo-output *.egg-info sparsenet/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find sparsenet tests bench -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .bench .arm

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'sparsenet needs Python 3.11 or newer with its venv module (on Debian and Ubuntu:' \
	  'apt install python3-venv); none was found. Name one: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@'$(PYTHON)' -c '$(NEW_ENOUGH)' || { echo 'PYTHON=$(PYTHON) is older than 3.11 or lacks venv and ensurepip' >&2; exit 1; }
	'$(PYTHON)' -m venv $(VENV)

$(INSTALLED): $(BIN)/python pyproject.toml setup.py $(SOURCES)
	@echo 'Setting up $(VENV), once: a minute or two.' >&2
	$(PIP) install --editable '.[test]'
	@touch $@

# Only what the linters themselves are: another `pip install --editable` would compile the extension again.
$(LINTERS): $(INSTALLED)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["lint"], sep="\n")' \
	  | $(PIP) install --requirement /dev/stdin
	@touch $@
