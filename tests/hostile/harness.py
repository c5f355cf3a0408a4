"""Passes hostile objects through the code path of production, together with healthy gangs.

Bytes of a watch -> reflector and its decoder -> view and cache -> decide -> the status that would be written.
`Cluster` has the side of the API server (it keeps the existing objects and lists them again on request) and
the side of the scheduler; only the waits between two attempts are skipped.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from phalanx.cache.cache import Cache
from phalanx.cache.table import key_of
from phalanx.cycle import Engine
from phalanx.deciders.inline import InlineDecider
from phalanx.framework.config import SchedulerConfig
from phalanx.kube import reflector as reflector_module
from phalanx.kube.reflector import Reflector, WatchContext
from phalanx.limits import AMOUNT_MAX, POD_REQUEST_MAX
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.reasons import Reason
from phalanx.model.resources import Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.volumes.published import ClusterVolumes
from phalanx.service import pod_group_status, queue_status
from phalanx.service.cluster_state import ClusterState
from phalanx.service.pod_group_status import GangReport
from phalanx_simulator.invariants.cache_tables import check_cache
from structlog.testing import capture_logs

CONFIG: Final = SchedulerConfig()
NOW_MS: Final = 1_800_000_000_000
SAFE: Final = "example.com/healthy"
"""The resource that healthy pods request; no hostile object offers or requests it."""

HEALTHY_GANGS: Final = 3
HEALTHY_MEMBERS: Final = 4


class _Silent:
    """Watch reports that are ignored."""

    def watch_event_received(self, kind: str) -> None: ...
    def watch_failed(self, kind: str, *, error: str) -> None: ...
    def relisted(self, kind: str, *, objects: int) -> None: ...
    def object_unreadable(self, kind: str) -> None: ...


class _Server:
    """The watch of one kind: at first all existing objects, then the lines that were sent.

    A line that the reader did not accept is sent again, as a server does, until the next list.
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.objects: dict[str, bytes] = {}
        self.relists = 0

    @asynccontextmanager
    async def watch(
        self, _path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        assert idle_timeout > 0
        if "sendInitialEvents" in query:
            self.relists += 1
            yield 200, self._initial()
        elif not query["resourceVersion"].isdigit():
            yield 400, _each([b'{"kind":"Status","code":400,"message":"invalid resource version"}'])
        else:
            yield 200, self._rest()

    async def _initial(self) -> AsyncIterator[bytes]:
        if self.relists > 1:
            del self.lines[:1]
        for body in tuple(self.objects.values()):
            yield event("ADDED", body)
        marks = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield event("BOOKMARK", json.dumps({"metadata": marks}).encode())
        async for line in self._rest():
            yield line

    async def _rest(self) -> AsyncIterator[bytes]:
        while self.lines:
            line = self.lines[0]
            if b'"ERROR"' in line or b'"BOOKMARK"' in line:
                self.lines.pop(0)
                yield line
            else:
                yield line
                self.lines.pop(0)


async def _each(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


class _NoWaiting:
    """Replaces asyncio in the reflector; records the longest wait and does not sleep."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def sleep(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)

    def __getattr__(self, name: str) -> Any:
        import asyncio

        return getattr(asyncio, name)


def event(kind: str, body: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), body)


class Cluster:
    """An API server, and the cache and engine of a scheduler.

    `logs` counts log lines by object: (kind, namespace, name). `warnings` has those lines. `deciding_s` is
    the CPU time of the last cycle, for benchmarks.
    """

    def __init__(self) -> None:
        self.cache = Cache(scheduler_name=CONFIG.scheduler_name)
        self.state = ClusterState(cache=self.cache, decider=InlineDecider(cache=self.cache, config=CONFIG))
        self.memory = Memory()
        self._engine = Engine(CONFIG)
        self.deciding_s = 0.0
        self.logs: Counter[tuple[str, str, str]] = Counter()
        self.warnings: list[dict[str, Any]] = []
        self.servers = {kind: _Server() for kind in WATCHED_KINDS}
        self.reflectors = {kind: self._reflector(kind) for kind in WATCHED_KINDS}

    def _reflector(self, kind: str) -> Reflector:
        server: Any = self.servers[kind]
        return Reflector(KINDS[kind], self.state.apply, WatchContext(server, _Silent(), lambda: 0.5))

    # --- the API server's side -----------------------------------------------------------------------------

    def send(self, kind: str, line: bytes) -> None:
        """A line of the watch of this kind."""
        self.servers[kind].lines.append(line)

    def exists(self, kind: str, name: str, body: bytes) -> None:
        """Add an object to the list of this kind."""
        self.servers[kind].objects[name] = body

    async def deliver(self) -> None:
        """Run every reflector until it has read all lines. Raises the exception of a reflector that fails."""
        waits = _NoWaiting()
        before, reflector_module.asyncio = reflector_module.asyncio, waits  # type: ignore[attr-defined]
        try:
            with capture_logs() as logs:
                for kind, reflector in self.reflectors.items():
                    await self._deliver(kind, reflector)
        finally:
            reflector_module.asyncio = before  # type: ignore[attr-defined]
        assert waits.longest < 600, f"a reflector waits for {waits.longest} s"
        for line in logs:
            if "kind" in line and line["log_level"] == "warning":
                self.warnings.append(dict(line))
                self.logs[line["kind"], line.get("namespace", ""), line.get("name", "")] += 1

    async def _deliver(self, kind: str, reflector: Reflector) -> None:
        server, attempts = self.servers[kind], 0
        while server.lines or not reflector.version:
            left = len(server.lines)
            problem: Exception | None = None
            try:
                await reflector._follow()
            except reflector_module._RETRIED as error:
                problem = error
            if problem is not None:
                await reflector._pause(problem)
            attempts = 0 if len(server.lines) < left else attempts + 1
            assert attempts < 10, f"{kind}: the watch does not get on: {problem}"

    # --- the scheduler's side ------------------------------------------------------------------------------

    def cycle(self) -> tuple[Snapshot, CycleResult]:
        """Run one cycle and check all invariants that hold for any objects."""
        check_cache(self.cache)
        snapshot = self.cache.snapshot(now=NOW_MS, seed=1, memory=self.memory)
        began = time.process_time()
        result = self._engine.decide(snapshot)
        self.deciding_s = time.process_time() - began
        self.memory = result.memory
        check_amounts(snapshot)
        check_named(snapshot, result)
        self._check_statuses(snapshot, result)
        msgspec.msgpack.encode((snapshot, result))
        return snapshot, result

    def _check_statuses(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Check that the statuses of gangs and queues can be computed and encoded."""
        verdicts = {verdict.gang: verdict for verdict in result.verdicts}
        for gang in snapshot.gangs.values():
            written = self.state.objects.pod_group(gang.id)
            if written is not None:
                told = GangReport(verdict=verdicts.get(gang.id))
                msgspec.json.encode(
                    pod_group_status.status_of(gang, told, before=written.status, now_ms=NOW_MS)
                )
        for report in result.queues.values():
            msgspec.json.encode(queue_status.status_of(report, now_ms=NOW_MS))

    def unreported(self) -> list[str]:
        """Existing objects that are neither in the cache nor named in a log."""
        kept = {kind: set(table.keys()) for kind, table in self.cache._kinds.items()}
        return [
            f"{kind} {namespace}/{name}"
            for kind, server in self.servers.items()
            for namespace, name in filter(None, map(name_of, server.objects.values()))
            if key_of(kind, namespace, name) not in kept.get(kind, ())
            and not self.logs[kind, namespace, name]
            and not self.logs[kind, "", name]
            and not self.logs[kind, "", ""]
            and kind in kept
        ]

    async def delete_everything(self) -> None:
        """Send an empty list, as after a relist of an empty cluster."""
        for kind, server in self.servers.items():
            server.objects.clear()
            server.lines.clear()
            self.send(kind, event("ERROR", b'{"code":410,"reason":"Expired"}'))
        await self.deliver()
        check_cache(self.cache)
        snapshot = self.cache.snapshot(now=NOW_MS, seed=1, memory=Memory())
        claims = snapshot.part(ClusterVolumes).claims
        left = (snapshot.gangs, snapshot.nodes, claims, snapshot.namespace_labels)
        assert not any(left), left
        assert not snapshot.queue_usage
        assert list(snapshot.queues) == ["default"]
        assert list(snapshot.topologies) == [""]


def name_of(body: bytes) -> tuple[str, str] | None:
    """Namespace and name if they are text; None if Python cannot parse the object."""
    try:
        meta = json.loads(body)["metadata"]
    except (ValueError, KeyError, RecursionError):
        return None
    if not isinstance(meta, dict):
        return "", ""
    namespace, name = (meta.get(key, "") for key in ("namespace", "name"))
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else ("", "")


# --- invariants -----------------------------------------------------------------------------------------


def check_amounts(snapshot: Snapshot) -> None:
    """S12: integers within the bounds of limits.py, and totals within 64 bits."""
    for state in snapshot.nodes.values():
        _check(state.node.allocatable, 0, AMOUNT_MAX)
        _check(state.used, 0, AMOUNT_MAX)
        _check(state.free, -AMOUNT_MAX, AMOUNT_MAX)
    for gang in snapshot.gangs.values():
        assert type(gang.min_member) is int
        for pod in gang.members:
            _check(pod.shape.requests, 0, POD_REQUEST_MAX)
    for queue in snapshot.queues.values():
        _check(queue.limit, 0, AMOUNT_MAX)
    for usage in snapshot.queue_usage.values():
        for amounts in usage.values():
            _check(amounts, 0, AMOUNT_MAX)


def _check(amounts: Resources, least: int, most: int) -> None:
    for name, amount in amounts.items():
        assert type(amount) is int, f"{name}: {amount!r}"
        assert least <= amount <= most, f"{name}: {amount}"


def check_named(snapshot: Snapshot, result: CycleResult) -> None:
    """Every invalid waiting gang has one verdict, and no gang has two."""
    told = Counter(verdict.gang for verdict in result.verdicts)
    assert all(count == 1 for count in told.values())
    for gang in snapshot.gangs.values():
        ours = [pod for pod in gang.members if pod.is_waiting]
        if gang.problems and ours:
            assert told[gang.id] == 1, f"{gang} is invalid but has no verdict: {gang.problems}"
    verdicts = {verdict.gang: verdict for verdict in result.verdicts}
    waiting = [gang for gang in snapshot.gangs.values() if any(pod.is_waiting for pod in gang.members)]
    placed = {placement.gang for placement in result.placements}
    silent = [str(gang) for gang in waiting if gang.id not in verdicts and gang.id not in placed]
    assert silent == [], "these gangs wait without a verdict"


# --- healthy gangs ----------------------------------------------------------------------------------------


def healthy() -> Iterable[tuple[str, dict[str, Any]]]:
    """Nodes in two racks, and gangs that each fit into one rack."""
    for number in range(4):
        labels = {"healthy-rack": f"r{number % 2}"}
        amounts = {SAFE: "8", "pods": "1000000"}
        meta = {"name": f"healthy-{number}", "uid": f"healthy-node-{number}", "labels": labels}
        yield "Node", {"metadata": meta, "status": {"allocatable": amounts}}
    meta = {"name": "healthy", "uid": "healthy", "resourceVersion": "1"}
    yield "Queue", {"metadata": meta, "spec": {}}
    levels = [{"name": "rack", "nodeLabel": "healthy-rack"}]
    yield "Topology", {"metadata": meta, "spec": {"levels": levels}}
    for gang in range(HEALTHY_GANGS):
        yield from _healthy_gang(f"healthy-{gang}")


def _healthy_gang(name: str) -> Iterable[tuple[str, dict[str, Any]]]:
    spec = {"minMember": HEALTHY_MEMBERS, "queue": "healthy"}
    topology = {"name": "healthy", "required": "rack"}
    meta = {"name": name, "namespace": "healthy", "uid": name}
    yield "PodGroup", {"metadata": meta, "spec": {**spec, "topology": topology}}
    for index in range(HEALTHY_MEMBERS):
        meta = {"name": f"{name}-{index}", "namespace": "healthy", "uid": f"{name}-{index}"}
        container = {"name": "main", "resources": {"requests": {SAFE: "1"}}}
        spec = {"schedulerName": "phalanx", "priority": 0, "containers": [container]}
        yield "Pod", {"metadata": {**meta, "labels": {LABEL_POD_GROUP: name}}, "spec": spec}


def add_healthy(cluster: Cluster) -> None:
    """Create the healthy objects and send their events."""
    for kind, document in healthy():
        body = json.dumps(document).encode()
        meta = document["metadata"]
        cluster.exists(kind, f"{meta.get('namespace', '')}/{meta['name']}", body)
        cluster.send(kind, event("ADDED", body))


def check_healthy(snapshot: Snapshot, result: CycleResult) -> None:
    """S11: all healthy gangs are placed completely in this cycle."""
    binds = Counter(str(placement.gang) for placement in result.placements for _ in placement.binds)
    wanted = {f"healthy-{gang}": HEALTHY_MEMBERS for gang in range(HEALTHY_GANGS)}
    verdicts = [verdict for verdict in result.verdicts if verdict.gang.startswith("healthy")]
    assert {gang: binds[gang] for gang in wanted} == wanted, verdicts
    for placement in result.placements:
        if placement.gang.startswith("healthy"):
            racks = {snapshot.nodes[bind.node].node.labels["healthy-rack"] for bind in placement.binds}
            assert len(racks) == 1


def misconfigured(result: CycleResult) -> Counter[Reason]:
    """How often each reason is reported."""
    return Counter(verdict.reason for verdict in result.verdicts)
