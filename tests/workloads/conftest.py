"""For each workload a control plane with its real controllers; for each test a namespace and nodes."""

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
from tests.workloads.trial import Trial

RACKS = ("r0", "r0", "r0", "r0", "r1", "r1", "r1", "r1")
"""The rack of each node."""

_numbers = itertools.count()


@pytest.fixture(scope="module")
def workload(request: pytest.FixtureRequest) -> Workload:
    """The workload of this test. Tests of one workload run one after the other."""
    found: Workload = request.param
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane(workload: Workload) -> AsyncIterator[ControlPlane]:
    """Replaces the shared control plane: one with the controllers of the workload."""
    require_binaries()
    require_controllers(workload)
    async with ControlPlane.start(stages=STAGES) as plane, running(plane, workload.controllers):
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
    made = Trial(workload, site)
    yield made
    await environment.delete(f"/api/v1/namespaces/{site.name}")
    await made.nothing_left()
    for node in nodes:
        await environment.delete(f"/api/v1/nodes/{node}")


def require_controllers(workload: Workload) -> None:
    """Fail if the controllers are not built: these tests run only if they are asked for."""
    try:
        for controller in catalog.named(workload.controllers):
            controller.program.built()
    except ProgramMissing as missing:
        pytest.fail(f"{missing}; `make workloads` builds all controllers")


async def restart_controller_manager(plane: ControlPlane) -> None:
    """Let the garbage collector know the new kinds now: it looks for them when it starts, and every 30 s."""
    await plane.stop_component("kube-controller-manager")
    await plane.start_component("kube-controller-manager")
