"""A cluster in virtual time: time advances when nothing else is ready to run."""

import asyncio
from collections.abc import Awaitable, Callable

from phalanx.clock import seeded_random
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.cluster import running_controllers
from phalanx_simulator.embedded.kubelets.kubelet import Kubelets
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import WorldClock

from tests.sim.conftest import Cluster


class VirtualCluster(Cluster, frozen=True):
    """A cluster whose kubelets a test can disconnect."""

    kubelets: Kubelets

    def pod(self, name: str) -> Object | None:
        """A pod of the default namespace."""
        return self.client.get(Key("pods", "default", name))

    def phase(self, name: str) -> str:
        """The phase of a pod; empty if it does not exist."""
        pod = self.pod(name)
        return "" if pod is None else pod["status"]["phase"]

    def node(self, name: str) -> Object:
        """A node."""
        node = self.client.get(Key("nodes", "", name))
        assert node is not None
        return node

    def condition(self, item: Object, type_: str) -> Object:
        """A condition of an object; empty if there is none."""
        found = [one for one in item["status"].get("conditions", []) if one["type"] == type_]
        return found[0] if found else {}

    def taints(self, name: str) -> list[str]:
        """A node's taints as key:effect, without the group of the key."""
        taints = self.node(name)["spec"].get("taints", [])
        return sorted(f"{one['key'].rpartition('/')[2]}:{one['effect']}" for one in taints)

    async def run_on(self, manifest: Object, node: str) -> Object:
        """Create a pod, bind it and let the kubelet sync."""
        (created,) = self.create(manifest)
        self.bind(created["metadata"]["name"], node)
        await asyncio.sleep(0.001)
        found = self.pod(created["metadata"]["name"])
        assert found is not None
        return found


def in_virtual_time(test: Callable[[VirtualCluster], Awaitable[None]]) -> Callable[[], None]:
    """Decorator of a test: runs it twice, each time with a new loop and another order of ready tasks."""

    def run() -> None:
        for seed in (0, 1):
            _run(test, seed)

    run.__doc__ = test.__doc__
    return run


def _run(test: Callable[[VirtualCluster], Awaitable[None]], seed: int) -> None:
    loop = VirtualLoop(seeded_random(seed))

    async def main() -> None:
        server = ApiServer(clock=WorldClock(loop))
        with running_controllers(server) as controllers:
            await test(VirtualCluster(server, Client(server), controllers.kubelets))

    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
