# SPDX-License-Identifier: Apache-2.0
# `make` lists the targets. Each one calls a script of .ci/, which can also be run alone.

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := help
export PYTHON TORCH FUZZ_SECONDS

DATA ?=

.PHONY: help setup build demo lint ctest pytest compat test sanitize fuzz bench-smoke compat-venvs torchvision-venv stubs format coverage clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install system packages, .venv and Python packages (only what is missing)
	@.ci/setup

build: setup ## build the extension module, the C++ tests and the C++ benches (incremental)
	@.ci/build

demo: setup ## optimize photos, stream them, stop, resume (DATA=dir for your own JPEG files)
	@.ci/build _core
	@.venv/bin/python examples/quickstart.py $(if $(DATA),--data "$(DATA)")

lint: setup ## ruff, mypy --strict, clang-format, clang-tidy
	@.ci/lint

ctest: build ## C++ tests
	@.ci/test ctest

pytest: build ## Python tests
	@.ci/test pytest

compat: build compat-venvs ## tests against real litdata
	@.ci/test compat

test: setup lint build ctest pytest compat ## everything a change must pass: lint and all tests

sanitize: setup ## C++ tests under ASan+UBSan and TSan
	@.ci/sanitize

fuzz: setup ## fuzz what parses foreign bytes (FUZZ_SECONDS=20 for each target)
	@.ci/fuzz

bench-smoke: build ## run every bench at its smallest size
	@.ci/bench

compat-venvs: setup ## virtual environments with litdata, for compat tests and bench --peer
	@.ci/compat

torchvision-venv: setup ## litdata with torchvision (5.5 GB), for bench/decode.py --peer
	@.ci/torchvision

stubs: build ## regenerate python/stoker/_core.pyi
	@.ci/stubs

format: setup ## let ruff and clang-format rewrite the sources
	@.venv/bin/python -m ruff check --fix --quiet . ; .venv/bin/python -m ruff format --quiet .
	@find cpp python/bindings tests/cpp bench/cpp -name '*.cc' -o -name '*.h' | xargs clang-format-14 -i

coverage: build ## line and branch coverage of the Python tests
	@.venv/bin/python -m coverage erase
	@.venv/bin/python -m coverage run -m pytest tests/python
	@.venv/bin/python -m coverage combine --quiet
	@.venv/bin/python -m coverage report

clean: ## remove build trees and caches (keeps .venv)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	@find . -name __pycache__ -not -path './.venv/*' -not -path './tests/compat/.venv-*' -prune -exec rm -rf {} +
