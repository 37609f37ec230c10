# The stages in the order of the flow. `make sweep` and `make test` need only Python 3.11+.
PYTHON ?= python3
VENV   ?= .venv
STUDY  ?= pipelines/example.toml
FARM   ?= local
FARM_OPTIONS ?=
# make test COVERAGE=75 says which lines the tests run, too, and fails below that share; kernels do not count.
COVERAGE ?=
OLDEST ?= .venv-oldest
# The tests of a file share fixtures that take long to make: each process begins with half of the tests, then steals.
PARALLEL = -n 2 --dist worksteal
# What these files prove of small cases holds of the source: by default they run as plain Python, in test-slow compiled.
PLAIN  := $(shell grep -ls '^pytestmark = pytest.mark.plain' tests/*.py tests/*/*.py)
MEASURE = $(if $(COVERAGE),--cov=procure)
BIN    := $(VENV)/bin

# Hundreds of test processes import the same modules: without their bytecode each would compile these again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install sweep test test-slow test-oldest check docs release wheelhouse clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp per set of dependencies, so that a second `make` installs nothing.
# XGBoost comes in two builds that overwrite each other's files: the one that is not asked for any more goes first.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip uninstall --quiet --yes --disable-pip-version-check xgboost nvidia-nccl-cu12 2>/dev/null || true
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/.installed-hpc: pyproject.toml | $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[hpc]'
	@touch $@

$(VENV)/.installed-browser: pyproject.toml | $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[browser,pdf]'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

install: $(VENV)/.installed  ## install procure into .venv; `procure doctor --warm` then compiles every policy

sweep: $(VENV)/.installed$(if $(filter slurm pbs lsf sge,$(FARM)),-hpc)  ## the main job: packages, simulation, model, recommendation, report
	$(BIN)/procure buy $(STUDY) -k 10 --farm $(FARM) $(FARM_OPTIONS)
	@echo "Your own jobs: one day to get to know it, many days where queues empty overnight, whole weeks where they do not,"
	@echo "[futures] where load grows or shifts: docs/tutorial/first-study.md"

test: $(VENV)/.installed-test  ## install and run the default tests; COVERAGE=75 measures lines, too
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(PARALLEL) $(PLAIN) -m "not slow and not slurm and not compiled" $(MEASURE) $(if $(COVERAGE),--cov-report=)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not slurm and (compiled or not plain)" $(MEASURE) $(if $(COVERAGE),--cov-append --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE))

test-slow: $(VENV)/.installed-test $(if $(shell command -v chromium),$(VENV)/.installed-browser)  ## the slower tests, the documentation's commands, Slurm where there is one
	$(BIN)/python -m pytest $(PARALLEL) -m "slow or slurm or plain"

test-oldest: pyproject.toml  ## the default tests with the oldest versions that pyproject.toml allows, in an environment of their own
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt -e '.[test]'
	$(if $(TESTS),,NUMBA_DISABLE_JIT=1 $(OLDEST)/bin/python -m pytest $(PARALLEL) $(PLAIN) -m "not slow and not slurm and not compiled")
	$(OLDEST)/bin/python -m pytest $(PARALLEL) -m "not slow and not slurm $(if $(TESTS),,and (compiled or not plain))" $(TESTS)

check: $(VENV)/.installed-test ## style, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-docs  ## write the documentation and the library's reference to build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

release:         ## VERSION=0.2.0: build it twice alike, check it, run the tutorial from the wheel; dry, WRITE=1 sets the version
	$(PYTHON) installation/release.py "$(VERSION)" $(if $(WRITE),--write)

wheelhouse:      ## every wheel for PLATFORM and PYTHON_VERSION with install.sh, to install without a network
	$(PYTHON) installation/wheelhouse.py $(if $(PLATFORM),--platform $(PLATFORM)) $(if $(PYTHON_VERSION),--python $(PYTHON_VERSION)) $(if $(EXTRAS),--extras $(EXTRAS))

clean:           ## remove caches, not results
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
