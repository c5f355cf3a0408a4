"""A test harness for checks: a test plays a history on an API server and a network without schedulers.

def test_...():
    async def history(stage):
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
    assert violations(history, OneBindPerPod) == []
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
from phalanx.cache.cache import Cache
from phalanx.kube.decode import KindDecoder
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.model.decisions import Bind, Certificate, CycleResult, Placement
from phalanx.model.events import Relisted
from phalanx.model.gangs import MemberCount
from phalanx.model.memory import GangComposition, Memory
from phalanx.model.names import API_GROUP, GangId, NodeName, ShapeKey
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import PodShape
from phalanx.model.snapshot import Snapshot
from phalanx.ports import OutcomeUnknown, RequestNotSent
from phalanx_simulator.embedded.apiserver.lists import wire
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.host import Host, HostClock, State, WorldClock
from phalanx_simulator.hosts.network import Network
from phalanx_simulator.hosts.transport import SimTransport
from phalanx_simulator.invariants.check import Check, CheckContext, Checks, Coverage, Violation, Violations

RESOURCES = {
    "Job": "jobs.batch",
    "Namespace": "namespaces",
    "Node": "nodes",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "PodGroup": "podgroups.scheduling.phalanx.dev",
    "PriorityClass": "priorityclasses.scheduling.k8s.io",
    "Queue": "queues.scheduling.phalanx.dev",
    "Topology": "topologies.scheduling.phalanx.dev",
}
UNSPACED = ("nodes", RESOURCES["Queue"], RESOURCES["PriorityClass"])
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/phalanx"


class Stage:
    """The API server with its checks. Times are simulated seconds."""

    def __init__(self, loop: VirtualLoop, kinds: tuple[type[Check], ...], single_writer: bool) -> None:
        self.loop = loop
        self.clock = WorldClock(loop)
        self.server = ApiServer(clock=self.clock)
        self.client = Client(self.server)
        self.found = Violations()
        self.coverage = Coverage()
        self.hosts = tuple(Actor(f"p{number}", self) for number in range(2))
        context = CheckContext(
            store=self.server.store,
            clock=self.clock,
            replicas=self.hosts,  # type: ignore[arg-type]
            coverage=self.coverage,
            report=self.found.take,
            single_writer=single_writer,
        )
        self.context = context
        self.checks = Checks(context, kinds)

    def create(self, *manifests: Object) -> None:
        """Create objects; nodes get no not-ready taint."""
        for one in manifests:
            namespace = one["metadata"].get("namespace", "")
            self.client.create(RESOURCES[one["kind"]], namespace, one)
            if one["kind"] == "Node":
                self.change(one["metadata"]["name"], "nodes", taints=[])

    def key(self, name: str, resource: str = "pods", namespace: str = "default") -> Key:
        return Key(resource, "" if resource in UNSPACED else namespace, name)

    def uid(self, name: str, resource: str = "pods", namespace: str = "default") -> str:
        found = self.client.get(self.key(name, resource, namespace))
        assert found is not None, name
        return str(found["metadata"]["uid"])

    def delete(self, name: str, resource: str = "pods") -> None:
        self.client.delete(self.key(name, resource), uid=self.uid(name, resource), grace_s=0)

    def change(self, name: str, resource: str = "pods", **spec: Any) -> None:
        """Set fields of the spec."""
        self.client.update(self.key(name, resource), lambda it: {**it, "spec": {**it["spec"], **spec}})

    def status(self, name: str, resource: str = "pods", **fields: Any) -> None:
        self.client.update_status(self.key(name, resource), **fields)

    def condition(self, node: str, kind: str, status: str, **rest: str) -> None:
        condition = {"type": kind, "status": status, **rest}
        self.client.update_status(self.key(node, "nodes"), condition=condition)

    async def pass_time(self, seconds: float) -> None:
        """Advance time, with a tick of the checks every second."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            await asyncio.sleep(min(1.0, end - self.loop.time()))
            self.checks.on_tick()

    async def leader(self) -> "Actor":
        """The first host, after it has taken the Lease and received everything."""
        host = self.hosts[0]
        await host.take_lease()
        await host.receive()
        return host


class Actor:
    """A host that a test controls, with the attributes of a replica that checks read."""

    def __init__(self, name: str, stage: Stage) -> None:
        self.name = name
        self.starts = 1
        self.clock = HostClock(stage.clock)
        self._stage = stage
        self._cycle = 0
        self._version = ""
        network = Network(host=name, server=stage.server, loop=stage.loop, random=Random(1))
        network.observer = lambda exchange: stage.checks.on_exchange(exchange)
        self.network = network
        self.cache = Cache(scheduler_name="phalanx")
        self._transport = SimTransport(network=network, server=stage.server, loop=stage.loop)
        scheduler = SimpleNamespace(is_leading=False)
        task = SimpleNamespace(done=lambda: False, cancelled=lambda: False, exception=lambda: None)
        host = Host(name)
        host.state = State.RUNNING
        self.process = SimpleNamespace(
            host=host, network=network, cache=self.cache, scheduler=scheduler, task=task
        )

    async def receive(self, *plurals: str) -> None:
        """Receive everything, or all objects of these kinds, and wait half a second."""
        for kind in WATCHED_KINDS:
            plural = KINDS[kind].plural
            if not plurals or plural in plurals:
                self.network.received.update(KINDS[kind].resource, self._stage.server.store.revision)
                self._relist(kind)
        await asyncio.sleep(0.5)

    def _relist(self, kind: str) -> None:
        read = (KINDS[kind].api_version, KINDS[kind].api_name)
        served = [one for one in self._stage.server.types.all() if (one.api_version, one.kind) == read]
        entries = [(one, entry) for one in served for entry in self._stage.server.store.entries(one.resource)]
        items = [wire(one, entry) for one, entry in entries]
        page = KindDecoder(KINDS[kind]).page(b'{"metadata":{},"items":[' + b",".join(items) + b"]}")
        self.cache.apply(Relisted(kind, tuple(page.objects), ()))

    async def request(self, method: str, path: str, body: Any = None, *, timeout: float = 5.0) -> int:
        """Send a request and return the status; 0 if it is unknown or the request was not sent."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        encoded = msgspec.json.encode(body) if body is not None else None
        try:
            answer = await self._transport.request(
                method, path, body=encoded, content_type=kind, timeout=timeout
            )
        except (OutcomeUnknown, RequestNotSent):
            return 0
        if path == LEASE and answer.status < 300:
            self._version = msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]
        return answer.status

    async def bind(
        self, name: str, node: str, *, uid: str | None = None, namespace: str = "default", **annotations: str
    ) -> int:
        """Bind a pod. `annotations`: with underscores, without the prefix of our API group."""
        meta: Object = {"name": name, "namespace": namespace}
        meta["annotations"] = {
            f"{API_GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()
        }
        meta["uid"] = self._stage.uid(name, namespace=namespace) if uid is None else uid
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        body = {"metadata": meta, "target": {"kind": "Node", "name": node}}
        return await self.request("POST", path, body)

    async def evict(self, name: str, *, uid: str | None = None, namespace: str = "default") -> int:
        """Delete a pod."""
        meant = self._stage.uid(name, namespace=namespace) if uid is None else uid
        body = {"preconditions": {"uid": meant}} if meant else {}
        return await self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)

    async def take_lease(self) -> int:
        """Create the Lease, or take it over."""
        self.process.scheduler.is_leading = True
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 15}
        found = self._stage.client.get(Key("leases.coordination.k8s.io", "kube-system", "phalanx"))
        if found is None:
            body = {"metadata": {"name": "phalanx"}, "spec": spec}
            return await self.request("POST", LEASES, body)
        version = found["metadata"]["resourceVersion"]
        return await self.request("PATCH", LEASE, {"metadata": {"resourceVersion": version}, "spec": spec})

    async def renew(self) -> int:
        found = self._stage.client.get(Key("leases.coordination.k8s.io", "kube-system", "phalanx"))
        assert found is not None
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        spec = {"renewTime": "2026-01-01T00:00:00.000000Z"}
        return await self.request("PATCH", LEASE, {"metadata": meta, "spec": spec})

    def decide(self, **targets: str) -> None:
        """A cycle with one placement of these pods (dashes as underscores) on these nodes."""
        self.place({name.replace("_", "-"): node for name, node in targets.items()})

    def place(
        self,
        targets: dict[str, str],
        *,
        gang: str = "",
        cause: str = "start",
        held: int = 0,
        known: Sequence[str] = (),
    ) -> None:
        """A cycle with one placement.

        `gang`: UID of the gang. `held`: number of members with a capacity hold. `known`: nodes of the
        snapshot.
        """
        binds = tuple(
            Bind(self._stage.uid(name), "default", name, node)  # type: ignore[arg-type]
            for name, node in targets.items()
        )
        self._cycle += 1
        placement = Placement(gang, "default/g", self._cycle, cause, binds, _CERTIFICATE)  # type: ignore[arg-type]
        holds = {NodeName("n1"): (MemberCount("", PodShape(ShapeKey(""), {}), held),)} if held else {}
        memory = Memory(compositions={GangId(gang): GangComposition((), held=holds)})
        self.decided(CycleResult(cycle=self._cycle, placements=(placement,), memory=memory), known=known)

    def decided(self, result: CycleResult, *, known: Sequence[str] = ()) -> None:
        nodes = {NodeName(name): NodeState(Node(NodeName(name), name, {})) for name in known}
        snapshot = Snapshot(now=self.clock.now_ms(), seed=0, nodes=nodes)
        self._stage.checks.on_cycle(self.name, snapshot, result)


_CERTIFICATE = Certificate((), (), (), True, "test")

History = Callable[[Stage], Awaitable[None]]


def play(history: History, *kinds: type[Check], single_writer: bool = True) -> Stage:
    """Play a history with these checks."""
    loop = VirtualLoop(Random(0))

    async def main() -> Stage:
        stage = Stage(loop, kinds, single_writer)
        await history(stage)
        return stage

    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def violations(history: History, *kinds: type[Check], single_writer: bool = True) -> list[str]:
    """The names of the checks that were violated, in order, each as often as it was."""
    return [one.check for one in violated(history, *kinds, single_writer=single_writer)]


def violated(history: History, *kinds: type[Check], single_writer: bool = True) -> list[Violation]:
    """The violations."""
    return play(history, *kinds, single_writer=single_writer).found.kept
