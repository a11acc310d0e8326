# Needs Python 3.11 or newer with pip, and make. The targets install everything else into .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(PYTHON) -m pip --python $(BIN)/python install -qq --disable-pip-version-check
PURE := src/antiphon/wire/**,src/antiphon/core/**,src/antiphon/dialects/**

.PHONY: help setup serve test check clients golden bench load simulate mutants format clean
help: ## list these targets (the default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
setup: .venv/dev ## create .venv with all development tools
serve: .venv/runtime ## run the gateway on http://127.0.0.1:8484 (ARGS="…" is passed to antiphon serve)
	@exec $(BIN)/antiphon serve $(ARGS)
test: .venv/dev ## run all tests; none needs a network (ARGS="…" is passed to pytest)
	$(BIN)/pytest -q -n auto $(ARGS)
check: .venv/dev ## format, lint, types, tests, and 100 % branch coverage of wire, core and dialects
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n auto --cov --cov-report=
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100
clients: .venv/dev ## test real clients with the gateway (needs Node 20 with npm; ARGS="…" is passed to pytest)
	@$(PYTHON) -m tests.support.clients.install
	ANTIPHON_CLIENTS=1 $(BIN)/pytest -q -n auto tests/clients $(ARGS)
golden: .venv/dev ## rewrite the golden transcripts; review the diff like code
	$(BIN)/pytest -q tests/golden --update-golden
bench: .venv/runtime ## measure the CPU time per chunk of the pure layers
	$(BIN)/python bench/core.py $(ARGS)
load: .venv/runtime ## measure the gateway under load, next to nginx (needs nginx, a C compiler and ../shared/bench)
	$(BIN)/python bench/gateway.py $(ARGS)
simulate: .venv/dev ## simulate the gateway in a faulty world (SEEDS, FIRST, SEED, MINUTES, WORKERS, CORPUS=1, RESULTS)
	@$(BIN)/python -m tests.simulation.simulate $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(FIRST),--first $(FIRST)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(CORPUS),--corpus) $(if $(RESULTS),--results $(RESULTS)) $(ARGS)
mutants: .venv/dev ## plant defects one by one; the simulation must find each of them
	@$(BIN)/python -m tests.simulation.mutants $(ARGS)
format: .venv/dev ## format, and apply automatic lint fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
clean: ## remove .venv, .clients, caches and reports
	rm -rf .venv .clients .coverage htmlcov dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp that is older than pyproject.toml means that the environment must be created again.
.venv/runtime: pyproject.toml
	@echo "creating .venv with $(PYTHON): once, and again when pyproject.toml changes"
	@$(PYTHON) -m venv --without-pip .venv
	@$(INSTALL) --editable .
	@touch $@
.venv/dev: .venv/runtime
	@echo "adding the development tools to .venv"
	@$(INSTALL) --editable '.[dev]'
	@touch $@
