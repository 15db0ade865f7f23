# Every target sets itself up: a fresh machine needs only Python (3.11 to 3.13) and make.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

FUZZ_INPUTS ?= 20000
FUZZ_SEED ?= 0

.PHONY: demo test faults soak lint experts bench fuzz clean

.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test,lint]"
	touch $@

.venv/.installed-bench: .venv/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	touch $@

demo: .venv/.installed
	$(BIN)/skillstream demo

test: .venv/.installed
	$(BIN)/python -m pytest -n $(WORKERS)

# Kills, failing writes, damaged files: what the stream must stand. FAULTS is how many of each.
FAULTS ?= 200
SEED ?= 0

faults: .venv/.installed
	$(BIN)/python faults/suite.py --kills $(FAULTS) --writes $(FAULTS) --damage $(FAULTS) --seed $(SEED)

soak: .venv/.installed
	$(MAKE) faults FAULTS=2000

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

experts: .venv/.installed
	$(BIN)/python -m skillstream.experts.training

bench: .venv/.installed-bench
	$(BIN)/python benchmarks/inference.py
	$(BIN)/python benchmarks/online.py
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/formats.py
	$(BIN)/python benchmarks/skills.py

# Damaged files for every reader; with more inputs (a million take half an hour), more is found.
fuzz: .venv/.installed
	$(BIN)/python fuzz/campaign.py --inputs $(FUZZ_INPUTS) --seed $(FUZZ_SEED)

clean:
	rm -rf .venv runs
