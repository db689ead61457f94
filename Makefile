# make demo: compare the allocators on windows of the NSA paper's generator.   make test: all tests.
# make fuzz: properties, on new examples.   make test SEED=3: the examples of a seed instead of those of every run.
# All make their own .venv and need make, git and Python >= 3.11, nothing else.

PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; done)
BIN := .venv/bin
WINDOWS := instances/paper.jsonl instances/burst.jsonl
CONTENDERS := sequential:scas,best-fit,greedy,annealing-as-published,annealing,lns,lns-prices:free,dp:scas,lagrangian:scas,highs,scip,cp-sat,dp:dcas,exact,auto:free

KERNELS := allocopt/simulator/kernels,allocopt/simulator/shared
LIGHT := tests/test_light_core.py tests/allocopt/cluster tests/allocopt/traces
PLAIN := $(patsubst %,tests/allocopt/simulator/test_%.py,execution faults python_schedulers resources waiting) \
	tests/allocopt/simulator/shared/test_schedulers.py

PYTEST := $(BIN)/python -m pytest -n auto --dist loadgroup $(if $(SEED),--hypothesis-seed=$(SEED))

# Else every process that is started compiles every module anew.
unexport PYTHONDONTWRITEBYTECODE

OURS := allocopt formulations heuristics learned papers tests benchmarks docs

.PHONY: demo test plain light dist slurm fuzz unit lint types format docs tutorials clean clean-kernels

demo: .venv/installed
	$(BIN)/allocopt solve @tiny --strategy scas --solver dp
	$(BIN)/allocopt bench $(WINDOWS) --solvers $(CONTENDERS) --time-limit 1 --iterations 1000

test: .venv/installed-dev
	$(BIN)/allocopt warmup
	$(PYTEST)

# A real Slurm of virtual nodes until Ctrl-C; needs root and, on Debian, slurmctld slurmd slurm-client munge. Another
# Slurm, 24.11 or later, is taken if its programs come first in PATH.
slurm: .venv/installed-dev
	$(BIN)/python -m benchmarks.virtual_slurm

# What needs numpy, numba, pydantic and typer alone, in an environment of these with the oldest numba that is declared.
light: .venv-light/installed
	.venv-light/bin/python -m pytest -n auto --dist loadgroup $(LIGHT) -m "not slow" --hypothesis-profile=unit \
		-k "not parquet and not clustershell"

.venv-light/installed: pyproject.toml
	$(PYTHON) -m venv .venv-light
	.venv-light/bin/python -m pip install --quiet "numba==0.60.*" pydantic typer pytest hypothesis pytest-xdist
	.venv-light/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

# The sdist and the wheel, as PyPI checks them. The wheel is installed with the light core alone, and has to solve.
dist: .venv/installed-dev
	rm -rf dist build/trial
	$(BIN)/python -m build --outdir dist >/dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/trial
	build/trial/bin/python -m pip install --quiet --constraint constraints.txt numba numpy pydantic typer
	build/trial/bin/python -m pip install --quiet --no-deps dist/*.whl
	cd build/trial && unset PYTHONPATH && bin/allocopt --version && bin/allocopt solve @tiny
	rm -rf build/trial

# Kernels as plain Python, which shows their lines that no test of these reaches.
plain: .venv/installed-dev
	@mkdir -p build
	NUMBA_DISABLE_JIT=1 COVERAGE_FILE=build/coverage $(BIN)/python -m coverage run --source $(KERNELS) \
		-m pytest $(PLAIN) -m "not slow" --hypothesis-profile=unit
	COVERAGE_FILE=build/coverage $(BIN)/python -m coverage report --skip-covered

fuzz: .venv/installed-dev
	$(BIN)/allocopt warmup
	$(PYTEST) -m hypothesis --hypothesis-profile=fuzz

unit: .venv/installed-dev
	$(BIN)/allocopt warmup
	$(PYTEST) -m "not slow" --hypothesis-profile=unit --ignore=tests/allocopt/cli

lint: .venv/installed-dev
	$(BIN)/ruff check $(OURS)
	$(BIN)/ruff format --check $(OURS)

types: .venv/installed-dev
	$(BIN)/mypy

format: .venv/installed-dev
	$(BIN)/ruff check --fix $(OURS)
	$(BIN)/ruff format $(OURS)

docs: .venv/installed-dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet docs build/site

tutorials: .venv/installed-dev
	cd tests && PYTHONPATH=. ../$(BIN)/python -m support.notebooks

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: needs Python 3.11 or later; set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv

# Compiling what is never imported would take longer than downloading it.
.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,distributed,plot,rl,train]"
	@touch .venv/installed $@

clean:
	rm -rf .venv .venv-light build dist *.egg-info

clean-kernels:
	rm -f allocopt/kernels/__pycache__/*.kernel
