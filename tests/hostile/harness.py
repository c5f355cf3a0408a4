"""Hostile objects on the way that all objects take in production, with healthy work beside them.

Bytes of a watch -> reflector and its decoder -> view and cache -> decide -> the status that would be written.
`Cluster` is the API server's side (it remembers what exists, and lists it again when asked to) and the
scheduler's side in one; only the waiting between two attempts is left out.
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
from phalanx.service import pod_group_status, queue_status
from phalanx.service.cluster_state import ClusterState
from phalanx.service.pod_group_status import GangReport
from structlog.testing import capture_logs

CONFIG: Final = SchedulerConfig()
NOW_MS: Final = 1_800_000_000_000
SAFE: Final = "example.com/healthy"
"""The resource that healthy pods ask for: nothing hostile has or wants it."""

HEALTHY_GANGS: Final = 3
HEALTHY_MEMBERS: Final = 4


class _Silent:
    """Reports of a watch, to nobody."""

    def watch_event_received(self, kind: str) -> None: ...
    def watch_failed(self, kind: str, *, error: str) -> None: ...
    def relisted(self, kind: str, *, objects: int) -> None: ...
    def object_unreadable(self, kind: str) -> None: ...


class _Server:
    """What a watch of one kind gives: the lines that were sent, or, to begin with, all that exists.

    A line that was not taken is sent again, as any server would; a new list leaves it behind.
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
    """asyncio for the reflector, with waits that are counted instead of slept."""

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
    """`logs` counts what was logged about objects: (kind, namespace, name) -> lines.

    `deciding_s` is the CPU time of the last cycle, for benchmarks.
    """

    def __init__(self) -> None:
        self.cache = Cache(scheduler_name=CONFIG.scheduler_name)
        self.state = ClusterState(cache=self.cache, decider=InlineDecider(cache=self.cache, config=CONFIG))
        self.memory = Memory()
        self._engine = Engine(CONFIG)
        self.deciding_s = 0.0
        self.logs: Counter[tuple[str, str, str]] = Counter()
        self.why: list[dict[str, Any]] = []
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
        """What a list of this kind holds from now on."""
        self.servers[kind].objects[name] = body

    async def hear(self) -> None:
        """Let every reflector follow until nothing is left to be heard. A reflector that dies raises here."""
        waits = _NoWaiting()
        before, reflector_module.asyncio = reflector_module.asyncio, waits  # type: ignore[attr-defined]
        try:
            with capture_logs() as logs:
                for kind, reflector in self.reflectors.items():
                    await self._hear(kind, reflector)
        finally:
            reflector_module.asyncio = before  # type: ignore[attr-defined]
        assert waits.longest < 600, f"a reflector waits for {waits.longest} s"
        for line in logs:
            if "kind" in line and line["log_level"] == "warning":
                self.why.append(dict(line))
                self.logs[line["kind"], line.get("namespace", ""), line.get("name", "")] += 1

    async def _hear(self, kind: str, reflector: Reflector) -> None:
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
        """One cycle, with everything checked that must hold whatever the objects say."""
        self.cache.check_invariants()
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
        """What would be written about gangs and queues can be computed and sent."""
        verdicts = {verdict.gang: verdict for verdict in result.verdicts}
        for gang in snapshot.gangs.values():
            written = self.state.objects.pod_group(gang)
            if written is not None:
                told = GangReport(verdict=verdicts.get(gang.id))
                msgspec.json.encode(
                    pod_group_status.status_of(gang, told, before=written.status, now_ms=NOW_MS)
                )
        for report in result.queues.values():
            msgspec.json.encode(queue_status.status_of(report, now_ms=NOW_MS))

    def unnamed(self) -> list[str]:
        """Objects that exist and are neither known to the cache nor named in a log."""
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
        """By a list that is empty, as after a relist of a cluster that was emptied."""
        for kind, server in self.servers.items():
            server.objects.clear()
            server.lines.clear()
            self.send(kind, event("ERROR", b'{"code":410,"reason":"Expired"}'))
        await self.hear()
        self.cache.check_invariants()
        snapshot = self.cache.snapshot(now=NOW_MS, seed=1, memory=Memory())
        left = (snapshot.gangs, snapshot.nodes, snapshot.claims, snapshot.namespace_labels)
        assert not any(left), left
        assert not snapshot.queue_usage
        assert list(snapshot.queues) == ["default"]
        assert list(snapshot.topologies) == [""]


def name_of(body: bytes) -> tuple[str, str] | None:
    """Namespace and name, as far as they are text; None where the whole is no JSON to Python."""
    try:
        meta = json.loads(body)["metadata"]
    except (ValueError, KeyError, RecursionError):
        return None
    if not isinstance(meta, dict):
        return "", ""
    namespace, name = (meta.get(key, "") for key in ("namespace", "name"))
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else ("", "")


# --- what must hold -----------------------------------------------------------------------------------------


def check_amounts(snapshot: Snapshot) -> None:
    """S12: whole numbers inside the bounds of limits.py, and totals that 64 bits hold."""
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
    """Every gang that is wrong and waits has one verdict, and no gang has two."""
    told = Counter(verdict.gang for verdict in result.verdicts)
    assert all(count == 1 for count in told.values())
    for gang in snapshot.gangs.values():
        ours = [pod for pod in gang.members if pod.is_waiting]
        if gang.problems and ours:
            assert told[gang.id] == 1, f"{gang} is wrong and nobody says so: {gang.problems}"
    verdicts = {verdict.gang: verdict for verdict in result.verdicts}
    waiting = [gang for gang in snapshot.gangs.values() if any(pod.is_waiting for pod in gang.members)]
    placed = {placement.gang for placement in result.placements}
    silent = [str(gang) for gang in waiting if gang.id not in verdicts and gang.id not in placed]
    assert silent == [], "these wait without a word"


# --- the healthy --------------------------------------------------------------------------------------------


def healthy() -> Iterable[tuple[str, dict[str, Any]]]:
    """Nodes in two racks, and gangs that fit into one of them each."""
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
    """Make them exist, and let them be heard."""
    for kind, document in healthy():
        body = json.dumps(document).encode()
        meta = document["metadata"]
        cluster.exists(kind, f"{meta.get('namespace', '')}/{meta['name']}", body)
        cluster.send(kind, event("ADDED", body))


def check_healthy(snapshot: Snapshot, result: CycleResult) -> None:
    """S11: all of them are placed whole in this very cycle."""
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
