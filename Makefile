# make install   the offpeak command in .venv
# make demo      a demo of one minute: virtual nodes, a simulated scheduler, the agent, and its page in your browser
# make demo-slurm  a demo of two minutes on a real Slurm of this machine, whose nodes sleep and wake
# make check     style, types, layers, content of the wheel, sentences of the guides
# make test      the chosen quick tests: units, laws, one scene per scheduler, the README's commands
# make test-rest  all other tests
# make nightly   before a release, some hours: all tests with more examples of each law, soaks, trials of packages and container
# make bench     the benchmarks
# make bench-peers SPARS=FOLDER  compare with published schedules; FOLDER is your clone of SPARS
# make bench-long  what takes a night: the planner's searches with up to the paper's 4,000 s, and the bound of ordering
# make soak      endurance tests: an hour of reading BMCs and PDUs, 10,000 cycles of sleep and wake, the same with stops and reloads, 200 kills of the agent, with random faults
# make reference the generated pages of docs/reference, the tables of figures, and the pictures of the README
# make docs     the documentation as a site, in build/site
# make package  a DEB and an RPM, in dist, which is a repository for apt and dnf
# make bundle   a tar that installs offpeak without a network, in dist
# make lock     update the locked versions and hashes of the dependencies
# make package-trial  test packages and bundle, DEB and bundle in a clean Debian root; needs root and some minutes
# make container-trial  build the container image and run its demo; needs root, buildah, mmdebstrap and some minutes
# make clean     remove .venv and all build products

# The tests start commands thousands of times, so Python must not compile them each time.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
SAMPLE := sim_backend/sample

PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder
# Processor time in loops of tests/peers/budget.py, and MiB of one process: a run that takes more fails. The most that
# was seen on an idle machine, and a third: machines differ in what they do slowly. Half of QUICK compiles kernels.
QUICK := $(PYTEST) -m quick --budget 4600 --most-memory 700
REST := $(PYTEST) -m 'not quick and not nightly' --most-memory 1200

# One part after the other, because a process keeps the memory of all that its tests import and compile, and begins with
# seconds of both. Scenes have the machine for themselves: ten at a time wait for real servers most of the time, and what
# they wait for is timed.
SCENES := --numprocesses 10 --budget 14000 tests/e2e tests/deploy
BELOW := --numprocesses 4 --budget 13000 tests/offpeak tests/plugin tests/power tests/predictors
ABOVE := --numprocesses 5 --budget 18000 tests/services tests/sim_backend tests/ui
# `make check` runs the tests of the wheel and the sentences.
OTHERS := --numprocesses 4 --budget 5500 tests/benchmarks tests/studies tests/peers \
    $(filter-out tests/test_wheel.py tests/test_sentences.py,$(wildcard tests/test_*.py))

.PHONY: install dev demo demo-slurm test test-rest nightly peers check bench bench-peers bench-long soak reference docs package bundle lock package-trial container-trial clean

install: $(VENV)/.installed
	@echo "offpeak is installed: $(BIN)/offpeak --help"

dev: $(VENV)/.installed-dev

# The distribution was once called `offpeak`, which is another project's name on the package index. Two distributions
# would claim the same files: the old one goes first, because removing it later would take the new command away.
FORGET_OLD_NAME = $(PIP) uninstall --yes offpeak && rm -rf offpeak.egg-info

# uv installs in a quarter of pip's time. It does not read pip's settings: behind a mirror that only those name, pip does it.
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --editable $(1) || $(PIP) install --no-compile --editable $(1)

# A stamp is newer than pyproject.toml when what that file asks for is installed.
$(VENV)/.installed: pyproject.toml | $(BIN)/uv
	@$(FORGET_OLD_NAME)
	@$(call INSTALL,.)
	@touch $@

$(VENV)/.installed-page: pyproject.toml | $(BIN)/uv
	@$(FORGET_OLD_NAME)
	@$(call INSTALL,'.[page]')
	@touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml studies/pyproject.toml | $(BIN)/uv
	@echo "installing offpeak and what its tests need into $(VENV)"
	@$(FORGET_OLD_NAME)
	@$(call INSTALL,'.[dev]' --editable ./studies)
	@touch $(VENV)/.installed $(VENV)/.installed-page $@

$(BIN)/python:
	@PYTHON="$(PYTHON)" .ci/prepare
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(BIN)/uv: | $(BIN)/python
	@$(PIP) install uv

demo: $(VENV)/.installed-page
	@$(BIN)/offpeak demo

demo-slurm: dev peers
	@$(BIN)/python -m benchmarks.demo_slurm

test:
	@$(MAKE) --no-print-directory --jobs 2 dev peers
	@$(QUICK) --numprocesses 3

# What `make test` leaves out.
test-rest:
	@$(MAKE) --no-print-directory --jobs 2 dev peers
	@failed=0; for part in '$(SCENES)' '$(BELOW)' '$(ABOVE)' '$(OTHERS)'; do $(REST) $$part || failed=1; done; exit $$failed

nightly: dev peers
	@$(PYTEST) --numprocesses 2 --hypothesis-profile=nightly -o faulthandler_timeout=7200
	@.ci/other-pythons
	@$(MAKE) --no-print-directory soak package-trial container-trial

peers:
	@.ci/prepare-peers

check: dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_wheel.py tests/test_sentences.py

bench: dev
	@$(BIN)/python -m benchmarks

bench-peers: dev
	@$(BIN)/python -m benchmarks.power_aware_peer $(SPARS)

bench-long: dev
	@$(BIN)/python -m benchmarks.cooling_days
	@$(BIN)/python -m benchmarks.search_budgets 5 60 600 4000
	@$(BIN)/python -m benchmarks.ordering_bound
	@$(BIN)/python -m benchmarks.place_bound

soak: dev
	@$(BIN)/python -m benchmarks.soak
	@$(BIN)/python -m benchmarks.soak_cycles
	@$(BIN)/python -m benchmarks.soak_stops
	@$(BIN)/python -m benchmarks.soak_agent

reference: dev
	@$(BIN)/python docs/reference_pages.py
	@$(BIN)/python docs/study_tables.py
	@$(BIN)/python docs/picture.py
	@$(BIN)/python docs/screenshots.py
	@$(BIN)/python docs/recording.py

docs: dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "build/site/index.html"

package: dev
	@$(PIP) install --editable '.[package]'
	@deploy/package/build dist

bundle:
	@PYTHON="$(PYTHON)" deploy/package/bundle dist

lock: dev
	@$(PIP) install --editable '.[package]'
	@$(BIN)/python deploy/package/lock

# The second package stands for the next version; its content is the same.
package-trial: package bundle
	@.ci/prepare-peers debootstrap rpm
	@VERSION=99.0.0 deploy/package/build build/newer
	@deploy/package/try dist/offpeak_*.deb build/newer/offpeak_*.deb build/trial
	@deploy/package/try-rpm dist/offpeak-*.rpm build/trial-rpm
	@deploy/package/try-bundle dist/offpeak-*.tar build/trial

container-trial:
	@.ci/prepare-peers buildah mmdebstrap
	@deploy/container/try

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
