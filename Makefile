# make alone lists the targets; `make demo` and `make test` need Python 3.11 or later and make, and nothing else
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WHEEL  := build/wheel
# what goes into the wheel: a change of any of it makes a new one
SOURCES := $(shell find schemas producer consumer embedded -type f -not -name '*.pyc' 2>/dev/null) pyproject.toml README.md LICENSE
CODE    := schemas producer consumer embedded tests benchmarks
# pytest's processes, each with servers of its own; more than two processors have use for, since tests wait a lot
WORKERS := 3

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do printf '%-10s %s\n' "$$name" "$$what"; done

.PHONY: demo
demo: $(VENV)/.wheel ## the main job, on a real Kafka and a real Postgres on this machine
	$(BIN)/python -m tests.demo

.PHONY: test
test: check $(VENV)/.wheel ## lint, types, and all tests, against the built wheel
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST)

.PHONY: check
check: $(VENV)/.wheel ## lint, types, layout
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

.PHONY: laws
laws: $(VENV)/.wheel ## the laws with many more examples: make laws EXAMPLES=20000
	MILEPOST_LAW_EXAMPLES=$(or $(EXAMPLES),5000) $(BIN)/python -m pytest --timeout 0 tests/properties tests/unit

.PHONY: chaos
chaos: $(VENV)/.wheel ## kill and cut at random, and check the view: make chaos ROUNDS=1000 SEED=7 JOBS=4
	$(BIN)/python -m tests.chaos --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED)) --jobs $(or $(JOBS),1) $(CHAOS)

.PHONY: bench
bench: $(VENV)/.wheel ## what it costs, measured: make bench BENCH=publish for one
	$(BIN)/python -m benchmarks $(BENCH)

.PHONY: lock
lock: $(VENV)/.lock ## bring requirements.lock up to date with pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' \
	  --output-file requirements.lock
	cd benchmarks/rivals && $(abspath $(BIN))/uv pip compile rivals.in --quiet --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' \
	  --output-file rivals.lock

.PHONY: clean
clean: ## remove what the other targets made here
	if [ -x $(BIN)/milepost ] && [ -d .demo ]; then $(BIN)/milepost embedded down --dir .demo; fi
	rm -rf $(VENV) build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage

$(VENV)/.lock: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or later, found $$($(PYTHON) --version); name one with: make PYTHON=python3.11 …" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.wheel: $(VENV)/.lock $(SOURCES)
	rm -rf $(WHEEL)
	$(BIN)/python -m build --wheel --no-isolation --outdir $(WHEEL) . >/dev/null
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall $(WHEEL)/*.whl
	@touch $@
