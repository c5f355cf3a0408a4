"""A cluster for each test of this package: first the embedded API server, then the real one."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from phalanx.kube.connect import Cluster, connect

from tests.kube.faults import FaultyTransport
from tests.kube.world import World

_numbers = count(1)


@pytest.fixture(
    params=[
        pytest.param("embedded_api"),
        pytest.param("control_plane", marks=pytest.mark.controlplane),
    ]
)
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of a server without our CRDs' controllers, schedulers and kubelets."""
    server: Any = request.getfixturevalue(request.param)
    return Path(server.kubeconfig if request.param == "embedded_api" else server.kubeconfig_path)


@pytest_asyncio.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[Cluster]:
    async with connect(kubeconfig=str(kubeconfig)) as connected:
        yield connected


@pytest_asyncio.fixture
async def world(cluster: Cluster) -> AsyncIterator[World]:
    """A namespace for one test, and helpers to change it."""
    transport = cluster.transport(connections=8)
    made = World(transport, namespace=f"kube-{next(_numbers)}")
    await made.create_namespace()
    yield made
    await made.remove()
    await transport.close()


@pytest_asyncio.fixture
async def transport(cluster: Cluster) -> AsyncIterator[FaultyTransport]:
    """The transport that the code under test uses; without faults until a test adds some."""
    inner = cluster.transport()
    yield FaultyTransport(inner)
    await inner.close()
