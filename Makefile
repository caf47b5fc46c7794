# Every target sets up what it needs in .venv by itself; all it takes is python3 with venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: paper test demo crash-test fuzz bench bench-field bench-live bench-service bench-lag regret lint system clean help

help:
	@echo "make paper        reproduce the paper into paper/: figures, and a report on its claims"
	@echo "make test         lint, types, layers, tests, doctests"
	@echo "make demo         watch live experiments on a simulated world, in your browser"
	@echo "make crash-test   kill -9 writers of live experiments and their service hundreds of times, and count what was lost"
	@echo "make fuzz         20,000 spec strings and parameter sets, of every size, through parse, create, ask, tell and simulate"
	@echo "make bench        measure the engines: beside their rivals, against T, arms and reach, on two cores"
	@echo "make regret       the regret of SettleUcb beside its rivals, in the paper's settings and beyond, into regret/ and README.md"
	@echo "make bench-field  measure other libraries and hand-written loops at the same work, and put the table into README.md"
	@echo "make bench-live   measure live experiments beside raw SQLite and Optuna, and one with a million slots"
	@echo "make bench-service  the same over HTTP, with eight clients, and beside sixty readers"
	@echo "make bench-lag    how often the bands of estimated lags are right"
	@echo "make clean        remove what these made"

paper: .venv/installed-paper
	$(BIN)/aftereffect paper --out paper

# Workers take all cores already: threads within matrix products would only be in each other's way.
test: lint system
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadfile

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: .venv/installed-service
	$(BIN)/aftereffect demo

crash-test: .venv/installed-dev system
	$(BIN)/python tests/crash_writers.py
	$(BIN)/python tests/crash_service.py

fuzz: .venv/installed-dev
	$(BIN)/python tests/fuzz_specs.py --seed 1 --count 20000

bench: .venv/installed-dask
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/cost.py
	$(BIN)/python benchmarks/scale.py

regret: .venv/installed-paper
	$(BIN)/python benchmarks/regret.py --out regret --write README.md

bench-field: .venv/installed-plot
	$(BIN)/python benchmarks/field.py --write README.md

bench-live: .venv/installed-live
	$(BIN)/python benchmarks/live.py

bench-lag: .venv/installed-plot
	$(BIN)/python benchmarks/lag.py

bench-service: .venv/installed-dev system
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/service_readers.py

# Tests start a PostgreSQL and a Chromium of their own, from the system's programs.
system:
	@missing=""; \
	command -v initdb > /dev/null || ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || missing="postgresql"; \
	command -v chromium > /dev/null || command -v chromium-browser > /dev/null || missing="$$missing chromium"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "installing what some tests start:" $$missing \
		&& apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes $$missing > /dev/null; \
	else \
		echo "not installed, and only root may, so tests that need it are left out (Debian: apt install" $$missing")"; \
	fi

# The constraints pin what is installed, and through the environment also what builds it.
.venv/installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

clean:
	rm -rf .venv .venv-field paper paper-quick regret build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
