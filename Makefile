# A menu; `make` alone prints it.
.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help setup fix check test golden bench demo

help:  ## this menu
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv and install everything
	./headrace setup

fix: setup  ## format, and repair what ruff can repair
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup  ## style, types and layers, without tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test:  ## every check and test
	./headrace test

golden: setup  ## rewrite the expected output of golden scripts; review the diff
	$(BIN)/python -m pytest -q tests/golden --update-golden

bench:  ## the core benchmark, quickly
	./headrace bench core --quick

demo:  ## the live traffic map
	./headrace demo
