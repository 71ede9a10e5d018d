# Every target sets up .venv by itself; torch comes from constraints.txt (a CPU build).
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
MINUTES ?= 240
SIZE ?= 1
SEED ?= 0
export PYTHONDONTWRITEBYTECODE =  # compiled files are kept: every process that a test starts reads them
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: help demo test test-slow campaign lint docs docs-check bench bench-full clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## compare fine-tuning, replay and LAS on real digits (under two minutes)
	rm -rf demo-out
	$(BIN)/evenstream compare fine-tune er er-las --stream c-digits --seeds 10 --out demo-out

test: $(READY)  ## the whole test suite (under five minutes on 2 cores)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(READY)  ## the longer, randomised versions, and those against a real Ray
	$(PIP) '.[ray]'
	$(BIN)/python -m pytest -n 2 -m slow --timeout 3600

campaign: $(READY)  ## attack every promise of docs/concepts/reliability.md (an hour; less: MINUTES=5, SIZE=0.1)
	$(BIN)/python -m campaign --minutes $(MINUTES) --size $(SIZE) --seed $(SEED)

lint: $(READY)  ## ruff, mypy, and the layers of pyproject.toml
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests
	$(BIN)/lint-imports

docs: $(READY)  ## the documentation site, into site/; fails on a broken link
	$(BIN)/python -m tools.website

docs-check: docs  ## open every page in Chromium: axe-core, and nothing wider than the screen
	$(BIN)/python -m tools.website.inspect_site

bench: $(READY)  ## speed as ratios measured side by side, beside the targets
	$(BIN)/python -m benchmarks

bench-full: $(READY)  ## the same with 200 pairs of every line (hours); memory of a stream of image files
	$(BIN)/python -m benchmarks --seconds 7200 --out benchmarks/results-full.json
	$(BIN)/python -m benchmarks.image_stream

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) '.[dev]'
	touch $@

clean:  ## remove .venv and everything that was built
	rm -rf .venv demo-out campaign-out build site
