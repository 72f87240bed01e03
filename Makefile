# Everything works from a fresh clone: the first target that needs it makes .venv with plain pip, and keeps it until what
# it is made from changes. See docs/decisions/0001-plain-pip-editable-installs.md.

PYTHON ?= python3
VENV ?= .venv
WHEELS ?= dist
BIN := $(VENV)/bin

# The core first, the code-free root last. tests/zephon-testkit has a version of its own and is installed like the rest.
DISTRIBUTIONS := ./zephon_core $(addprefix ./,$(sort $(wildcard plugins/zephon-*) $(wildcard tests/zephon-testkit))) ./.
# Those of the Ray runner start clusters, which takes minutes, and have a target of their own.
TESTS := zephon_core/tests $(filter-out plugins/zephon-ray/tests,$(sort $(wildcard plugins/zephon-*/tests))) tests

# The stamp's name is a checksum of all that decides what is installed, so neither a checkout nor a touched file makes the
# environment again, and an interrupted installation is not taken for a finished one.
INPUTS := $(addsuffix /pyproject.toml,$(DISTRIBUTIONS)) constraints.txt requirements/dev.txt
STAMP := $(VENV)/.installed-$(shell (echo $(INPUTS); cat $(INPUTS)) | cksum | cut -d ' ' -f 1)

.DEFAULT_GOAL := help
.PHONY: help install editables demo test test-author test-ray test-s3 lint wheels bench clean conformance chaos soak golden fuzz

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation $(addprefix --editable ,$(DISTRIBUTIONS))
	rm -f $(VENV)/.installed-*
	touch $@

install: $(STAMP)  ## make .venv: the core, all plugins and the development tools, editable

editables:  ## print the command that installs this tree into an environment of your own
	@echo pip install $(addprefix -e ,$(DISTRIBUTIONS))

demo: $(STAMP)  ## run the demonstration
	$(BIN)/zephon demo

# Two processes for the two cores of CI; a file's tests stay together, so that its fixtures are made once. One that crashes
# ends the run: a new one would wait for ever for the rest of the file.
test: lint  ## check the sources, then run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart=0 --ignore=tests/author $(TESTS)

test-author: $(STAMP)  ## render, build, install and check a plugin of each kind, a few minutes
	$(BIN)/python -m pytest tests/author

test-ray: $(STAMP)  ## run the tests of the Ray runner on clusters of this machine and a minute of chaos, about ten minutes
	$(BIN)/python -m pytest plugins/zephon-ray/tests
	$(BIN)/python -m pytest -m ray tests/runners
	$(BIN)/python tests/runners/chaos.py --runner ray --seconds 60 --every 1.5

test-s3: $(STAMP)  ## run the tests of zephon-obstore against an S3 server on this machine, which is installed for it
	set -e; environment=$$(mktemp -d); $(PYTHON) -m venv $$environment; \
	$$environment/bin/python -m pip install --quiet --requirement plugins/zephon-obstore/tests/requirements.txt; \
	ZEPHON_MOTO_SERVER=$$environment/bin/moto_server $(BIN)/python -m pytest plugins/zephon-obstore/tests; rm -rf $$environment

lint: $(STAMP)  ## style, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheels: $(STAMP)  ## build the wheel of every distribution into dist/
	rm -rf $(WHEELS)
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(WHEELS) $(DISTRIBUTIONS)

conformance: $(STAMP)  ## run the kit on our own plugins and write docs/conformance and the table in the README anew
	$(BIN)/python tests/support/zephon_conformance.py

bench: $(STAMP)  ## measure against the budgets of the design, a few minutes
	set -e; for benchmark in tests/benchmarks/bench_*.py; do $(BIN)/python $$benchmark; done

chaos: $(STAMP)  ## kill workers at random for a minute and compare with a calm run
	$(BIN)/python tests/runners/chaos.py --seconds 60

soak: $(STAMP)  ## ten minutes of random restarts; fails where memory grows
	$(BIN)/python tests/runners/soak.py --seconds 600

golden:  ## write every format's golden files anew with its own library, each in an environment of its own
	set -e; for folder in plugins/zephon-*/tests/golden; do \
		environment=$$(mktemp -d); $(PYTHON) -m venv $$environment; \
		$$environment/bin/python -m pip install --quiet --no-deps --requirement $$folder/requirements.txt; \
		$$environment/bin/python $$folder/make_golden.py; rm -rf $$environment; \
	done

fuzz: $(STAMP)  ## damage files of every format 3,000 times and read them, some minutes
	set -e; for script in plugins/zephon-*/tests/fuzz_*.py; do $(BIN)/python $$script 3000 1; done

clean:  ## remove .venv, wheels and caches
	rm -rf $(VENV) $(WHEELS) .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
