# The two main commands are `make demo` and `make test`. Both create .venv first if it is missing.
PYTHON ?= python3
BIN := .venv/bin
# Use the public data sets in ../shared/data if that folder exists.
ifneq ($(wildcard ../shared/data),)
export SEQBATCH_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-thorough test-all test-fast lint docs dist bench gpu torture torture-lake load fuzz spark mutants requirements clean

demo: .venv/ready
	$(BIN)/python examples/demo.py

# One worker per core and one thread per worker: more threads would only compete for the cores.
# Modules are compiled once, also where the environment asks Python not to keep them: the hundreds of
# processes that tests start would each compile them again.
JOBS ?= logical
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 POLARS_MAX_THREADS=1 \
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -rs -n $(JOBS) --dist worksteal

# Everything that can be wrong. What CONTRIBUTING.md calls thorough has more cases of the same.
test: .venv/ready
	$(PYTEST) -m "not thorough"

test-thorough: .venv/ready
	$(PYTEST) -m thorough

test-all: test test-thorough

# All but the slow tests, which CONTRIBUTING.md lists.
test-fast: .venv/ready
	$(PYTEST) -m "not slow and not thorough"

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Build the documentation (open out/site/index.html); a broken link fails.
docs: .venv/ready
	PATH=$(CURDIR)/$(BIN):$$PATH NO_MKDOCS_2_WARNING=1 mkdocs build --strict

# Build the wheel and the sdist without a network, and try each in an environment of its own.
dist: .venv/ready
	rm -rf out/dist
	$(BIN)/python -m hatchling build -d out/dist -t wheel -t sdist
	$(PYTHON) -m venv out/dist/tried
	for made in out/dist/*.tar.gz out/dist/*.whl; do \
		out/dist/tried/bin/pip install --quiet --force-reinstall "$$made[campaign]" || exit 1; \
		(cd out/dist && tried/bin/seqbatch doctor --store none.db && \
			tried/bin/python ../../examples/demo.py) || exit 1; \
	done

bench: .venv/bench
	$(BIN)/python -m benchmarks

# Time the lab on a GPU. GPU_PYTHON must have PyTorch and the extras gpu and lab.
GPU_PYTHON ?= $(BIN)/python
gpu:
	PYTHONPATH=src:.:$$PYTHONPATH $(GPU_PYTHON) -m benchmarks.gpu $(GPU)

# Kill campaigns and fill their disks thousands of times; writes docs/reliability.md.
KILLS ?= 3000
torture: .venv/ready
	$(BIN)/python -m tests.campaign.torture $(KILLS)

# Load-test the service, compared with a bare route and with workers killed; writes its section of
# docs/reliability.md.
load: .venv/ready
	$(BIN)/python -m benchmarks.service $(LOAD)

# Only the part of `make torture` that kills lakes.
torture-lake: .venv/ready
	$(BIN)/python -m tests.campaign.torture_lake $(KILLS)

# Send valid and invalid calls generated from the service's schema; none may crash it.
CASES ?= 5000
fuzz: .venv/ready
	$(BIN)/python -m tests.service.fuzzing $(CASES)

# Test waves on Spark (needs Java); installs pyspark, 450 MB, into .venv.
spark: .venv/spark
	$(BIN)/python -m pytest tests/campaign/warehouse/test_spark.py

# Break one number at a time and check that the tests notice; writes docs/mutants.md.
mutants: .venv/ready
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Pinned and hashed; rebuilt when a pin or the project's metadata changes.
.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/bench: .venv/ready requirements/bench.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	touch $@

.venv/spark: .venv/ready requirements/spark.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/spark.txt
	touch $@

# Refresh the pins (needs pip-tools), without index lines. pip-tools drops the markers of extras, so sed
# restores pgserver's: it has no wheels for Python 3.13, where the PostgreSQL tests are skipped.
requirements:
	pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra dev -o requirements/dev.txt pyproject.toml
	sed -i.bak 's/^\(pgserver==[^ ;]*\) \\$$/\1 ; python_version < "3.13" \\/' requirements/dev.txt && rm requirements/dev.txt.bak
	pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra bench -c requirements/dev.txt -o requirements/bench.txt pyproject.toml
	pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra spark -c requirements/dev.txt -o requirements/spark.txt pyproject.toml
	pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra service --extra postgres --build-deps-for wheel -c requirements/dev.txt -o requirements/service.txt pyproject.toml

clean:
	rm -rf .venv out
