"""A control plane with KWOK's chaos stages, and scenarios that run in it at the same time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import require_binaries
from tests.e2e.audit_log import AuditLog
from tests.e2e.pod_history import watching
from tests.e2e.scheduler_process import install, kept_running
from tests.kwok.site import Environment

STAGES = (
    *("node/fast", "node/chaos", "pod/fast/pod-ready", "pod/fast/pod-delete", "pod/chaos"),
    str(Path(__file__).with_name("stages")),
)
"""KWOK's stages, and two of ours.

Without `pod/fast/pod-complete`, which ends every pod of a Job at once, and without `pod/general`: it sets pod
IPs in a form that the API server drops, so that it treats the pods as new and starts them again and again.
"""
IDLE_NODES = 30


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    """The audit log of the module's control plane."""
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane(audit: AuditLog) -> AsyncIterator[ControlPlane]:
    """Replaces the shared control plane of other tests."""
    require_binaries()
    async with ControlPlane.start(stages=STAGES, apiserver_flags=audit.flags) as plane:
        yield plane


@asynccontextmanager
async def environment_of(plane: ControlPlane, kubeconfig: Path) -> AsyncIterator[Environment]:
    """An environment with a scheduler that leads, and that is started again whenever it ends."""
    async with (
        plane.session() as session,
        watching(plane) as history,
        kept_running(plane, kubeconfig) as processes,
    ):
        environment = Environment(plane, processes, history, session)
        await environment.scheduler_leads()
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(control_plane: ControlPlane) -> AsyncIterator[Environment]:
    """The module's control plane, ready for scenarios."""
    async with environment_of(control_plane, await install(control_plane)) as made:
        await made.prepare(idle_nodes=IDLE_NODES)
        yield made
