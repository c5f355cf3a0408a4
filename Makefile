# Every target sets up what it needs in .venv, from a bare clone and without sudo. The second time it prints nothing.
.DEFAULT_GOAL := help
.SILENT:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# Two more than cores: tests of real components wait most of the time.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
PYTHONS ?= python3 python3.14 python3.13 python3.12 python3.11

# Without compiled modules each of the hundreds of processes that tests start compiles what it imports.
export PYTHONDONTWRITEBYTECODE =

UNIT_TESTS := actions cache crds cycle deciders framework kube model observe plugins reasons scenarios service \
  sim sim_engine sim_invariants solver test_tidy.py web
# The others start processes, play simulated runs, or need a control plane.

.PHONY: help
help: ## list the targets
	awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/installed ## three acts, one screen each, with the real scheduler (ARGS="--cluster kwok": on real components)
	$(BIN)/phalanx demo $(ARGS)

.PHONY: test
test: .venv/installed-dev controlplane oracle nodes ## all checks and all tests; on real etcd, kube-apiserver and KWOK if Go is installed
	$(MAKE) --jobs=2 lint tests

.PHONY: tests
# The components of control planes live for minutes: collecting garbage less often saves 15 % of their CPU time.
tests: export GOGC = 400
tests:
	$(BIN)/pytest -n $(WORKERS) --maxprocesses=4 --dist=loadgroup $(ARGS)

.PHONY: check
check: .venv/installed-dev ## while you work: style, types, import contracts, fast unit tests; under a minute
	$(MAKE) --jobs=2 lint unit-tests

.PHONY: unit-tests
unit-tests: # few examples of each property: most of the time of unit tests is that of properties
	PHALANX_EXAMPLES=3 $(BIN)/pytest -n $(WORKERS) --maxprocesses=4 -m "not controlplane and not slow" $(UNIT_TESTS:%=tests/%) $(ARGS)

.PHONY: lint
lint: .venv/installed-dev ## style, types, import contracts
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

.PHONY: bench
bench: .venv/installed-bench controlplane ## Phalanx, kube-scheduler and plain binds side by side (PEERS=all: other schedulers too)
	$(BIN)/python -m bench $(if $(PEERS),--peers $(PEERS)) $(ARGS)

# A network namespace without other interfaces: some controllers listen on all addresses.
ONLY_LOOPBACK := unshare --user --map-root-user --net sh -c 'ip link set lo up && exec "$$@"' sh

.PHONY: workloads
workloads: .venv/installed-dev ## real workloads with their real controllers, which Go builds once in about 20 minutes
	$(BIN)/python -m phalanx_controlplane build --controllers
	$(ONLY_LOOPBACK) $(BIN)/pytest --dist=loadgroup -m workloads tests/workloads $(ARGS)

.PHONY: chart
chart: .venv/installed-dev controlplane ## the Helm chart with the real helm, and kustomize, which Go builds once in some minutes
	$(BIN)/python -m tests.deploy.installers
	$(BIN)/pytest -m chart tests/deploy $(ARGS)

.PHONY: dask
dask: .venv/installed-dev ## runs on a real Dask cluster on loopback of which a worker is killed
	$(BIN)/pytest -p no:xdist -m dask tests/lab/test_dask.py $(ARGS)

.PHONY: monitoring
monitoring: .venv/installed-dev ## alerts with the real promtool, boards with Grafana's types, a real Prometheus; Go builds them once in some minutes
	$(BIN)/python -m tests.monitoring.programs
	$(BIN)/pytest -m monitoring tests/monitoring $(ARGS)

.PHONY: pages-test
pages-test: .venv/installed-dev ## the pages of `phalanx dashboard` in a real Chromium (apt install chromium), with axe-core
	$(BIN)/pip install --quiet --editable '.[browser]'
	$(BIN)/pytest -m browser -s tests/dashboard $(ARGS)

.PHONY: site
site: .venv/installed-dev ## the documentation site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict > .venv/site.log 2>&1 || { cat .venv/site.log; exit 1; }

.PHONY: image
image: .venv/installed ## the container image, without Docker (ARGS=--again: repeat all steps, to compare the digest)
	$(BIN)/python -m deploy.image.build $(ARGS)

CLUSTER := .venv/cluster
.PHONY: cluster
cluster: .venv/installed ## two nodes with real kubelets and the image, until Ctrl-C; needs root
	archive=$$($(BIN)/python -m deploy.image.build | tail -n 1) && test -n "$$archive" && \
	  $(BIN)/python -m phalanx_controlplane.nodes up --folder $(CLUSTER) --image "$$archive" $(ARGS)

.PHONY: cluster-down
cluster-down: .venv/installed # the same as Ctrl-C, from another terminal
	$(BIN)/python -m phalanx_controlplane.nodes down --folder $(CLUSTER)

.PHONY: cluster-test
cluster-test: .venv/installed-dev nodes ## the image on real kubelets: all tests, with helm; about ten minutes
	$(BIN)/python -m tests.deploy.installers
	$(BIN)/pytest -m "cluster or not cluster" tests/cluster $(ARGS)

.PHONY: nodes
nodes: .venv/installed-dev controlplane
	$(BIN)/python -m tests.cluster.prepare

.PHONY: micro
micro: .venv/installed-bench ## CPU time of each step from watch event to bind, against its budget
	$(BIN)/python -m bench.micro $(ARGS)

.PHONY: soak
soak: .venv/installed ## a thousand simulated runs of an hour, and the drills: about 45 minutes on two cores
	$(BIN)/python -m bench.soak $(ARGS)

.PHONY: properties
properties: .venv/installed-dev ## property tests with 2,000 examples each: queues, shares, victims, cache
	PHALANX_EXAMPLES=2000 $(BIN)/pytest -n $(WORKERS) --maxprocesses=4 -m properties $(ARGS)

.PHONY: clean
clean: ## remove .venv and all caches of this checkout, but not the control plane in ~/.cache/phalanx
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: controlplane
controlplane: .venv/installed
	if command -v go > /dev/null || [ -n "$$KUBEBUILDER_ASSETS" ] || [ -n "$$CI" ]; then \
	  $(BIN)/python -m phalanx_controlplane build; \
	else \
	  echo "Go is not installed: tests that need a real control plane are skipped"; \
	fi

.PHONY: oracle
oracle: .venv/installed-dev controlplane
	$(BIN)/python -m tests.oracle.build

.venv/bin/pip:
	for python in $(PYTHONS); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then \
	    exec $$python -m venv .venv; \
	  fi; \
	done; \
	echo "Phalanx needs Python 3.11 or newer; tried $(PYTHONS). Install one, or: make PYTHONS=/path/to/python3" >&2; \
	exit 1

.venv/installed: pyproject.toml deploy/simulator/pyproject.toml .venv/bin/pip
	echo "installing Phalanx into .venv, once"
	$(BIN)/pip install --quiet --editable . --editable deploy/simulator
	touch $@

.venv/installed-dev: .venv/installed
	echo "installing the tools for tests into .venv, once"
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

.venv/installed-bench: .venv/installed
	echo "installing the tools for benchmarks into .venv, once"
	$(BIN)/pip install --quiet --editable '.[bench,uvloop]'
	touch $@
