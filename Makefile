# Everything runs from one virtual environment with locked versions; the lab needs root on Linux.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: demo test test-all test-unit lint fuzz bench bench-fleet bench-deploy lab-up lab-down lock docs clean

$(VENV)/.ready: requirements.lock pyproject.toml lab/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "rackproof needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e lab
	touch $@

# From "as leased" to a proven baseline on a simulated rack, and one fault found and healed. KEEP=1 leaves the lab up.
demo: $(VENV)/.ready
	@$(BIN)/python lab/demo.py

test: $(VENV)/.ready lint
	$(BIN)/pytest tests -m "not long"

# And the long stories in the simulated rack: change control, drift, nightly, platforms, images, weights, serving, self-build.
test-all: $(VENV)/.ready lint
	$(BIN)/pytest tests

test-unit: $(VENV)/.ready
	$(BIN)/pytest tests -m "not lab"

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/judge_cpu.py

# A deploy that changes nothing, on 8 simulated nodes, against ansible-core.
bench-deploy: $(VENV)/.ready
	$(BIN)/python benchmarks/deploy_nochange.py

# Property tests with 20,000 examples each: for a night. RACKPROOF_FUZZ_EXAMPLES=500 for a look in between.
fuzz: $(VENV)/.ready
	RACKPROOF_FUZZ=nightly $(BIN)/pytest tests/unit/fuzz

# Against a bare ssh loop, testinfra and ansible on loopback; see docs/performance.md. ARGS="--nodes 1,18 --checks 6"
bench-fleet: $(VENV)/.ready
	$(BIN)/python benchmarks/verify_fleet.py $(ARGS)

lab-up: $(VENV)/.ready
	$(BIN)/rackproof-lab up

lab-down: $(VENV)/.ready
	$(BIN)/rackproof-lab down

lock:
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements.lock pyproject.toml

docs: $(VENV)/.ready
	$(BIN)/rackproof explain --markdown > docs/requirements.md
	cp src/rackproof/schemas/verdict.schema.json docs/verdict.schema.json

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
