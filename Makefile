# Two commands do everything: `make demo` and `make test`. Each makes .venv first if need be.
PYTHON ?= python3
BIN := .venv/bin
# Public data sets, where a folder of them lies beside the project.
ifneq ($(wildcard ../shared/data),)
export SEQBATCH_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test lint bench torture mutants requirements clean

demo: .venv/ready
	$(BIN)/python examples/demo.py

test: .venv/ready
	$(BIN)/python -m pytest

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/bench
	$(BIN)/python -m benchmarks

# Kill, starve and break campaigns thousands of times; writes docs/reliability.md.
KILLS ?= 3000
torture: .venv/ready
	$(BIN)/python -m tests.campaign.torture $(KILLS)

# Make some number wrong, one place at a time, and see that the tests notice; writes docs/mutants.md.
mutants: .venv/ready
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Pinned and hashed; re-made when a pin or the project's metadata changes.
.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/bench: .venv/ready requirements/bench.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	touch $@

# Refresh the pins (needs pip-tools); index lines are left out on purpose.
requirements:
	pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra dev -o requirements/dev.txt pyproject.toml
	pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra bench -c requirements/dev.txt -o requirements/bench.txt pyproject.toml

clean:
	rm -rf .venv out
