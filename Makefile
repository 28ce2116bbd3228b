# One-line entrances. `make serve` and `make test` are the README's two commands.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: serve test check static long clients-newest clean

$(BIN)/duplex-gateway: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[test]'
	touch $@

serve: $(BIN)/duplex-gateway  ## install and serve the embedded cascade
	$(BIN)/duplex-gateway serve

# Tests on fed time, which keep all CPUs busy, and conversations in real time, which mostly wait.
CORE := $(addprefix tests/,turns protocol gateway recording simulation)
CONVERSATIONS := tests/endtoend

test: $(BIN)/duplex-gateway  ## everything that CI tests, what can share the machine in several processes
	@failed=0; \
	$(BIN)/python -m pytest -n auto $(CORE) || failed=1; \
	$(BIN)/python -m pytest -n 2 --dist loadfile $(CONVERSATIONS) || failed=1; \
	$(BIN)/python -m pytest $(addprefix --ignore=,$(CORE) $(CONVERSATIONS)) || failed=1; \
	exit $$failed

static: $(BIN)/duplex-gateway  ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: static test  ## what main must always pass

long: $(BIN)/duplex-gateway  ## what takes too long for CI: large property runs, latency and load benches
	$(BIN)/python -m pytest -m long
	$(BIN)/python -m clients.bench.voice_latency --start
	$(BIN)/python -m clients.bench.voice_latency --eagerness medium --start= --compare=--no-speculation
	$(BIN)/duplex-gateway turnlab endpointing --half test
	$(BIN)/python -m tests.models.eot_table
	$(BIN)/python -m clients.bench.load --start

clients-newest: $(BIN)/duplex-gateway  ## the client matrix with the newest releases instead of the locked ones
	DUPLEX_MATRIX_NEWEST=1 $(BIN)/python -m pytest tests/matrix

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
