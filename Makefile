# Every target sets up what it needs in .venv by itself; all it takes is python3 with venv.
PYTHON ?= python3
BIN := .venv/bin
# Programs start hundreds of times, so Python must store the bytecode of what they import, even where
# the environment says not to. Then pip need not compile all that it installs.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: docs pictures dist matrix neighbours paper test test-fast oracles tests-all tests-fast style types layers demo crash-test fuzz bench bench-field bench-live test-gpu bench-gpu bench-service bench-lag real inference planning new-arms restated units regret lint system clean help

help:
	@echo "make paper        reproduce the paper into paper/: figures, and a report on its claims"
	@echo "make docs         build the site into docs/_build: open docs/_build/index.html"
	@echo "make pictures     draw the pictures of the gallery again, with the code that it shows"
	@echo "make dist         build wheel and sdist into dist/, check them, and try the wheel in an empty environment"
	@echo "make matrix       test that wheel on every Python that is here, with the newest and the lowest dependencies"
	@echo "make neighbours   let cluster-experiments and pymc-marketing read what export writes"
	@echo "make test         lint, types, layers, the site, tests, doctests"
	@echo "make test-fast    the same without the tests that compile, start a browser, a database or a server, or are slow"
	@echo "make oracles      compute again what the independent simulators lose, which tests compare with"
	@echo "make demo         watch live experiments on a simulated world, in your browser"
	@echo "make crash-test   kill -9 writers of live experiments and their service hundreds of times, and count what was lost"
	@echo "make fuzz         20,000 spec strings and parameter sets, of every size, through parse, create, ask, tell and simulate"
	@echo "make bench        measure the engines: beside their rivals, against T, arms and reach, on two cores"
	@echo "make regret       the regret of SettleUcb beside its rivals, in the paper's settings and beyond, into regret/ and docs/regret.md"
	@echo "make    the regret of SettleUcb and others where the arms come in random orders, into docs/regret.md"
	@echo "make real         play switchbacks on a real series and in sixteen made-up worlds, into docs/real.md"
	@echo "make inference    how often answers to \"who won?\" are wrong, and how soon they come, into docs/inference.md"
	@echo "make planning     whether plans keep what they promise in weeks that they have not seen, into docs/planning.md"
	@echo "make new-arms     what an arm costs that is added while an experiment runs, beside one from the start"
	@echo "make units        how soon experiments with several units stop, and what they lose, into docs/units.md"
	@echo "make restated     what is lost when every total is restated for three days, beside clean totals"
	@echo "make bench-field  measure other libraries and hand-written loops at the same work, and put the table into docs/field.md"
	@echo "make test-gpu     compare the engine cuda with the CPU, on a machine with an NVIDIA GPU"
	@echo "make bench-gpu    measure it there beside CPU cores, JAX and hand-written CUDA, into docs/gpu.md"
	@echo "make bench-live   measure live experiments beside raw SQLite and Optuna, and one with a million slots"
	@echo "make bench-service  the same over HTTP, with eight clients, and beside sixty readers"
	@echo "make bench-lag    how often the bands of estimated lags are right"
	@echo "make clean        remove what these made"

paper: .venv/installed-paper
	$(BIN)/aftereffect reproduce --out paper

# Two things at a time: each takes one core. Only the tests take all.
test:
	$(MAKE) --no-print-directory --jobs=2 style system
	$(MAKE) --no-print-directory --jobs=2 tests-all types layers docs

test-fast: style
	$(MAKE) --no-print-directory --jobs=2 tests-fast types layers

# Workers take all cores already: threads within matrix products would only be in each other's way.
# The number of workers, and the order of files, longest first, are in conftest.py.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto

tests-all: .venv/installed-dev
	$(PYTEST) --dist loadfile --no-loadscope-reorder

tests-fast: .venv/installed-dev
	$(PYTEST) --dist worksteal --no-compiler -m "not (compiled or browser or postgres or server or slow)"

# Any warning is an error, and so is a link that leads nowhere. Nothing is loaded from the network.
docs: .venv/installed-dev
	$(BIN)/sphinx-build --write-all --fail-on-warning --keep-going --quiet docs docs/_build
	$(BIN)/python docs/check_site.py docs/_build

# What is released: both files, checked, and tried where nothing else is installed, then with an extra.
dist:
	rm -rf dist build/dist build/bare
	$(PYTHON) -m venv build/dist
	build/dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	build/dist/bin/python -m build --outdir dist
	build/dist/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/bare
	build/bare/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/bare && bin/python $(CURDIR)/tests/support/bare_install.py bin/aftereffect
	build/bare/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[live]"
	cd build/bare && bin/aftereffect simulate --policy settle-ucb --policy ucb1 --means .9,.5 --delay "interval(3,9)" --horizon 1000 --replications 20 --seed 1
	cd build/bare && bin/aftereffect create shop --arms A,B --slot 1h --start 2026-03-02T00:00 --seed 1 --storage sqlite:///shop.db
	cd build/bare && bin/aftereffect ask shop --storage sqlite:///shop.db && bin/aftereffect tell shop 0 37 --storage sqlite:///shop.db
	cd build/bare && bin/aftereffect verify shop --storage sqlite:///shop.db
	cd build/bare && ! bin/aftereffect serve --storage sqlite:///shop.db

matrix: dist
	$(PYTHON) tests/support/matrix.py docs/understand/tested.md

neighbours: .venv/installed-dev
	$(BIN)/python tests/support/neighbours.py

pictures: .venv/installed-dev
	$(BIN)/python docs/draw_pictures.py

lint: style types layers

style: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/installed-dev
	$(BIN)/mypy

layers: .venv/installed-dev
	$(BIN)/lint-imports

oracles: .venv/installed-dev
	AFTEREFFECT_REWRITE_ORACLES=1 $(BIN)/pytest tests/bandits tests/policies/test_oracles.py -k independent_simulators

demo: .venv/installed-service
	$(BIN)/aftereffect demo

crash-test: .venv/installed-dev system
	$(BIN)/python tests/support/crash_writers.py
	$(BIN)/python tests/support/crash_service.py

fuzz: .venv/installed-dev
	$(BIN)/python tests/support/fuzz_specs.py --seed 1 --count 20000

bench: .venv/installed-dask
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/cost.py
	$(BIN)/python benchmarks/scale.py

regret: .venv/installed-paper
	$(BIN)/aftereffect reproduce --chapter beyond --out regret
	$(BIN)/python benchmarks/regret.py regret docs/regret.md

real: .venv/installed-simulation,plot
	$(BIN)/python benchmarks/real.py docs/real.md

inference: .venv/installed-simulation,plot
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/inference.py docs/inference.md

planning: .venv/installed-simulation,plot
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/planning.py docs/planning.md

new-arms: .venv/installed-live
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/new_arms.py

restated: .venv/installed-live
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/restated.py

units: .venv/installed-simulation,plot
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/units.py docs/units.md

bench-field: .venv/installed-simulation,plot
	$(BIN)/python benchmarks/field.py --write docs/field.md

# Both need an NVIDIA GPU.
test-gpu: .venv/installed-dev .venv/installed-gpu
	$(PYTEST) tests/simulation/test_gpu.py

bench-gpu: .venv/installed-simulation,plot .venv/installed-gpu
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/gpu.py docs/gpu.md

bench-live: .venv/installed-live
	$(BIN)/python benchmarks/live.py

bench-lag: .venv/installed-simulation,plot
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

PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# The constraints pin what is installed, and through the environment also what builds it.
.venv/installed-%: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[$*]'
	touch $@

# They are all that development needs, so nothing has to be resolved, and two halves of the alphabet
# can be installed at a time. The last step finds out whether something is missing.
.venv/installed-dev: .venv/pins-a-o .venv/pins-p-z pyproject.toml
	$(PIP) --editable '.[dev]'
	touch $@

.venv/pins-%: constraints.txt | $(BIN)/python
	grep -i '^[$*]' constraints.txt > $@.txt
	$(PIP) --no-deps --requirement $@.txt
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv .venv-field paper paper-quick beyond beyond-quick regret inference planning units build dist docs/_build docs/generated .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
