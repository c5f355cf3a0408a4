"""A separate control plane for each end-to-end test, with audit log, our CRDs and our RBAC rules."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import Struct
from phalanx_controlplane.components import CONTROLLERS, KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import require_binaries
from tests.e2e.audit_log import AuditLog
from tests.e2e.scheduler_process import install


class Cluster(Struct, frozen=True):
    """A running control plane, the scheduler's kubeconfig, and the audit log."""

    plane: ControlPlane
    kubeconfig: Path
    audit: AuditLog


@pytest_asyncio.fixture
async def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """Replaces the shared control plane. Indirect parametrisation with a KubeScheduler starts that too."""
    require_binaries()
    kube_scheduler: KubeScheduler | None = getattr(request, "param", None)
    flags = AuditLog(tmp_path).flags
    controllers = ",".join((*CONTROLLERS, "resourceclaim-controller"))
    async with ControlPlane.start(
        kube_scheduler=kube_scheduler,
        apiserver_flags=flags,
        controller_manager_flags=(f"--controllers={controllers}",),
    ) as plane:
        yield plane


@pytest_asyncio.fixture
async def cluster(control_plane: ControlPlane, tmp_path: Path) -> Cluster:
    """The control plane with everything that `scheduler(...)` needs."""
    return Cluster(control_plane, await install(control_plane), AuditLog(tmp_path))
