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
from tests.kwok.site import Ground

STAGES = (
    *("node/fast", "node/chaos", "pod/fast/pod-ready", "pod/fast/pod-delete", "pod/chaos"),
    str(Path(__file__).with_name("stages")),
)
"""KWOK's own, and two of ours.

Not `pod/fast/pod-complete`, which ends every pod of a Job at once, and not `pod/general`: it gives pods an IP
in a way that the API server drops, takes them for new and begins with them again and again.
"""
IDLE_NODES = 30


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    """Of the module's control plane."""
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane(audit: AuditLog) -> AsyncIterator[ControlPlane]:
    """In place of the shared one."""
    require_binaries()
    async with ControlPlane.start(stages=STAGES, apiserver_flags=audit.flags) as plane:
        yield plane


@asynccontextmanager
async def ground_of(plane: ControlPlane, kubeconfig: Path) -> AsyncIterator[Ground]:
    """With a scheduler that is started anew when it ends, and leads."""
    async with (
        plane.session() as session,
        watching(plane) as history,
        kept_running(plane, kubeconfig) as processes,
    ):
        ground = Ground(plane, processes, history, session)
        await ground.scheduler_leads()
        yield ground


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(control_plane: ControlPlane) -> AsyncIterator[Ground]:
    """The module's control plane, ready for scenarios."""
    async with ground_of(control_plane, await install(control_plane)) as made:
        await made.prepare(idle_nodes=IDLE_NODES)
        yield made
