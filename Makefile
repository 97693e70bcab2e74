# Fieldlab. `make serve` and `make test` set up everything they need in .venv; a second call is quick.
# Variables: PYTHON, VENV, PORT, ADDRESS, ORIGIN (a host:port that browsers may use besides localhost), EXTRAS (cuda12 or cuda13), ARGS (for pytest), JOBS (processes of each half of the tests), FUZZ_SECONDS.
PYTHON ?= python3
VENV ?= .venv
PORT ?= 5006
ADDRESS ?= localhost
ORIGIN ?=
EXTRAS ?=
ARGS ?=
JOBS ?=
FUZZ_SECONDS ?= 600

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help serve test test-all test-extended lint types docs bench soak fuzz thumbnails constraints clean

bin := $(VENV)/bin
comma := ,
pinned := pyproject.toml constraints.txt
# With video, so that a film can be saved as MP4, which presentations take.
serve_extras := [video$(if $(EXTRAS),$(comma)$(EXTRAS))]
dev_extras := [dev,video,data,cluster$(if $(EXTRAS),$(comma)$(EXTRAS))]
# constraints.txt pins CUDA 13; with cuda12 those pins are left out and pip chooses.
constraints = $(if $(findstring cuda12,$(EXTRAS)),$(VENV)/constraints-cuda12.txt,constraints.txt)

help:  ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

serve: $(VENV)/installed$(EXTRAS)  ## run Fieldlab and print its address (PORT=5006 ADDRESS=localhost)
	@exec $(bin)/python -m app.server.serve --address $(ADDRESS) --port $(PORT) $(addprefix --origin ,$(ORIGIN))

# While mypy has one processor, another compiles the kernels that most tests need, and each of them would compile.
compiling = $(if $(strip $(ARGS)),,$(bin)/python -m app.server.first_screens >/dev/null &)
# What no server under test then measures again, for 3 s of all processors: beside mypy it came out too low to be kept.
measuring = $(if $(strip $(ARGS)),,$(bin)/fieldlab info --roofs >/dev/null)
# Both halves of the tests with these marks, those without and those in a browser; ARGS goes to one pytest.
tests = $(if $(strip $(ARGS)),$(bin)/python -m pytest $(ARGS),$(bin)/python -m tests.halves --apart $(addprefix --jobs ,$(JOBS)) -m "$(1)")

test: lint  ## lint, types, then the tests of ten minutes: theory, kernels, engine, page (ARGS="-k stream" narrows it)
	@$(compiling) $(MAKE) --no-print-directory types; wait
	@$(measuring)
	@echo "== a Chromium for the browser tests"
	@$(bin)/python tests/browser/chromium.py --install
	@echo "== tests"
	@$(call tests,not extended)

test-all: test test-extended  ## every test

test-extended: $(VENV)/installed-dev$(EXTRAS)  ## what test leaves out: load, faults, all sizes, proxy, documentation, packaging
	@echo "== extended tests"
	@$(call tests,extended)

lint: $(VENV)/installed-dev$(EXTRAS)  ## ruff
	@echo "== lint"
	@$(bin)/ruff check .

types: $(VENV)/installed-dev$(EXTRAS)  ## mypy
	@echo "== types"
	@$(bin)/mypy

docs: $(VENV)/installed-dev$(EXTRAS)  ## build the documentation's site in build/site, without a network
	@$(bin)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "build/site/index.html"

bench: $(VENV)/installed$(EXTRAS)  ## time the diffusion lab's backends on this machine
	@$(bin)/fieldlab bench diffusion

soak: $(VENV)/installed$(EXTRAS)  ## open, use and close 20 tabs for half an hour; the server must stay flat
	@$(bin)/python -m app.load.soak

# Tests that try a third of their examples, or a second of each kind, in `make test`.
fuzzed = tests/fuzz/test_parsers.py tests/app/tab/test_hostile_state.py tests/app/labs/crossover/test_finding.py

fuzz: $(VENV)/installed-dev$(EXTRAS)  ## try what strangers may send: each parser for FUZZ_SECONDS=600, 100000 messages, 10000 sequences of values
	@FIELDLAB_FUZZ_SECONDS=$(FUZZ_SECONDS) $(bin)/python -m pytest -q -o timeout=0 $(fuzzed)
	@$(bin)/python -m tests.fuzz messages --count 100000
	@$(bin)/python -m tests.fuzz sequences --count 10000

thumbnails: $(VENV)/installed$(EXTRAS)  ## compute the thumbnails of places and presets again
	@$(bin)/python -m app.labs.mandelbrot.bookmarks
	@$(bin)/python -m app.labs.equations.preset_tiles

constraints: $(VENV)/installed-dev$(EXTRAS)  ## update constraints.txt from pyproject.toml
	@$(bin)/pip install --quiet uv
	@$(bin)/python .ci/constraints.py

clean:  ## remove .venv and what tools left behind
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find app compute tests assets .ci -name __pycache__ -prune -exec rm -rf {} +

# One stamp file per set of extras: pip runs again only when the pins or the extras change.
$(VENV)/installed$(EXTRAS): $(pinned) | $(bin)/python
	@$(MAKE) --no-print-directory install what='$(serve_extras)'
	@touch $@

$(VENV)/installed-dev$(EXTRAS): $(pinned) | $(bin)/python
	@$(MAKE) --no-print-directory install what='$(dev_extras)' compile=$(lazily)
	@touch $@ $(VENV)/installed$(EXTRAS)

# pip compiles 11000 files, for half of the time that it takes; a run of all tests imports a third of them, and Python keeps
# what it compiles then, unless it is told not to.
lazily := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)

.PHONY: install
install:
	@echo "== installing fieldlab$(what) into $(VENV)"
	@if [[ $(constraints) != constraints.txt ]]; then grep -vE '^(cuda|nvidia)-' constraints.txt > $(constraints); fi
	@$(bin)/python -m pip install -qq --disable-pip-version-check $(compile) --constraint $(constraints) --editable '.$(what)'

$(bin)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Fieldlab needs Python 3.11 or newer; there is no $(PYTHON). On Debian: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fieldlab needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module. On Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "== creating $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
