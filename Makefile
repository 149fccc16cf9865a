# Each of these sets everything up from nothing: `make install`, `make demo` and `make test`.
# Each makes its own virtual environment; nothing is installed outside this folder, except by targets that end in -deps.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED_FROM := pyproject.toml constraints.txt hatch_build.py $(shell find src -type f ! -name '*.pyc')

.PHONY: demo lab test test-compiled test-pythons test-stutter test-engines test-prometheus test-namespaces test-pgbouncer test-recipes test-debian lint lint-page bench-sim bench-check bench-live bench-lab campaign planted sweep-campaign torture-campaign docs film wire cards clean

# The program habemus in .venv/bin, with pictures and live clusters.
.PHONY: install
install: $(VENV)/.demo-ready

# Three clients agree over gRPC who prints; five workers share the printer under a lock, and two machines fail.  Under a minute.
demo: $(VENV)/.demo-ready
	@rm -rf build/demo && mkdir -p build/demo
	@$(BIN)/python examples/printing/demo.py build/demo

# Opens the page of the lab in the browser; LAB='ricart-agrawala -n 3' is what it opens.
LAB ?= central-holder-slow
lab: $(VENV)/.lab-ready
	$(BIN)/habemus lab $(LAB)

# TESTS='tests/unit tests/live' are those to run.  Two workers per core: live tests wait more than they compute.
TESTS ?=
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))')
test: lint
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(TESTS)

# What tests and benchmarks use beside Python, as tests/requirements.py lists it: `make test-deps` installs Debian's packages for `make test`,
# and so on for the others.  Needs root.
%-deps:
	@$(PYTHON) tests/requirements.py install $*

%-needs:
	@$(PYTHON) tests/requirements.py check $*

# README's commands on another Debian, in a folder below build/debian: SUITE=trixie, forky or bookworm; RUN_AS=root or user.  CLONE is the
# folder of the clone.  Needs root.
SUITE ?= trixie
RUN_AS ?= user
CLONE ?= a clone
TARGETS ?= demo test
test-debian: test-debian-needs
	tests/debian.sh "$(SUITE)" "$(RUN_AS)" "$(CLONE)" $(TARGETS)

# The conformance tests of locks on our own cluster, local, PostgreSQL, Redis, etcd and ZooKeeper, with real servers.  Five minutes on two
# cores.
test-engines: $(VENV)/.test-ready test-engines-needs
	HABEMUS_TEST_BACKENDS=own,local,postgresql,redis,etcd,zookeeper $(BIN)/pytest tests/live/test_backends.py tests/live/test_engine_tls.py tests/live/test_failover.py tests/live/test_engines_page.py

# A cluster with TLS, scraped by a real Prometheus: its queries, the dashboard, the alerts, and the unit of systemd.  One minute.
test-prometheus: $(VENV)/.test-ready test-prometheus-needs
	$(BIN)/python -m tests.prometheus

# Nodes in network namespaces whose packets are lost in one direction.  Needs root and iproute2.
test-namespaces: $(VENV)/.test-ready test-namespaces-needs
	$(BIN)/pytest -q -p no:cacheprovider tests/namespaces.py

# PostgreSQL behind the PgBouncer of another Debian, which is unpacked below build/debian: SUITE as above.  Needs root.
test-pgbouncer: $(VENV)/.test-ready test-pgbouncer-needs
	tests/pgbouncer.sh "$(SUITE)" $(BIN)/pytest -q tests/live/test_pgbouncer.py

# The recipes of examples/recipes with Celery, Django, APScheduler, FastAPI and gunicorn, which have a virtual environment of their own.
test-recipes: build/recipes/.ready
	cd examples/recipes && ../../build/recipes/bin/python -m pytest -q -p no:cacheprovider -c /dev/null --rootdir . test_recipes.py

build/recipes/.ready: pyproject.toml
	$(PYTHON) -m venv build/recipes
	build/recipes/bin/python -m pip install --quiet --disable-pip-version-check -e '.[recipes]'
	@touch $@

# What runs on the modules that mypyc can compile, on these modules compiled: two minutes to build them, five on two cores for the tests.
test-compiled: build/test-compiled/.ready
	build/test-compiled/bin/habemus --version | grep ', compiled$$'
	build/test-compiled/bin/pytest -n auto tests/live tests/conformance tests/unit/runtimes/live tests/unit/core tests/unit/printing tests/unit/testing

build/test-compiled/.ready: $(COMPILED_FROM)
	$(PYTHON) -m venv build/test-compiled
	HABEMUS_COMPILE=1 build/test-compiled/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '.[test]'
	@touch $@

# The live and the unit tests on a machine that stalls: beside busy loops, and with all test processes stopped every few seconds.
# Half an hour on two cores.
test-stutter: $(VENV)/.test-ready
	$(BIN)/python tests/stutter.py $(BIN)/pytest -n auto tests/live tests/unit

# The tests of the pure part on Python 3.12, which no suite of test-debian has: Pyodide, CPython as WebAssembly, from npm under node.  Ten
# minutes on two cores.
PYODIDE := pyodide@0.27.7
PURE ?= $(addprefix tests/unit/,core problems algorithms runtimes/sim traces catalog runs) tests/scenarios
FOR_PYODIDE := --python-version 3.12 --only-binary :all: --implementation py --abi none --platform any
test-pythons: $(VENV)/.test-ready
	npm install --silent --no-save --prefix build/pythons $(PYODIDE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target build/pythons/packages $(FOR_PYODIDE) pytest hypothesis click rich
	ulimit -s 524288 && node --stack-size=393216 tests/pythons/pyodide.mjs build/pythons/node_modules/pyodide "$(CURDIR)" build/pythons/packages -p no:cacheprovider $(PURE) > build/pythons/log || { tail -n 20 build/pythons/log; exit 1; }
	grep '^=.* passed' build/pythons/log

lint: $(VENV)/.test-ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The types of the page's JavaScript, by TypeScript from npm.  No test needs node, so this is a target of its own.
TYPESCRIPT := 5.9.3
lint-page: lint-page-needs
	npm install --silent --no-fund --no-audit --prefix build/typescript typescript@$(TYPESCRIPT)
	build/typescript/node_modules/.bin/tsc -p tests/lab/tsconfig.json

# Long and noisy, so not a part of the tests.
bench-sim: $(VENV)/.test-ready
	$(BIN)/python benchmarks/sim/bench.py

# Our search beside Spin, which `make bench-check-deps` installs.
bench-check: $(VENV)/.test-ready
	$(BIN)/python benchmarks/check/bench.py

# Our locks beside those of Redis, ZooKeeper, etcd and PostgreSQL; the tables say which of them are absent here (`make bench-live-deps`).
# Their clients have a virtual environment of their own.  The nodes are compiled, unless you say COMPILE=0.
COMPILE ?= 1
BENCH := build/bench-live$(if $(filter 0,$(COMPILE)),-pure)
bench-live: $(BENCH)/.ready
	$(BENCH)/bin/python -m benchmarks.live

$(BENCH)/.ready: $(COMPILED_FROM) benchmarks/live/requirements.txt
	$(PYTHON) -m venv $(BENCH)
	HABEMUS_COMPILE=$(COMPILE) $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '.[live]'
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/live/requirements.txt
	@touch $@

# The page of the lab in Chromium: first paint, pan, zoom, step, fork, with 10,000 and 100,000 events.
bench-lab: $(VENV)/.test-ready bench-lab-needs
	$(BIN)/python -m benchmarks.lab

# Planted bugs in the elected coordinators whose searches take up to a minute each, and the long searches with pinned counts.
planted: $(VENV)/.test-ready
	$(BIN)/pytest -n auto --times 10 tests/counterexamples/test_searched_coordinator_mutants.py tests/counterexamples/test_moving_mutants.py \
		tests/counterexamples/test_searched_mutex_mutants.py tests/counterexamples/test_verdicts.py tests/counterexamples/test_lost_records.py tests/docs tests/unit/proofs

# What the cards claim, over 10,000 seeds of each mutual exclusion and 1,000 to 10,000 of each election: an hour on two cores.
campaign: $(VENV)/.test-ready
	$(BIN)/pytest -n auto --times 50 tests/papers/test_terms.py tests/papers/test_omega.py tests/papers/test_detectors.py
	$(BIN)/habemus sweep --seeds 10000
	$(BIN)/habemus sweep --seeds 10000 --crashes

# 100,000 runs killed half-way and resumed, and the same on a cluster that loses a worker: identical rows?  Ten minutes on two cores.
sweep-campaign: $(VENV)/.test-ready
	$(BIN)/python benchmarks/sweep/campaign.py benchmarks/sweep/campaign.toml

# Planted bugs that torture must catch (exit code 1), then the default lock under all faults: 45 minutes.
PLANTED := $(BIN)/habemus torture tests/live/planted.py
torture-campaign: $(VENV)/.test-ready
	$(PLANTED):ForgetsAll --nodes 3 --minutes 1 --faults kill-all; [ $$? = 1 ]
	$(PLANTED):EndsLeaseEarly --nodes 3 --clients 6 --locks 2 --minutes 2 --faults cut-one-way; [ $$? = 1 ]
	$(PLANTED):ReusesBlock --nodes 3 --clients 6 --locks 2 --minutes 1 --faults kill-node; [ $$? = 1 ]
	$(PLANTED):IgnoresRecall --nodes 3 --clients 6 --locks 2 --minutes 1 --faults pause-node; [ $$? = 1 ]
	$(PLANTED):ForgetsLoanOnChange --nodes 3 --clients 6 --locks 2 --minutes 1 --faults member; [ $$? = 1 ]
	$(PLANTED):GrantsUnrecorded --nodes 3 --locks 4 --minutes 4 --faults cut,pause-node; [ $$? = 1 ]
	$(PLANTED):ForgetsVote --nodes 3 --clients 6 --locks 2 --minutes 8 --faults kill-node -o coordinators=1; [ $$? = 1 ]
	for seed in 1 2 3; do $(BIN)/habemus torture elected-coordinator-leased --minutes 10 -o lease=2s --faults $(TORTURE) --seed $$seed || exit 1; done
	for seed in 1 2 3; do $(BIN)/habemus torture elected-coordinator-leased-members --nodes 3 --minutes 5 -o lease=2s --faults member,$(TORTURE) --seed $$seed || exit 1; done

TORTURE := kill,stop-node,pause,cut,close-client,kill-all,power,disk

# Writes anew what is generated from the code: golden conversations, the catalog's pages, the README's pictures,
# and build/scenarios.html with the pictures of all scenarios, to look at them.
docs: $(VENV)/.test-ready
	$(BIN)/pytest -q -n auto --habemus-rewrite tests/scenarios tests/architecture/test_docs.py tests/architecture/test_api_page.py tests/docs
	@mkdir -p build
	$(BIN)/habemus scenario --sheet build/scenarios.html

# The moving picture of the lab, in light and dark colours, taken in Chromium: a minute.
film: $(VENV)/.test-ready bench-lab-needs
	$(BIN)/python -m tests.lab.film docs/images/lab-film.png

# Writes anew the code of the printing system's wire.
wire: $(VENV)/.test-ready
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src --grpc_python_out=src src/habemus/printing/wire/*.proto

# Searches every algorithm whose code or bounds have changed since its card was made, under every fault model.
# After a change of the checker: make cards UPDATE= for all of them, which takes some minutes on two cores.
UPDATE ?= --update
cards: $(VENV)/.test-ready
	@mkdir -p build
	$(BIN)/habemus cards $(UPDATE) --markdown --store build/cards.json > build/cards.md
	mv build/cards.json src/habemus/analysis/cards/cards.json
	mv build/cards.md docs/cards.md

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "habemus needs Python 3.11 or newer; say which with PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "no virtual environment could be made; on Debian: apt install python3-venv"; rm -rf $(VENV); exit 2; }

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[png,live,grpc]'
	@touch $@

$(VENV)/.lab-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab,png]'
	@touch $@

$(VENV)/.test-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
