"""A cluster of the demo, accessed through its API."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from phalanx.clock import seeded_random
from phalanx.kube.client import Client, Patch
from phalanx.kube.connect import connect
from phalanx.kube.reflector import Reflector, WatchContext
from phalanx.limits import WRITE_TIMEOUT_S
from phalanx.model.api.core import Node, Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.events import Applied, Deleted, NotListed, Relisted
from phalanx.observe.metrics import Metrics
from phalanx_controlplane.components import FAKE_NODE_ANNOTATION

from phalanx_simulator.demos.limits import DEMO_POLL_S, DEMO_STEP_TIMEOUT_S


class DemoFailed(Exception):
    """The demo did not show the expected result; the message says what happened instead."""


T = TypeVar("T")
Manifest = dict[str, Any]

WITHOUT_CRDS = ("Pod", "Node")
WITH_CRDS = ("Pod", "PodGroup", "Topology", "Node")
"""The kinds to follow, in the order in which `clear` removes them."""


class DemoCluster:
    """A watched cluster: reads are local, writes go to its API server."""

    def __init__(self, client: Client, *, kinds: Iterable[str], kubeconfig: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.why_down: Callable[[], str | None] = lambda: None
        """Returns why the cluster cannot make progress, or None; called while waiting."""
        self._objects: dict[str, dict[tuple[str, str], KubeObject]] = {kind: {} for kind in kinds}
        self._change = asyncio.Event()

    async def follow(self) -> None:
        """Watch the cluster until cancelled."""
        context = WatchContext(client=self.client, reports=Metrics(), jitter=seeded_random(0).random)
        async with asyncio.TaskGroup() as tasks:
            for kind in self._objects:
                reflector = Reflector(KINDS[kind], self._take, context)
                tasks.create_task(reflector.run())

    # --- reading -------------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """All nodes, in order of their names."""
        return sorted(self._of(Node), key=lambda node: node.metadata.name)

    def pods(self) -> list[Pod]:
        """All pods, in order of their names."""
        return sorted(self._of(Pod), key=lambda pod: pod.metadata.name)

    def pod_group(self, name: str) -> PodGroup | None:
        """The PodGroup of this name."""
        return next((group for group in self._of(PodGroup) if group.metadata.name == name), None)

    async def event_of(self, name: str, *, reason: str) -> Mapping[str, Any] | None:
        """The newest event with this reason about an object of the default namespace."""
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        listed = await self.client.get(path, msgspec.json.decode)
        about = [event for event in listed["items"] if event["regarding"]["name"] == name]
        found = [event for event in about if event["reason"] == reason]
        return max(found, key=lambda event: str(event["eventTime"]), default=None)

    async def changed(self, *, within: float) -> None:
        """Return at the next change, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._change.wait()

    async def until(self, look: Callable[[], T | None], *, what: str) -> T:
        """The first result of `look` that is not None.

        Raises DemoFailed after DEMO_STEP_TIMEOUT_S.
        """

        async def answer() -> T | None:
            return look()

        return await self.until_answered(answer, what=what)

    async def until_answered(self, ask: Callable[[], Awaitable[T | None]], *, what: str) -> T:
        """As `until`, with an asynchronous `ask`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEMO_STEP_TIMEOUT_S
        while (found := await ask()) is None:
            why = self.why_down()
            if why is not None:
                raise DemoFailed(why)
            if loop.time() > deadline:
                raise DemoFailed(f"timed out after {DEMO_STEP_TIMEOUT_S:.0f} s: {what}")
            await self.changed(within=DEMO_POLL_S)
        return found

    # --- writing -------------------------------------------------------------------------------------------

    async def create(self, *manifests: Manifest) -> None:
        """Create objects one after the other."""
        for manifest in manifests:
            path = KINDS[manifest["kind"]].path(namespace=manifest["metadata"].get("namespace", ""))
            await self.client.create(path, msgspec.json.encode(manifest), timeout=WRITE_TIMEOUT_S)

    async def create_nodes(self, *manifests: Manifest) -> None:
        """Create nodes with KWOK's annotation, and wait until they are ready."""
        for manifest in manifests:
            metadata = {**manifest["metadata"], "annotations": {FAKE_NODE_ANNOTATION: "fake"}}
            await self.create({**manifest, "metadata": metadata})

        def ready() -> bool | None:
            nodes = self.nodes()
            return (len(nodes) == len(manifests) and not any(node.spec.taints for node in nodes)) or None

        await self.until(ready, what=f"{len(manifests)} nodes are ready")

    async def patch(self, kind: str, name: str, change: Manifest, *, subresource: str = "") -> None:
        """Merge a change into an object of the default namespace."""
        path = KINDS[kind].path(namespace="default", name=name, subresource=subresource)
        await self.client.patch(path, msgspec.json.encode(change), how=Patch.MERGE, timeout=WRITE_TIMEOUT_S)

    async def clear(self) -> None:
        """Delete all objects of the watched kinds, and wait until they are gone."""
        for kind in self._objects:
            await self._clear_kind(kind)

    async def _clear_kind(self, kind: str) -> None:
        for known in list(self._objects[kind].values()):
            meta = known.metadata
            path = KINDS[kind].path(namespace=meta.namespace, name=meta.name)
            await self.client.delete(path, uid=meta.uid, timeout=WRITE_TIMEOUT_S)
        await self.until(lambda: not self._objects[kind] or None, what=f"every {kind} is gone")

    # --- following -----------------------------------------------------------------------------------------

    def _of(self, struct: type[T]) -> list[T]:
        return [item for item in self._objects.get(struct.__name__, {}).values() if isinstance(item, struct)]

    def _take(self, event: Applied | Deleted | Relisted | NotListed) -> None:
        match event:
            case Relisted():
                self._objects[event.kind] = {_name(item): item for item in event.objects}
            case Applied():
                self._objects[type(event.object).__name__][_name(event.object)] = event.object
            case Deleted():
                self._objects[event.kind].pop((event.namespace, event.name), None)
        change, self._change = self._change, asyncio.Event()
        change.set()


@asynccontextmanager
async def following(kubeconfig: Path, *, kinds: Iterable[str]) -> AsyncIterator[DemoCluster]:
    """Connect to a cluster and watch it while the context lasts."""
    async with connect(kubeconfig=str(kubeconfig)) as reached:
        transport = reached.transport()
        cluster = DemoCluster(Client(transport), kinds=kinds, kubeconfig=kubeconfig)
        follower = asyncio.create_task(cluster.follow())
        try:
            yield cluster
        finally:
            follower.cancel()
            await asyncio.wait((follower,))
            await transport.close()


def _name(written: KubeObject) -> tuple[str, str]:
    return written.metadata.namespace, written.metadata.name
