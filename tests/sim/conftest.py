"""A small embedded cluster, without HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from msgspec import Struct
from phalanx.clock import SystemClock
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.cluster import running_controllers
from phalanx_simulator.embedded.store import Key, Object

RESOURCES = {
    "Job": "jobs.batch",
    "Namespace": "namespaces",
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "podgroups.scheduling.phalanx.dev",
}


class Cluster(Struct, frozen=True):
    """A cluster with kubelets and controllers on the test's event loop."""

    server: ApiServer
    client: Client

    def create(self, *manifests: dict[str, Any]) -> list[Object]:
        """Create objects in their namespaces."""
        return [
            self.client.create(RESOURCES[one["kind"]], one["metadata"].get("namespace", ""), one)
            for one in manifests
        ]

    def bind(self, name: str, node: str) -> bool:
        """Bind a pod of the default namespace."""
        key = Key("pods", "default", name)
        pod = self.client.get(key)
        assert pod is not None
        return self.client.bind(key, uid=pod["metadata"]["uid"], node=node)

    def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        """Delete an object."""
        key = Key(resource, namespace, name)
        item = self.client.get(key)
        assert item is not None
        self.client.delete(key, uid=item["metadata"]["uid"])


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    server = ApiServer(clock=SystemClock())
    with running_controllers(server):
        yield Cluster(server, Client(server))
