"""Loads on a cluster, and memory use of a process: sizes of all containers reachable from its scheduler.

Containers are found by walking all attributes, so that a container that is added later is checked too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from phalanx.deciders.inline import InlineDecider
from phalanx.limits import (
    AVOIDED_GANGS_MAX,
    AVOIDED_NODES_MAX,
    CHECKED_NODES_KEPT,
    EVENT_SERIES_MAX,
    EVENTS_WAITING_MAX,
    STATUS_SENT_KEPT,
    STATUS_WAITING_MAX,
)
from phalanx.model.memory import Memory

from phalanx_simulator.drills.saturation import (
    HOSTS_PER_RACK,
    ChangeLoad,
    daemons,
    full_cluster,
    gang_of_jobs,
    nodes_of,
)
from phalanx_simulator.embedded.store import Change, ChangeType, Object
from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.replica import Process
from phalanx_simulator.runs.simulation import delete_everything
from phalanx_simulator.runs.world import World

_CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)
_ALSO_OURS: Final = (asyncio.Queue, Memory, InlineDecider)
_DATA: Final = ("phalanx.model.", "phalanx.solver.")
"""Packages whose frozen structs are immutable data."""
_NOT_OURS: Final = ("phalanx_simulator", "phalanx.clock")
"""Modules of the simulated world around a scheduler, which the walk must not enter."""


def holdings(process: Process, loop: VirtualLoop, *, into_elements: bool) -> dict[str, int]:
    """Sum of the sizes of the containers at each path.

    A path names attributes, starting at the Scheduler. [] stands for all elements of a container, `timers`
    for pending timers. Immutable data of the model counts as one object. Without `into_elements`, only
    containers that are attributes themselves are counted, which is faster.
    """
    found = {"timers": loop.timers_of(process.host)}
    seen: set[int] = set()
    todo: deque[tuple[str, object]] = deque([("", process.scheduler)])
    while todo:
        path, item = todo.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, asyncio.Queue):
            found[path] = found.get(path, 0) + item.qsize()
        elif isinstance(item, _CONTAINERS):
            found[path] = found.get(path, 0) + len(item)
            if into_elements:
                todo.extend((f"{path}[]", element) for element in _elements(item) if _may_hold(element))
        else:
            todo.extend((f"{path}.{name}", value) for name, value in _attributes(item) if _may_hold(value))
    return found


def _elements(container: Any) -> Iterable[object]:
    found: Iterable[object] = container.values() if isinstance(container, dict) else container
    return found


def _may_hold(item: object) -> bool:
    if isinstance(item, (*_CONTAINERS, *_ALSO_OURS)):
        return True
    kind = type(item)
    if not kind.__module__.startswith("phalanx.") or kind.__module__.startswith(_NOT_OURS):
        return False
    is_data = kind.__module__.startswith(_DATA)
    return not (is_data and isinstance(item, Struct) and item.__struct_config__.frozen)


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    if isinstance(item, Struct):
        yield from ((name, getattr(item, name)) for name in item.__struct_fields__)
    else:
        yield from getattr(item, "__dict__", {}).items()


_LABELS: Final = 128
"""Most label sets of one metric; all label values are from closed lists."""
_RECORDS: Final = 4096
"""Elements of the records of gangs without pods, which are kept for minutes: a load has fewer gangs."""
KEPT: Final[Mapping[str, int]] = {
    "._placement_check._rejections": CHECKED_NODES_KEPT,
    "._children": _LABELS,
    ".events._series": EVENT_SERIES_MAX,
    "._records._decided": _RECORDS,
    "._gangs.records._records": _RECORDS,
    "._memory.seen_members": _RECORDS,
    "._memory.avoided": AVOIDED_GANGS_MAX * AVOIDED_NODES_MAX,
    "._status._requested": STATUS_SENT_KEPT,
    "._status._bases": STATUS_SENT_KEPT,
}
"""Bounds on data that is kept after the deletion of its objects, by the end of the path."""

BOUNDS: Final[Mapping[str, int]] = {
    **KEPT,
    "._event_writer._backing_off": EVENTS_WAITING_MAX,
    "._event_writer._pending": EVENTS_WAITING_MAX,
    "._status_writer._backing_off": STATUS_WAITING_MAX,
    "._status_writer._pending": STATUS_WAITING_MAX,
}
"""The same for all data that has its own bound while there is work."""

_ENGINE: Final = "._engine."
"""In paths to what the engine computed about the nodes of the last cycle, which it keeps until the next."""
_PER_NODE: Final = 9
"""Elements of the engine for one node: a class table holds a key of seven parts and an entry of two."""

_SETTLE_S: Final = 5.0
_POLL_S: Final = 0.5
_REST_S: Final = 120.0
_EMPTYING_S: Final = 90.0
_NEW_LEADER_S: Final = 60.0
_GANG_EVERY_S: Final = 5.0
_GANG_RUNS_S: Final = 20.0
_SPARE: Final = 1_000
"""Elements of a container in addition to pods and nodes of the cluster: gangs, reasons, pending writes."""
_KEPT_MORE: Final = 8
"""Elements in addition to those of a new process beside the same empty cluster, such as timers."""


class Size(Struct, frozen=True):
    """Size of a load."""

    nodes: int
    burst: int
    events_per_s: int
    seconds: float


class Load:
    """A load on a cluster.

    `max_wait_s`: longest wait of one of our pods for its node while the load lasts.
    """

    is_full = True
    """Whether our gangs run on the cluster before the load."""

    def __init__(self, size: Size, *, max_wait_s: float) -> None:
        self.size = size
        self.bound = 0
        self._max_wait_s = max_wait_s
        self._pods = 0
        self._residents: set[str] = set()
        self._lost: set[str] = set()
        self._newcomers: set[str] = set()
        self._waiting: dict[str, float] = {}
        self._longest_wait_s = 0.0
        self._problem: str | None = None
        self._fault: asyncio.Task[None] | None = None

    def meet(self, fault: asyncio.Task[None]) -> None:
        """Set the fault's task; it must be done when the load is over."""
        self._fault = fault

    def begin(self, world: World) -> Callable[[], bool]:
        """Start the load; returns a predicate that tells whether it is complete."""
        raise NotImplementedError

    async def prepare(self, world: World) -> None:
        """Create the cluster with all running work."""
        world.create(nodes_of(self.size.nodes))
        world.server.store.subscribe("pods", lambda change: self._on_change(world, change))
        world.create(full_cluster(self.size.nodes) if self.is_full else daemons(self.size.nodes))
        await asyncio.sleep(_SETTLE_S)
        world.start()
        await asyncio.sleep(_SETTLE_S)
        self._residents, self._newcomers = self._newcomers, set()
        self._checking = world.go(self._check_periodically(world))

    async def afterwards(self, world: World) -> str | None:
        """Check at rest, delete everything, check again, then compare with a fresh process."""
        self._checking.cancel()
        await asyncio.sleep(_REST_S)
        self._check_fault()
        world.at_rest()
        if self._lost:
            self.found(f"{len(self._lost)} pods that ran before were lost")
        if self._longest_wait_s > self._max_wait_s:
            self.found(f"a pod waited {self._longest_wait_s:.1f} s for its node, not {self._max_wait_s} s")
        delete_everything(world)
        await asyncio.sleep(_EMPTYING_S)
        world.at_end()
        await self._compare(world)
        return self._problem

    def _check_fault(self) -> None:
        """Report a fault that never happened; raise its exception."""
        if self._fault is not None and self._fault.done():
            self._fault.result()
        elif self._fault is not None:
            self.found("the fault had no effect: it still waits for its moment")

    @property
    def newcomers(self) -> int:
        """Number of pods that run now and did not run before."""
        return len(self._newcomers)

    def _on_change(self, world: World, change: Change) -> None:
        item, now = change.entry.data, world.loop.time()
        uid, node = item["metadata"]["uid"], item["spec"].get("nodeName")
        self._pods += (change.type is ChangeType.ADDED) - (change.type is ChangeType.DELETED)
        runs = change.type is not ChangeType.DELETED and item["status"].get("phase") == "Running"
        if uid in self._residents and not runs:
            self._lost.add(uid)
        elif runs and uid not in self._residents:
            self._newcomers.add(uid)
        else:
            self._newcomers.discard(uid)
        if change.type is ChangeType.DELETED:
            self._waiting.pop(uid, None)
        elif not node:
            self._waiting.setdefault(uid, now)
        elif uid in self._waiting:
            self.bound += 1
            self._longest_wait_s = max(self._longest_wait_s, now - self._waiting.pop(uid))

    async def _check_periodically(self, world: World) -> None:
        """Check that no container holds more items than the cluster has objects."""
        while True:
            await asyncio.sleep(_POLL_S)
            most = _SPARE + self.size.nodes + self._pods
            for replica in world.replicas:
                if replica.process is not None:
                    held = _held(world, replica.process, into_elements=False)
                    self._check(held, BOUNDS, {}, spare=most)

    async def _compare(self, world: World) -> None:
        """Check that the leader keeps no more of an empty cluster than a fresh process."""
        old = _leading(world)
        before = _held(world, old, into_elements=True) if old is not None else {}
        for replica in world.replicas:
            replica.prepare(lambda _process: None)
            replica.kill()
        await asyncio.sleep(_NEW_LEADER_S)
        fresh = _leading(world)
        if old is None or fresh is None or fresh is old:
            self.found("the empty cluster has no leader")
            return
        now = _held(world, fresh, into_elements=True)
        self._check(before, KEPT, now, spare=_KEPT_MORE)

    def _check(
        self, held: Mapping[str, int], bounds: Mapping[str, int], expected: Mapping[str, int], *, spare: int
    ) -> None:
        for path, count in held.items():
            ends = (bound for end, bound in bounds.items() if path.rstrip("[]").endswith(end))
            of_last_cycle = _PER_NODE * self.size.nodes if _ENGINE in path else 0
            most = next(ends, expected.get(path, 0) + spare + of_last_cycle)
            if count > most:
                self.found(f"{path} holds {count} elements, expected at most {most}")

    def found(self, problem: str) -> None:
        """Report an error; the first one counts."""
        self._problem = self._problem or problem


class Listing(Load):
    """Both replicas restart beside a full cluster, and a gang needs the last capacity of a rack."""

    def begin(self, world: World) -> Callable[[], bool]:
        """See Load."""
        for replica in world.replicas:
            replica.kill()
        world.create(gang_of_jobs("late", HOSTS_PER_RACK, level="rack"))
        return lambda: self.newcomers == HOSTS_PER_RACK


class Events(Load):
    """Constant changes of pods and nodes, while gangs arrive, run and end."""

    def begin(self, world: World) -> Callable[[], bool]:
        """See Load."""
        changes_load = ChangeLoad(world, per_s=self.size.events_per_s)
        changes = world.go(changes_load.run(self.size.seconds))
        gangs = world.go(self._gangs(world))
        return lambda: changes.done() and gangs.done() and all(map(_is_complete, _jobs(world)))

    async def _gangs(self, world: World) -> None:
        for number in range(int(self.size.seconds / _GANG_EVERY_S)):
            world.create(gang_of_jobs(f"short-{number}", HOSTS_PER_RACK, level="rack", run_s=_GANG_RUNS_S))
            await asyncio.sleep(_GANG_EVERY_S)


class Burst(Load):
    """Many pods arrive at once in gangs of `members` (0: one gang) that require `level`."""

    is_full = False

    def __init__(self, size: Size, *, max_wait_s: float, members: int = 0, level: str = "") -> None:
        super().__init__(size, max_wait_s=max_wait_s)
        self._members = members or size.burst
        self._level = level

    def begin(self, world: World) -> Callable[[], bool]:
        """See Load."""
        for number in range(self.size.burst // self._members):
            world.create(gang_of_jobs(f"burst-{number}", self._members, level=self._level))
        return lambda: self.newcomers == self.size.burst


def _held(world: World, process: Process, *, into_elements: bool) -> dict[str, int]:
    return holdings(process, world.loop, into_elements=into_elements)


def _leading(world: World) -> Process | None:
    leader = world.leader()
    return leader.process if leader is not None else None


def _jobs(world: World) -> list[Object]:
    found = [world.client.get(key) for key in world.client.keys("jobs.batch")]
    return [whole for whole in found if whole is not None]


def _is_complete(whole: Object) -> bool:
    conditions = whole.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Complete" and condition["status"] == "True" for condition in conditions)
