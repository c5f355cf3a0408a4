"""Control planes for the end-to-end tests, with audit log, our CRDs and our RBAC rules.

Tests of one process share a control plane if they can. After each of them everything that it created is
deleted.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec import Struct
from phalanx_controlplane.components import CONTROLLERS, ENDLESS_STAGES, KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import require_binaries
from tests.dialect_crds import JOB_SETS
from tests.e2e.audit_log import AuditLog
from tests.e2e.emptying import definitions, empty
from tests.e2e.scheduler_process import install
from tests.e2e.workloads import create

WITH_CLAIMS = f"--controllers={','.join((*CONTROLLERS, 'resourceclaim-controller'))}"


class Cluster(Struct, frozen=True):
    """A running control plane, the scheduler's kubeconfig, and the audit log."""

    plane: ControlPlane
    kubeconfig: Path
    audit: AuditLog


class StandingCluster(Cluster, frozen=True):
    """A cluster for several tests, and the names of the CustomResourceDefinitions that all of them find."""

    definitions: frozenset[str]


@asynccontextmanager
async def ready_for_tests(
    folder: Path, *, apiserver: tuple[str, ...] = (), controller_manager: tuple[str, ...] = ()
) -> AsyncIterator[StandingCluster]:
    """A control plane with kube-scheduler and further flags. Pods of Jobs run until they are deleted.

    JobSets are served from the start: the garbage collector looks for new kinds every 30 seconds.
    """
    require_binaries()
    audit = AuditLog(folder)
    async with ControlPlane.start(
        stages=ENDLESS_STAGES,
        kube_scheduler=KubeScheduler(),
        apiserver_flags=("--delete-collection-workers=16", *audit.flags, *apiserver),
        controller_manager_flags=(WITH_CLAIMS, *controller_manager),
    ) as plane:
        kubeconfig = await install(plane)
        await create(plane, JOB_SETS)
        yield StandingCluster(plane, kubeconfig, audit, await definitions(plane))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def standing_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StandingCluster]:
    """The cluster that tests share. A module that needs other flags has a fixture of the same name."""
    async with ready_for_tests(tmp_path_factory.mktemp("standing")) as made:
        yield made


@pytest_asyncio.fixture
async def own_cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster of this test alone, which may do to it what other tests would notice."""
    async with ready_for_tests(tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def shared_cluster(standing_cluster: StandingCluster) -> AsyncIterator[Cluster]:
    """The shared cluster, empty before and after the test, with the audit log from now on."""
    yield Cluster(standing_cluster.plane, standing_cluster.kubeconfig, standing_cluster.audit.from_now())
    await empty(standing_cluster.plane, kept=standing_cluster.definitions)
