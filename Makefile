# Two commands: `make demo` and `make test`. Both set up everything they need in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# oneDNN must not pick instructions that a virtual machine announces and then refuses
export ONEDNN_MAX_CPU_ISA := AVX512_CORE_BF16

.PHONY: demo test lint check-types bench docs soak zoo oldest mutants lock clean compiler browser

demo: $(VENV)/.report
	$(BIN)/shiftproof demo --out demo

test: compiler browser $(VENV)/.dev lint check-types
	rm -f .coverage .coverage.*
	$(BIN)/pytest -n 2 --dist worksteal --durations=12 --cov --cov-report=
	$(BIN)/coverage report

# the order of imports is a contract in pyproject.toml
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

check-types: $(VENV)/.dev
	$(BIN)/mypy

# with the development set, so that the peers are there to be timed beside it
bench: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python benchmarks/bench.py --out bench

# the site, into site/: draws the gallery and runs the notebook on the way, fetches nothing
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'open site/index.html'

# what draws its examples with many more of them, and what is slow: half an hour; the counts become a page
soak: compiler browser $(VENV)/.dev
	SHIFTPROOF_PROFILE=soak $(BIN)/pytest -n 2 --dist worksteal --reliability docs/reliability.md tests

# every architecture we know of, converted, under all shifts, exported: an hour
zoo: compiler $(VENV)/.dev
	SHIFTPROOF_PROFILE=zoo $(BIN)/pytest -n 2 --dist worksteal tests

# the core with the oldest torch we promise, which brings five gigabytes with it: a few minutes
OLDEST := tests/ghs tests/invariance tests/maps tests/models/test_network_law.py tests/project/test_errors.py
oldest: compiler
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/pip install --quiet torch==2.4.0 pytest hypothesis mpmath scipy '.[report,train]'
	build/oldest/bin/pytest -W default $(OLDEST) -k 'not export and not onnx and not saved and not dynamic'

# the core with small mistakes in it, each of which a test must notice; an hour on two cores for all of it, less where
# tests/mutants.json knows them, resumes where it stopped. mutmut 3.8 wants an older pytest, so it has an environment of its own on top of ours.
MUTANTS := build/mutants
mutants: compiler $(VENV)/.dev $(MUTANTS)/bin/mutmut
	$(BIN)/python tools/mutants.py restore
	SHIFTPROOF_PROFILE=mutants OMP_NUM_THREADS=1 $(MUTANTS)/bin/mutmut run --max-children 2
	$(BIN)/python tools/mutants.py page $(MUTANTS)/bin/mutmut docs/mutants.md

$(MUTANTS)/bin/mutmut: constraints.txt
	$(PYTHON) -m venv $(MUTANTS)
	$(MUTANTS)/bin/pip install --quiet mutmut==3.8.0 pytest==9.0.3
	$(BIN)/python -c 'import site; print(*site.getsitepackages())' > \
	  $$($(MUTANTS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/shiftproof-dev.pth

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.report: pyproject.toml constraints.txt src/shiftproof/ghs/backend/native.c | $(VENV)/bin/pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[report,train]'
	touch $@

# hash-checked first; then the package, torch, and what another platform may want besides
$(VENV)/.dev: pyproject.toml constraints.txt requirements.txt src/shiftproof/ghs/backend/native.c | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --require-hashes --no-deps --only-binary :all: -r requirements.txt
	$(BIN)/pip install --quiet --no-build-isolation -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.report

# the hashes of what constraints.txt pins
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet pip-tools
	build/lock/bin/pip-compile --quiet --extra dev --constraint constraints.txt --generate-hashes --strip-extras \
	  --unsafe-package torch --unsafe-package shiftproof --no-annotate --no-header --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --output-file build/lock/requirements.txt pyproject.toml
	{ head -1 requirements.txt; grep -v '^#\|^$$' build/lock/requirements.txt; } > build/lock/new
	mv build/lock/new requirements.txt

# torch.compile calls a C++ compiler, and the kernels want one for C
compiler:
	@command -v g++ >/dev/null || command -v clang++ >/dev/null || { \
	  command -v apt-get >/dev/null && apt-get update -q && apt-get install -q -y --no-install-recommends g++; } || { \
	  echo 'make test needs a C++ compiler (g++ or clang++) for torch.compile: please install one.' >&2; exit 1; }

# the tests of the app drive a real one
browser:
	@command -v chromium >/dev/null || { \
	  command -v apt-get >/dev/null && apt-get update -q && \
	  apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } || { \
	  echo 'make test needs the browser chromium for the tests of the app: please install it.' >&2; exit 1; }

clean:
	rm -rf src/shiftproof/ghs/backend/*.so $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* build demo bench site mutants .artifacts
