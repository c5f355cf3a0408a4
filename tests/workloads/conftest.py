"""A control plane with real controllers and a scheduler, and for each test a namespace and nodes."""

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from phalanx_controlplane.controllers import catalog
from phalanx_controlplane.controllers.running import running
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.programs import ProgramMissing

from tests.controlplane_fixture import require_binaries
from tests.e2e.scheduler_process import install
from tests.e2e.workloads import create
from tests.kwok.conftest import STAGES, environment_of
from tests.kwok.manifests import topology
from tests.kwok.site import Environment, Site
from tests.workloads.catalog import Workload
from tests.workloads.ray_dashboard import ray_dashboard
from tests.workloads.table import expected_cells, read_table, write_table
from tests.workloads.trial import Trial

RACKS = ("r0", "r0", "r0", "r0", "r1", "r1", "r1", "r1")
"""The rack of each node."""

Controllers = tuple[str, ...]
"""Names of controllers."""

_numbers = itertools.count()


@pytest.fixture(scope="module")
def controllers(request: pytest.FixtureRequest) -> Controllers:
    """The controllers of this test. Tests with the same ones follow each other."""
    found: Controllers = request.param
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane(controllers: Controllers) -> AsyncIterator[ControlPlane]:
    """Replaces the shared control plane: one with these controllers."""
    require_binaries()
    require_controllers(controllers)
    async with (
        ray_dashboard() as proxy,
        ControlPlane.start(stages=STAGES) as plane,
        running(plane, controllers, environment={"HTTP_PROXY": proxy}),
    ):
        await restart_controller_manager(plane)
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(control_plane: ControlPlane) -> AsyncIterator[Environment]:
    """The control plane with a scheduler."""
    async with environment_of(control_plane, await install(control_plane)) as made:
        await create(control_plane, topology())
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def trial(environment: Environment, workload: Workload) -> AsyncIterator[Trial]:
    """The workload, not submitted yet, with eight nodes in two racks; there are no others."""
    site = await Site(environment, f"{workload.name}-{next(_numbers)}").open()
    nodes = await site.add_nodes(*RACKS)
    made = Trial(workload, site, nodes)
    async with workload.beside(site):
        yield made
    await environment.delete(f"/api/v1/namespaces/{site.name}")
    await made.nothing_left()
    for node in nodes:
        await environment.delete(f"/api/v1/nodes/{node}")


def require_controllers(controllers: Controllers) -> None:
    """Fail if the controllers are not built: these tests run only if they are asked for."""
    try:
        for controller in catalog.named(controllers):
            controller.program.built()
    except ProgramMissing as missing:
        pytest.fail(f"{missing}; `make workloads` builds all controllers")


async def restart_controller_manager(plane: ControlPlane) -> None:
    """Let the garbage collector know the new kinds now: it looks for them when it starts, and every 30 s."""
    await plane.stop_component("kube-controller-manager")
    await plane.start_component("kube-controller-manager")


# --- the table ---------------------------------------------------------------------------------------------


class Results:
    """Collects the outcome of each cell, in the process that sees all of them."""

    def __init__(self, *, repeats_failed: bool) -> None:
        self.outcomes: dict[str, str] = {}
        self.repeats_failed = repeats_failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed, or a phase of it was skipped or has failed."""
        cell = report.nodeid.partition("test_workload[")[2].partition("]")[0]  # xdist adds its group
        if cell and (report.when == "call" or report.outcome != "passed"):
            self.outcomes[cell] = report.outcome if self.outcomes.get(cell) != "failed" else "failed"

    def pytest_sessionfinish(self) -> None:
        """Write the table, if every cell has run, or those that have failed before."""
        if self.outcomes.keys() == expected_cells():
            write_table(self.outcomes)
        elif self.repeats_failed and self.outcomes:
            write_table({**read_table(), **self.outcomes})


def pytest_configure(config: pytest.Config) -> None:
    """Workers of xdist see a part of the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(repeats_failed=config.getoption("lf")), "results-of-workloads")
