# Needs Python 3.11 or newer and make; everything else is installed into .venv from requirements/.
.DEFAULT_GOAL := help
.PHONY: help demo test check types unit properties museum sim swarm lockstep interop picture torture torture-lake endurance fuzz bench site gen changelog release workflows audit lock clean

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Tests start thousands of Python processes: each would compile what it imports where this is set, as in many containers.
unexport PYTHONDONTWRITEBYTECODE
# --progress-bar=on shows the large downloads (Spark is 450 MB) where there is a terminal.
INSTALL := $(PIP) install --quiet --progress-bar=on --no-deps --require-hashes --requirement

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: .venv/demo ## real flights through our broker and group into Spark, one worker killed on the way
	$(BIN)/python -m demo

test: check ## everything a change must pass
	$(BIN)/python -m pytest -q -n 4 -m "not interop" --ignore=tests/unit --ignore=tests/tidy --ignore=tests/interop

check: .venv/dev ## format, lint, types, layers, tidy and unit tests: three minutes on two cores
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(MAKE) --no-print-directory --jobs=2 types unit

types: .venv/dev
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: .venv/dev
	$(BIN)/python -m pytest -q -n 2 tests/tidy tests/unit -m "not spark and not interop"

properties: .venv/dev ## ten times the inputs of make test for properties and worlds of services, and a generated fleet; more: make properties EXAMPLES=1000
	KOHORT_EXAMPLES=$(or $(EXAMPLES),400) $(BIN)/python -m pytest -q -n 2 --timeout=1800 tests/properties tests/quality/test_fleet_findings.py tests/sim/test_process_worlds.py

museum: .venv/dev ## how many seeds the simulator needs to find each bug that others shipped, into docs/museum.md
	$(BIN)/python -m tests.quality

sim: .venv/dev ## the simulated world of one seed, as a trace: make sim SEED=7
	$(BIN)/kohort sim --seed $(or $(SEED),0)

swarm: .venv/dev ## ten thousand simulated worlds that nobody has seen, or: make swarm SEEDS=1000 FROM=0
	$(BIN)/kohort sim --seeds $(or $(SEEDS),10000) --from $(or $(FROM),$(shell date +%s))

lockstep: .venv/interop ## Kafka's own coordinators and assignors beside ours, on 150,000 random steps: make lockstep SEED=7 for one seed
	$(BIN)/python -m tests.lockstep $(if $(SEED),--seed $(SEED) --trace)

interop: .venv/interop ## real clients on our broker, our clients on a real Kafka
	$(BIN)/python -m pytest -v -m interop tests/interop
	$(BIN)/python -m interop.table

picture: .venv/interop ## write the picture of the console in README.md again, by Chromium
	$(BIN)/python -m tests.interop.console_picture

torture: .venv/interop ## real broker, mixed clients, faults at once; nothing acknowledged is lost: make torture MINUTES=10 SEED=7 KEEP=files
	$(BIN)/python -m interop.torture --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep $(KEEP))

torture-lake: .venv/interop ## jobs into tables, every process killed at random; each row is there once: make torture-lake MINUTES=10 SEED=7 KEEP=files
	$(BIN)/python -m interop.lake_torture --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(KEEP),--keep $(KEEP))

endurance: .venv/interop ## groups of Java, librdkafka and kgo whose heartbeats are parked for long; nothing may move: make endurance MINUTES=60
	$(BIN)/python -m interop.endurance --minutes $(or $(MINUTES),60)

fuzz: .venv/fuzz ## bytes guided by coverage for every decoder: make fuzz MINUTES=60 TARGET=frames
	$(BIN)/python -m tests.decoders --minutes $(or $(MINUTES),5) $(if $(TARGET),--target $(TARGET))

bench: .venv/interop ## every figure beside its peer in the same run, into docs/figures.md
	$(BIN)/python -m bench
	$(BIN)/python -m bench.table

gen: .venv/dev ## write the generated files again
	$(BIN)/python -m scripts.message_stubs
	$(BIN)/python -m scripts.settings_table
	$(BIN)/python -m scripts.metrics_table
	$(BIN)/python -m scripts.authorization_table
	$(BIN)/python -m scripts.invariants_table
	$(BIN)/python -m scripts.conformance
	$(BIN)/python -m scripts.decisions_index
	$(BIN)/python -m scripts.lockstep_table
	$(BIN)/python -m scripts.show_examples

site: .venv/site ## the manual of docs/ as a site, every link checked, into build/site
	$(BIN)/python -m scripts.site

changelog: .venv/dev ## write CHANGELOG.md from changes/, or release: make changelog VERSION=0.2.0
	$(BIN)/python -m scripts.changelog $(VERSION)

release: .venv/release ## wheel, source distribution, SBOMs and checksums in dist/, tried in empty environments: make release DRAFT=1
	$(BIN)/python -m scripts.release $(if $(DRAFT),--draft)

workflows: .venv/release ## checks of the workflows (zizmor, and actionlint where Go is) and of the Containerfile (hadolint)
	$(BIN)/zizmor --offline --quiet --no-progress .github/workflows
	$(BIN)/hadolint deploy/Containerfile deploy/service/Containerfile
	@if command -v go >/dev/null; then go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12; else echo "Go is not installed: actionlint did not run"; fi

audit: .venv/bin/python ## known vulnerabilities of what requirements/ pins, by pip-audit
	$(BIN)/python requirements/audit.py

lock: .venv/interop ## resolve requirements/ again from pyproject.toml
	$(PIP) install --quiet uv
	$(BIN)/python requirements/lock.py

clean: ## remove what make and the tests wrote
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "kohort needs Python 3.11 or newer; none was found. Say which with: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"; rm -rf .venv; exit 1; }

# One stamp for each set; demo, dev and interop hold the one before them, so a larger one satisfies the smaller.
.venv/demo .venv/dev .venv/interop .venv/fuzz .venv/release .venv/site: .venv/%: requirements/%.txt pyproject.toml | .venv/bin/python
	@echo "Installing requirements/$*.txt into .venv (the first time takes a few minutes: Spark is a large download)"
	$(INSTALL) requirements/$*.txt
	$(PIP) install --quiet --no-deps --editable .
	@touch $@
