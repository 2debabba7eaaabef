# Every target creates .venv by itself when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
CODE := src tests examples benchmarks paper docs

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test coverage fuzz lint check format bench bench-baseline bench-compare clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(READY)  ## create .venv with the package and everything its tests need

# In stages, so that torch is taken from the pinned version before any package asks for a range of it.
# Modules are compiled when they are first imported: most of those that other packages have never are.
$(READY): pyproject.toml constraints.txt setup.py src/shiftmatch/core/_kernels.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: setup  ## see it work: MNIST-C in under a minute, as a table and a page
	$(BIN)/shiftmatch demo --out out/demo.html

docs: setup  ## build the documentation: out/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in out/site/index.html"

test: setup  ## run every test
	$(BIN)/python -m pytest -n 2 --dist worksteal

coverage: setup  ## run every test, and say which branches of src no test takes
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term-missing:skip-covered --cov-report=json:out/coverage.json

fuzz: setup  ## read 200,000 damaged files: none may crash, hang or fill the memory
	$(BIN)/python -m tests.fuzz --out paper/results/fuzz.json

lint: setup  ## check format, lint and strict types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

check: lint test  ## everything that must hold before a commit

format: setup  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

bench: setup  ## measure speed and memory, as ratios
	$(BIN)/python -m benchmarks

bench-baseline: setup  ## measure, and commit to these figures: benchmarks/baseline.json, docs/performance.md
	$(BIN)/python -m benchmarks --baseline

bench-compare: setup  ## show what has changed since the committed figures
	$(BIN)/python -m benchmarks --compare

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
