# Needs Python 3.11 or newer with pip, and make. The targets install everything else into .venv.
PYTHON ?= python3
BIN := .venv/bin
# The Python of .venv, which may be on the path of the user, has no pip: the environment is made with another one.
export PATH := $(subst $(CURDIR)/$(BIN):,,$(PATH))
# pip install for one environment: shows each package, and fails if pip fails.
install = { $(PYTHON) -m pip --python $(1)/bin/python install --disable-pip-version-check --progress-bar off $(2) \
	|| touch $(1)/failed; } | while read -r verb rest; do case "$$verb" in \
	Collecting | Downloading | Installing) echo "  $$verb $$rest" ;; esac; done; ! rm $(1)/failed 2> /dev/null
# What pytest gets: ARGS, and the directory if ARGS names no path of its own.
among = $(if $(filter tests/%,$(ARGS)),,$(1)) $(ARGS)
# Refuses a Python that is missing or too old, or has no pip, before anything is created or downloaded.
GOAL := $(firstword $(MAKECMDGOALS))
require_python = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
	found=$$($(PYTHON) --version 2>&1 | sed -n 's/^Python \([0-9.]*\).*/\1/p'); \
	echo "Antiphon needs Python 3.11 or newer; $(PYTHON) is $${found:-not installed}." >&2; \
	for each in python3.14 python3.13 python3.12 python3.11; do if $$each -c '' 2> /dev/null; then \
		echo "Run: make $(GOAL) PYTHON=$$each" >&2; exit 1; fi; done; \
	echo "Install a newer Python, then run: make $(GOAL) PYTHON=/path/to/python3" >&2; \
	echo "Or let uv install one: uv tool install --python 3.13 . && antiphon serve" >&2; exit 1; }; \
	$(PYTHON) -m pip --version > /dev/null 2>&1 || { \
	echo "$(PYTHON) has no pip. Install it (on Debian and Ubuntu: apt install python3-pip), or choose another Python with PYTHON=…" >&2; exit 1; }
# Suites that `make postgres` runs on PostgreSQL; the default run has most of them on SQLite.
LIFECYCLE := $(patsubst %,tests/e2e/test_%.py,resume conversations openai_sdk_lifecycle lifecycle_validation \
	state_survives references websocket agents_sdk shutdown client_disconnect) \
	tests/clients/test_openai_lifecycle.py tests/clients/test_codex_attach.py
PURE := src/antiphon/framing/**,src/antiphon/core/**,src/antiphon/dialects/**
PURE_TESTS := tests/unit/framing tests/unit/core tests/unit/dialects
# Properties try the same examples in each run. CI tries others for each commit: its seed is the number of the commit, so
# that a commit gives one result. The seed is printed (`make check SEED=N` repeats it).
SEEDED := $(patsubst %,--hypothesis-seed=%,$(or $(SEED),$(if $(CI),$(shell git rev-list --count HEAD))))

# What `make help` lists: titles, each with its targets.
GROUPS := Use: serve wheel docs cluster  Develop: setup test format golden types images clean \
	Check: check clients page installed postgres redis metrics cluster-test \
	Break: simulate mutants crashes faults fuzz mutation chaos  Measure: bench instructions load

.PHONY: help setup serve test check clients page images wheel installed docs golden types bench instructions load simulate mutants crashes metrics faults fuzz mutation format clean redis postgres cluster cluster-test chaos
help:
	@awk -F ':.*## ' -v groups='$(GROUPS)' '/^[a-z-]+:.*## / { about[$$1] = $$2 } \
		END { count = split(groups, names, " "); for (i = 1; i <= count; i++) \
		if (names[i] in about) printf "  make %-12s %s\n", names[i], about[names[i]]; \
		else printf "%s%s\n", (i > 1 ? "\n" : ""), names[i] }' Makefile
setup: .venv/dev ## create .venv with all development tools
serve: .venv/runtime ## run the gateway on http://127.0.0.1:8484 (ARGS="…" is passed to antiphon serve)
	@exec $(BIN)/antiphon serve $(ARGS)
test: .venv/dev ## run the quick tests, or those of ARGS="…" (options and paths of pytest); none needs a network
	$(BIN)/pytest -q -n auto $(or $(ARGS),--quick)
# Measuring the coverage doubles the time of a test, so only the unit tests of the pure layers are measured.
check: .venv/dev ## format, lint, types, every test, and 100 % branch coverage of framing, core and dialects by their unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=bench $(BIN)/mypy bench/*.py # programs that import each other by name
	$(BIN)/pytest -q -n auto $(SEEDED) --cov --cov-report= $(PURE_TESTS)
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100
	$(BIN)/pytest -q -n auto $(SEEDED) $(PURE_TESTS:%=--ignore=%)
clients: .venv/dev ## test real clients with the gateway (needs Node 20 with npm; ARGS="…" is passed to pytest)
	@$(PYTHON) -m tests.support.clients.install
	ANTIPHON_CLIENTS=1 $(BIN)/pytest -q -n auto $(call among,tests/clients)
page: .venv/dev ## test the page at /ui in Chromium (installs Debian's package; needs Node 20 with npm for Codex; ARGS="…" is passed to pytest)
	@$(BIN)/python -m tests.support.pages.install
	@$(PYTHON) -m tests.support.clients.install node
	ANTIPHON_PAGE=1 $(BIN)/pytest -q -n 2 $(call among,tests/page)
images: .venv/dev ## take the pictures of the page in docs/images
	@$(BIN)/python -m tests.support.pages.install
	@$(BIN)/python -m tests.support.pages.images docs/images
wheel: ## build the package as dist/antiphon-VERSION-py3-none-any.whl
	@rm -f dist/*.whl
	@$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl
installed: .venv/dev wheel ## test the wheel in a new virtual environment (ARGS="…" is passed to pytest)
	@$(PYTHON) -m venv --clear --without-pip dist/installed
	@$(call install,dist/installed,dist/*.whl)
	ANTIPHON_INSTALLED=dist/installed $(BIN)/pytest -q -n0 $(call among,tests/installed)
docs: .venv/dev ## build the documentation site in dist/site; a dead link or another warning is an error
	@rm -rf dist/pages && mkdir -p dist/pages/bench
	@cp -R README.md CONTRIBUTING.md CHANGELOG.md LICENSE docs examples deploy dist/pages
	@cp -R bench/results dist/pages/bench
	@# The first page of the site is docs/landing.md; its links are those of the directory docs.
	@sed 's#](\([a-z]\)#](docs/\1#g' docs/landing.md > dist/pages/README.md && rm dist/pages/docs/landing.md
	@# llms.txt is the index for language models; it names the pages as they were written.
	@mv dist/pages/docs/llms.txt dist/pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@cd dist/pages && find . -name '*.md' | tar -cf - -T - | tar -xf - -C ../site
	@echo "dist/site/index.html"
redis: .venv/dev ## test processes that share a Redis (installs the Debian package redis-server if it is missing)
	@command -v redis-server >/dev/null || apt-get install -qq -y redis-server
	ANTIPHON_REDIS=1 $(BIN)/pytest -q tests/unit/engine/shared tests/unit/observe/test_redis_counters.py $(ARGS)
golden: .venv/dev ## rewrite the golden transcripts; review the diff like code
	$(BIN)/pytest -q tests/golden tests/unit/core/translation/test_mcp_transcripts.py --update-golden
types: .venv/dev ## write src/antiphon/types.py: the typed dictionaries of requests, responses and events
	$(BIN)/python -m tests.support.public_types
	$(BIN)/ruff format --quiet src/antiphon/types.py
bench: .venv/runtime ## measure the CPU time per chunk of the pure layers
	$(BIN)/python bench/core.py $(ARGS)
instructions: .venv/runtime ## count the instructions of responses (installs Debian's valgrind; ARGS="--against CHECKOUT", --check, --write)
	@command -v valgrind >/dev/null || { apt-get -qq update && apt-get install -qq -y valgrind; }
	$(BIN)/python bench/instructions.py $(ARGS)
load: .venv/runtime ## measure the gateway under load, next to nginx, then each client format (needs nginx, a C compiler and ../shared/bench)
	$(BIN)/python bench/gateway.py $(ARGS)
	$(BIN)/python bench/formats.py
simulate: .venv/dev ## simulate the gateway in a faulty world (SEEDS, FIRST, SEED, MINUTES, WORKERS, CORPUS=1, RESULTS)
	@$(BIN)/python -m tests.simulation.simulate $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(FIRST),--first $(FIRST)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(CORPUS),--corpus) $(if $(RESULTS),--results $(RESULTS)) $(ARGS)
mutants: .venv/dev ## plant defects one by one; the simulation must find each of them
	@$(BIN)/python -m tests.simulation.mutants $(ARGS)
crashes: .venv/dev ## kill a gateway on SQLite at random moments under load (KILLS, SEED)
	@$(BIN)/python -m tests.support.crashes $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(ARGS)
metrics: .venv/dev ## check /metrics with promtool, and the sums of two processes (installs Debian's prometheus)
	@$(BIN)/python -m tests.support.prometheus_tools
	ANTIPHON_PROMETHEUS=1 $(BIN)/pytest -q tests/prometheus $(ARGS)
faults: .venv/dev ## let every file operation of the stores fail once (needs Linux and a C compiler)
	ANTIPHON_FAULT_STRIDE=1 $(BIN)/pytest -q tests/e2e/test_disk_faults.py $(ARGS)
fuzz: .venv/dev ## feed mutated recordings to every framer and decoder (MINUTES, SEED, TARGET)
	@$(BIN)/python -m tests.support.fuzzing.run $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(TARGET),--target $(TARGET)) $(ARGS)
mutation: .venv/dev ## change core/stream and framing in small ways; a unit test must fail (COUNT, SEED, MINUTES)
	@$(BIN)/python -m tests.support.mutation $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)
postgres: .venv/dev ## test the PostgreSQL store, and lifecycle and client suites on it (installs what is missing)
	@$(PYTHON) -m tests.support.postgres
	@$(PYTHON) -m tests.support.clients.install
	ANTIPHON_POSTGRES=1 $(BIN)/pytest -q -n 2 -rs tests/contract/test_store*.py tests/unit/store/postgres \
		tests/unit/store/admin tests/unit/store/usage tests/e2e/test_postgres.py $(ARGS)
	ANTIPHON_TEST_STORE=postgres ANTIPHON_CLIENTS=1 $(BIN)/pytest -q -n 2 -rs $(LIFECYCLE) -k "not chat-in" $(ARGS) # in process: not this store
cluster: .venv/dev ## run three gateways behind nginx on a private PostgreSQL and Redis, with a live table, until Ctrl-C (ARGS="--seconds N")
	@$(BIN)/python -m tests.support.cluster.install
	@exec $(BIN)/python -m tests.support.cluster.show $(ARGS)
cluster-test: .venv/dev ## test two gateways on a private PostgreSQL and Redis, one of which is killed (installs what is missing)
	@$(BIN)/python -m tests.support.cluster.install
	ANTIPHON_CLUSTER=1 ANTIPHON_REDIS=1 $(BIN)/pytest -q -n0 tests/cluster $(ARGS)
chaos: .venv/dev ## kill gateways, PostgreSQL and Redis under load, and check every response (MINUTES, SEED)
	@$(BIN)/python -m tests.support.cluster.install
	@$(BIN)/python -m tests.support.cluster.chaos.run $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(ARGS)
format: .venv/dev ## format, and apply automatic lint fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
clean: ## remove .venv, .clients, caches and reports
	rm -rf .venv .clients .coverage htmlcov dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp that is older than pyproject.toml means that the environment must be created again.
.venv/runtime: pyproject.toml
	@$(require_python)
	@echo "creating .venv with $(PYTHON): once, and again when pyproject.toml changes"
	@# Without its stamp, .venv was left by a failure, perhaps of another Python: it is replaced.
	@$(PYTHON) -m venv $(if $(wildcard .venv/runtime),,--clear) --without-pip .venv
	@$(call install,.venv,--editable .)
	@touch $@
.venv/dev: .venv/runtime
	@echo "adding the development tools to .venv"
	@$(call install,.venv,--editable '.[dev]')
	@touch $@
