# `make up` is all a newcomer needs: Python >= 3.11 with venv, and make. `make help` lists the rest.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NAME   ?= github-issue
AGAIN  ?=
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help up ring test lint bench chaos races clean requirements translations setup setup-dev

help:
	@echo 'make up                       set up and start the desk'
	@echo 'make ring NAME=github-issue   send a signed sample delivery (AGAIN=1 repeats the last byte for byte)'
	@echo 'make test                     everything that must hold before a change is merged'
	@echo 'make lint                     ruff, mypy, import-linter'
	@echo 'make bench                    figures as JSON lines'
	@echo 'make chaos / make races       an hour of kills and losses / 2,000 races of each kind and long walks of the model'
	@echo 'make requirements             compile requirements*.txt from pyproject.toml'
	@echo 'make translations             bring the catalogue of languages up to date (docs/languages.md)'
	@echo 'make clean                    remove what set-up made (never your data in var/)'

# A stamp is named by the hash of its requirements: unchanged pins are not installed twice, changed ones always are.
setup:
	@sh .ci/venv.sh '$(PYTHON)' '$(VENV)' requirements.txt

setup-dev:
	@sh .ci/venv.sh '$(PYTHON)' '$(VENV)' requirements-dev.txt

up: setup
	@exec $(BIN)/python manage.py up $(ARGS)

ring: setup
	@$(BIN)/python manage.py ring '$(NAME)' $(if $(AGAIN),--again) $(ARGS)

test: setup-dev
	@VENV='$(VENV)' sh .ci/test.sh $(ARGS)

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup-dev
	@$(BIN)/python -m bench $(ARGS)

chaos: setup-dev
	@NIGHTDESK_CHAOS_ROUNDS=10 NIGHTDESK_CHAOS_SECONDS=1200 $(BIN)/python -m pytest tests/chaos -v --timeout 3600 $(ARGS)

races: setup-dev
	@NIGHTDESK_EXAMPLES=300 NIGHTDESK_STEPS=60 $(BIN)/python -m pytest tests/model -v --timeout 3600 $(ARGS)
	@NIGHTDESK_RACES=2000 $(BIN)/python -m tests.postgres -m pytest tests/races -v --timeout 3600 $(ARGS)

# Universal: one file for every Python and platform (a plain compile on 3.11.7 leaves out what 3.11.2 needs).
COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url
requirements: setup-dev
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) pyproject.toml --group dev -c requirements.txt -o requirements-dev.txt

translations: setup-dev
	@DJANGO_SETTINGS_MODULE=tests.settings $(BIN)/python -m tests.catalogue

clean:
	rm -rf '$(VENV)' staticfiles .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache var/static
	find . -name __pycache__ -not -path './var/*' -prune -exec rm -rf {} +
