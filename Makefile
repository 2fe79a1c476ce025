# A menu; `make` alone prints it.
.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help setup fix check fast test golden bench demo

help:  ## this menu
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv and install everything for development
	./headrace setup

fix: setup  ## format, and repair what ruff can repair
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: setup  ## style, types and layers, without tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast:  ## the checks and the fast tests, without Spark and Kafka
	./headrace test --fast

test:  ## every check and test
	./headrace test

golden: setup  ## rewrite the expected output of golden scripts; review the diff
	$(BIN)/python -m pytest -q tests/golden --update-golden

bench:  ## the core benchmark with small inputs
	./headrace bench core --quick

demo:  ## a live traffic map
	./headrace demo
