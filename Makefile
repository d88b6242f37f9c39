# make demo: set up .venv and tag sample posts.   make test: run the tests.   make check: format, lint, types, tests.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
PYTEST := $(RUN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadgroup

.PHONY: demo test check install clean serve

demo: install
	$(RUN)/tagsmith models
	$(RUN)/tagsmith tag --input src/tagsmith/samples/posts.jsonl --table --evidence

serve: install
	$(RUN)/tagsmith serve

# The tests of the page need Chromium (apt-get install chromium); without it they are reported as not run.
test: install
	$(PYTEST)

check: install
	$(RUN)/ruff format --check src tests benchmarks examples
	$(RUN)/ruff check src tests benchmarks examples
	$(RUN)/mypy
	$(PYTEST)

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Tagsmith needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --constraint constraints.txt torch
	$(RUN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
