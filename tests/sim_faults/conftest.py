"""A small cluster in virtual time, without a scheduler: tests bind pods themselves."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from msgspec import Struct
from phalanx.clock import seeded_random
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.cluster import Controllers
from phalanx_simulator.embedded.kubelets.kubelet import Kubelets
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Change, Key, Object
from phalanx_simulator.faults.fault import Fault, FaultContext
from phalanx_simulator.faults.kinds import inject
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import WorldClock

RESOURCES = {
    "Namespace": "namespaces",
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "podgroups.scheduling.phalanx.dev",
    "PriorityClass": "priorityclasses.scheduling.k8s.io",
    "Queue": "queues.scheduling.phalanx.dev",
}
RACK = "topology.kubernetes.io/rack"
NODES = ("a", "b", "c", "d")


class FaultCluster(Struct, frozen=True):
    """A cluster and what injectors see of it."""

    server: ApiServer
    client: Client
    kubelets: Kubelets
    context: FaultContext

    def create(self, *manifests: Object) -> None:
        for one in manifests:
            self.client.create(RESOURCES[one["kind"]], one["metadata"].get("namespace", ""), one)

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        found = self.client.get(Key(RESOURCES[kind], namespace, name))
        assert found is not None, (kind, name)
        return found

    def node(self, name: str) -> Object:
        return self.get("Node", name)

    def condition(self, name: str, type_: str) -> Object:
        conditions = self.node(name)["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == type_), {})

    def names(self, kind: str) -> list[str]:
        return [key.name for key in self.client.keys(RESOURCES[kind])]

    async def running(self, name: str, on: str, **options: Any) -> Key:
        """A pod that runs on a node."""
        self.create(pod(name, **options))
        self.bind(name, on)
        await asyncio.sleep(1)
        assert self.get("Pod", name, "default")["status"]["phase"] == "Running"
        return Key("pods", "default", name)

    def bind(self, name: str, on: str) -> None:
        found = self.get("Pod", name, "default")
        key = Key("pods", "default", name)
        assert self.client.bind(key, uid=found["metadata"]["uid"], node=on)

    def start(self, kind: str, *targets: str, seconds: float = 0, **settings: str | int) -> Any:
        """Inject beside; the result is the task."""
        fault = Fault("F", kind, 0, targets, seconds, settings)
        return asyncio.get_running_loop().create_task(inject(fault, self.context))

    async def inject(self, kind: str, *targets: str, seconds: float = 0, **settings: str | int) -> None:
        """Inject to the end, and let the cluster settle."""
        await self.start(kind, *targets, seconds=seconds, **settings)
        await asyncio.sleep(1)

    def changes(self, resource: str) -> list[Change]:
        """All changes from now on, as they come."""
        found: list[Change] = []
        self.client.subscribe(resource, found.append)
        return found


Play = Callable[[Callable[[FaultCluster], Awaitable[None]]], None]


def cluster_with(loop: VirtualLoop, seed: int, nodes: Iterable[Object]) -> FaultCluster:
    server = ApiServer(clock=WorldClock(loop), seed=seed)
    client = Client(server)
    kubelets = Controllers(server).kubelets
    context = FaultContext(client, kubelets, seeded_random(seed), asyncio.sleep)
    cluster = FaultCluster(server, client, kubelets, context)
    cluster.create(*nodes)
    return cluster


def run(play: Callable[[FaultCluster], Awaitable[None]], seed: int = 0) -> None:
    """Play on four nodes in two racks that are ready."""
    loop = VirtualLoop(seeded_random(seed))

    async def whole() -> None:
        racks = {name: {RACK: f"r{place // 2}"} for place, name in enumerate(NODES)}
        cluster = cluster_with(loop, seed, [node(name, labels=racks[name]) for name in NODES])
        await asyncio.sleep(1)
        await play(cluster)

    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(whole())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.fixture
def play() -> Play:
    return run
