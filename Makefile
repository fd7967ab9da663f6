# Everything runs from .venv, which setup makes. Paths stay relative: the clone may lie in a folder with a space.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
INSTALLED := $(VENV)/.installed
PIP_INSTALL := $(RUN) pip install --quiet --no-compile --disable-pip-version-check
# PySpark comes as source, of which pip makes a wheel: compressing its jars once more took twelve seconds of a processor.
STORED := --use-pep517 --config-settings=--build-option=--compression=stored
DELTA := $(VENV)/delta
# There are jars for this one.
DELTA_PYSPARK := 4.2.0
VERSITYGW := v1.8.0
# What mypy found out is one for all clones, so a new one takes a second for it, not fifteen: mypy compares contents.
TYPES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tidemark/mypy

CONNECTORS := $(patsubst connectors/%/__main__.py,%,$(wildcard connectors/*/__main__.py))
# A benchmark's name is that of its file, in whatever folder.
BENCHMARKS = $(basename $(notdir $(shell grep -ls '__name__ == "__main__"' benchmarks/*.py benchmarks/*/*.py)))
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# What a package client inside an image build needs to know of this machine, where it is set.
FORWARDED := DOCS_URL PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST HTTP_PROXY HTTPS_PROXY NO_PROXY
BUILD = export PIP_INDEX_URL="$${PIP_INDEX_URL:-$$("$(PYTHON)" -m pip config get global.index-url 2>/dev/null)}"; docker build
FACTS = --build-arg VERSION=$(VERSION) $(foreach name,$(FORWARDED),$${$(name):+--build-arg $(name)})

# Tests often wait for servers: four processes keep two cores busy. Six took 16:15 where four took 15:49.
WORKERS := 4
SOAK_SECONDS := 600
# What starts again and again, as a connector does in tests, is not to compile its modules each time.
check test test-fast soak bench performance demo: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-fast test-newest soak check delta readers versitygw bench performance images runtime-image constraints python java

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(INSTALLED) ## Make .venv with everything in it, at the tested versions

demo: java setup ## Capture a live Postgres into Spark tables, and prove them equal (about three minutes)
	$(VENV)/bin/tidemark demo

# A buffer of a megabyte is not to be given back to Linux after each use: that was a quarter of the tests' own processor
# time. What they start is measured with the usual allocator: tests/conftest.py.
ALLOCATOR := MALLOC_MMAP_THRESHOLD_=268435456 MALLOC_TRIM_THRESHOLD_=536870912

test: java setup check $(VENV)/spark.jsa ## Run the checks, then all tests (ARGS="-k window" for some of them)
	$(ALLOCATOR) $(RUN) pytest --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder $(ARGS)

test-fast: setup ## Run what needs no server but one PostgreSQL, and no Spark (ARGS as for test)
	TIDEMARK_TEST_FAST=1 $(RUN) pytest --numprocesses $(WORKERS) $(ARGS)

test-newest: ## Run the demo and the fast tests on the newest Python of this machine (or PYTHON), in a clone
	@PYTHON="$(if $(filter file,$(origin PYTHON)),,$(PYTHON))" .ci/newest-python

delta: $(DELTA)/.installed ## Install the PySpark that Delta Lake for Spark needs, for its tests

readers: setup ## Install DuckDB and Polars, which read the log in tests
	@$(PIP_INSTALL) --constraint constraints.txt --editable '.[readers]'

versitygw: setup ## Make a second server of S3's protocol for the tests, in some minutes; it needs Go
	GOBIN="$(CURDIR)/$(VENV)/bin" go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)

soak: setup ## Change tables at random while they are captured, for SOAK_SECONDS (600), and try all of what test samples
	TIDEMARK_TEST_SECONDS=$(SOAK_SECONDS) TIDEMARK_TEST_SEED=$${TIDEMARK_TEST_SEED:-$$$$} $(RUN) pytest --numprocesses 2 \
	  tests/captures/postgres/test_random_table_changes.py \
	  tests/captures/mysql/tables_that_change/test_random_table_changes.py tests/conformance/test_random_alterations.py $(ARGS)
	$(RUN) pytest --numprocesses 2 -m hypothesis --hypothesis-profile=thorough --timeout=0 $(ARGS)
	TIDEMARK_TEST_ALL=1 TIDEMARK_TEST_STOPS=20 $(RUN) pytest tests/captures/postgres/server/test_server_shutdown.py \
	  tests/captures/mysql/server/test_server_shutdown.py tests/end_to_end/test_kills.py tests/end_to_end/alterations \
	  tests/end_to_end/generations tests/end_to_end/test_capture_to_bucket.py \
	  tests/spark_sink/pipeline/test_drivers.py tests/spark_sink/pipeline/test_generation_drivers.py \
	  tests/spark_sink/test_delta_lake.py tests/backfill/test_interleavings.py \
	  tests/runtime/changelog/test_segments.py tests/runtime/changelog/test_crash.py \
	  tests/captures/engine/test_commands.py tests/captures/mysql/tables_that_change/test_grammar.py \
	  tests/captures/postgres/tables_that_change/test_names_in_between.py \
	  tests/captures/postgres/tables_that_change/test_followed_columns.py tests/deploy $(ARGS)
	TIDEMARK_TEST_ALL=1 $(RUN) pytest --numprocesses 2 --dist loadgroup -m drawn $(ARGS)

check: setup ## Run ruff, mypy, the import contracts, and see that generated documents are up to date
	@# The types take longest: the rest is done beside them. Workers help the first time, and cost a second after that.
	@$(RUN) mypy --cache-dir "$(TYPES)" $(if $(wildcard $(TYPES)),,--num-workers auto) & types=$$!; \
	$(RUN) ruff check . && $(RUN) ruff format --check . && $(VENV)/bin/lint-imports --no-logo \
	  && $(RUN) tests.house.generated --check; others=$$?; \
	wait $$types && exit $$others

bench: $(VENV)/.bench ## Run every benchmark, or one (NAME=postgres_log)
	@for name in $(or $(NAME),$(BENCHMARKS)); do echo "== $$name"; \
	  file=$$(find benchmarks -name "$$name.py"); [ -n "$$file" ] \
	    || { echo "there is no benchmark $$name, but: $(BENCHMARKS)" >&2; exit 1; }; \
	  $(RUN) "$$(echo "$${file%.py}" | tr / .)" $(ARGS) || exit; done

performance: java $(VENV)/.bench ## Measure what docs/performance.md tells, in twenty minutes, and write it (NAME=…, ARGS=--quick)
	@$(RUN) benchmarks.performance $(NAME) $(ARGS)

images: $(CONNECTORS:%=image-%) ## Build the image of every connector

runtime-image: ## Build the image that captures and keeps tables (EXTRAS=postgres,mysql: without Spark)
	@$(BUILD) --tag tidemark/runtime$(if $(EXTRAS),-slim --build-arg EXTRAS=$(EXTRAS)) $(FACTS) \
	  --file deploy/runtime/Dockerfile .

constraints: setup ## Upgrade everything and rewrite constraints.txt
	$(RUN) pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev,bench,readers]'
	@{ grep '^#' constraints.txt; $(RUN) pip freeze --exclude-editable; } >$(VENV)/constraints.txt
	@mv $(VENV)/constraints.txt constraints.txt

$(INSTALLED): pyproject.toml constraints.txt | python
	@echo "installing into $(VENV): a minute or two the first time"
	@"$(PYTHON)" -m venv $(VENV)
	@# Bytecode is made where it is used: for all of it this took twenty seconds of a processor more.
	@$(PIP_INSTALL) --no-deps $(STORED) --constraint constraints.txt pyspark
	@$(PIP_INSTALL) --constraint constraints.txt --editable '.[dev]'
	@touch $@

# That PySpark and no more: all else is found in .venv.
$(DELTA)/.installed: $(INSTALLED) tests/spark_sink/engine/delta_session.py | java
	@rm -rf $(DELTA)
	@$(PIP_INSTALL) --no-deps $(STORED) --target $(DELTA) "pyspark==$(DELTA_PYSPARK)"
	@PYTHONPATH=$(DELTA) $(RUN) tests.spark_sink.engine.delta_session >$(DELTA)/session.log 2>&1 \
	  || { cat $(DELTA)/session.log; exit 1; }
	@touch $@

# A JVM loads Spark from it in half the time.
$(VENV)/spark.jsa: $(INSTALLED)
	@$(RUN) tests.spark_classes $@ || { rm -f $@; echo "no archive of Spark's classes: its tests take longer" >&2; }

$(VENV)/.bench: $(INSTALLED)
	@$(PIP_INSTALL) --constraint constraints.txt --editable '.[dev,bench]'
	@touch $@

python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "tidemark needs Python 3.11 or later, and $(PYTHON) is: $$("$(PYTHON)" --version 2>&1)." >&2; \
	  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	[ "$${version:-0}" -ge 17 ] || { \
	  echo "Spark needs Java 17 or later, and $$java is: $$("$$java" -version 2>&1 | head -n 1)." >&2; \
	  echo "On Debian and Ubuntu: apt-get install openjdk-17-jre-headless; or set JAVA_HOME." >&2; exit 1; }

image-%:
	@$(BUILD) --tag tidemark/$* --build-arg CONNECTOR=$* $(FACTS) .
