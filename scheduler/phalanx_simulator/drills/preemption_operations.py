"""Operations that free capacity for a gang: preemption, reclaim, nomination, move."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from phalanx.framework.config import ActionName, ConsolidationConfig, SchedulerConfig
from phalanx.model.names import ANNOTATION_SUSPENSION
from phalanx.model.resources import GPU

from phalanx_simulator.drills.operations import (
    GANG,
    NAME,
    RACK,
    SETTLE_S,
    Operation,
    gang,
    run_of,
    running_pods,
    settled,
)
from phalanx_simulator.embedded.kubelets.kubelet import STOP_SECONDS
from phalanx_simulator.embedded.manifests import priority_class, queue
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.runs.world import World

_GROUPS: Final = "podgroups.scheduling.phalanx.dev"
_URGENT: Final = "urgent"
_RACKFUL: Final = 24
_NODEFUL: Final = 8
_FILLERS: Final = ("filler-1", "filler-2")
_NEIGHBOUR: Final = "neighbour"
_SMALL: Final = tuple(f"small-{number}" for number in range(6))
_TERMINATION_S: Final = 20
"""Seconds that victims take to end: longer than a Lease, so that a new leader finds them ending."""
_LATER_S: Final = 2.0
_TIMEOUT_S: Final = 240
_START_S: Final = 60
_WAITS_S: Final = 2.0
_FORGOTTEN_S: Final = 90.0
"""Seconds after which the next leader expects no late request of the last one any more, and more."""
_REST_S: Final = 70
"""Seconds after which a gang may be moved, by the clock of any host."""

_WITH_MOVES: Final = SchedulerConfig(
    actions=(ActionName.RELEASE, ActionName.RECOVER, ActionName.CONSOLIDATE, ActionName.PREEMPT),
    consolidation=ConsolidationConfig(rest_minutes=1, interval_seconds=10),
    suspend_evicted_workloads=False,
)


async def _filled(
    world: World, gangs: Mapping[str, int], *, termination_s: int = 0, queue_name: str = ""
) -> None:
    """Start these gangs and wait until they run.

    Each of their pods takes `termination_s` to terminate.
    """
    for name, members in gangs.items():
        group, job = gang(name, members=members, **({"queue": queue_name} if queue_name else {}))
        if termination_s:
            job["spec"]["template"]["metadata"]["annotations"] = {STOP_SECONDS: str(termination_s)}
        world.create([group, job])
        async with asyncio.timeout(_START_S):
            while run_of(world, name) < members:
                await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLE_S)


async def _full_of_lower_priority(world: World) -> None:
    await settled(world)
    world.create([priority_class(_URGENT, 1000)])
    await _filled(world, dict.fromkeys(_FILLERS, _RACKFUL))


def _create_urgent_gang(world: World) -> Callable[[], bool]:
    world.create(gang(priorityClassName=_URGENT))
    return lambda: run_of(world, NAME) == GANG


async def _full_of_another_queue(world: World) -> None:
    """Another queue borrows the whole guarantee of this one."""
    await settled(world)
    world.create(queue(name, guarantee={GPU: str(_RACKFUL)}) for name in ("mine", "theirs"))
    await _filled(world, dict.fromkeys(_FILLERS, _RACKFUL), queue_name="theirs")


def _create_gang_of_mine(world: World) -> Callable[[], bool]:
    world.create(gang(queue="mine"))
    return lambda: run_of(world, NAME) == GANG


async def _one_was_evicted(world: World) -> str | None:
    """One filler was evicted whole; the other still runs with its old pods."""
    return await _await_state(
        world, lambda: sorted(_kept(world, _FILLERS).values()) == [0, _RACKFUL], _FILLERS
    )


async def _fillers_share_the_rest(world: World) -> str | None:
    """One filler was evicted whole, or both in turn and the first has come back.

    A new leader that finds no evicted pod treats their gang as one that lost its members, which is placed
    before gangs that start.
    """

    def is_so() -> bool:
        kept = sorted(_kept(world, _FILLERS).values())
        return kept in ([0, 0], [0, _RACKFUL]) and sum(run_of(world, name) for name in _FILLERS) == _RACKFUL

    return await _await_state(world, is_so, _FILLERS)


async def _nearly_full_with_slow_termination(world: World) -> None:
    await settled(world)
    world.create([priority_class(_URGENT, 1000)])
    await _filled(world, {_FILLERS[0]: _RACKFUL, _FILLERS[1]: 2 * _NODEFUL}, termination_s=_TERMINATION_S)


def _create_urgent_gang_and_neighbour(world: World) -> Callable[[], bool]:
    """A neighbour arrives that fits into the free part of the nominated capacity."""
    world.create(gang(members=_RACKFUL, priorityClassName=_URGENT))
    world.go(_create_neighbour(world))
    return lambda: run_of(world, NAME) == _RACKFUL


async def _create_neighbour(world: World) -> None:
    await asyncio.sleep(_LATER_S)
    world.create(gang(_NEIGHBOUR, members=_NODEFUL))


async def _victims_were_evicted(world: World) -> str | None:
    """The gang runs on the rack of the smaller filler, or on the other rack and the other gangs run.

    The neighbour gets the free capacity if the leader saw both gangs for the first time together, or if a new
    leader does not know the nomination. If the smaller filler was evicted already, both are evicted then.
    """

    def is_so() -> bool:
        first, second = (_kept(world, _FILLERS)[name] for name in _FILLERS)
        others = run_of(world, _FILLERS[1]), run_of(world, _NEIGHBOUR)
        if first:
            return (first, second, *others) == (_RACKFUL, 0, 0, 0)
        return second in (0, 2 * _NODEFUL) and others == (2 * _NODEFUL, _NODEFUL)

    return await _await_state(world, is_so, (*_FILLERS, _NEIGHBOUR))


async def _scattered(world: World) -> None:
    """Each rack has one free node, and two gangs that may be moved."""
    await settled(world)
    await _filled(world, dict.fromkeys(_SMALL, _NODEFUL))
    racks = {name: _rack_of(world, name) for name in _SMALL}
    for rack in dict.fromkeys(racks.values()):
        _remove(world, next(name for name in _SMALL if racks[name] == rack))
    await asyncio.sleep(_REST_S)


def _rack_of(world: World, name: str) -> str:
    node = world.client.get(Key("nodes", "", running_pods(world, name)[0]["spec"]["nodeName"]))
    assert node is not None
    return str(node["metadata"]["labels"][RACK])


def _remove(world: World, name: str) -> None:
    for key in (Key("jobs.batch", "default", name), Key(_GROUPS, "default", name)):
        world.client.delete(key, uid=_found(world, key)["metadata"]["uid"])


def _create_gang(world: World) -> Callable[[], bool]:
    world.create(gang())
    return lambda: run_of(world, NAME) == GANG


async def _all_run_again(world: World) -> str | None:
    """All remaining gangs run whole; at most two of them have new pods.

    One is moved. A new leader does not know the nomination: the moved gang may get the capacity, and then
    another gang is moved.
    """
    left = [name for name in _SMALL if world.client.get(Key(_GROUPS, "default", name)) is not None]

    def is_so() -> bool:
        kept = _kept(world, left)
        moved = [name for name in left if kept[name] < _NODEFUL]
        return len(moved) <= 2 and all(run_of(world, name) == _NODEFUL for name in left)

    return await _await_state(world, is_so, left)


def _create_and_end_urgent_gang(world: World) -> Callable[[], bool]:
    """A filler waits while the gang runs, and comes back: without pods, unless it cannot be suspended."""
    waited: set[str] = set()

    async def end_when_one_waits() -> None:
        while not waited:
            await asyncio.sleep(_WAITS_S)
            is_one = run_of(world, NAME) == GANG
            waited.update(name for name in _FILLERS if is_one and not run_of(world, name))
        _remove(world, NAME)

    world.create(gang(priorityClassName=_URGENT))
    world.go(end_when_one_waits())
    return lambda: bool(waited) and all(run_of(world, name) == _RACKFUL for name in _FILLERS)


async def _none_is_suspended(world: World) -> str | None:
    """No Job is suspended any more."""
    await asyncio.sleep(_FORGOTTEN_S)
    jobs = {name: _found(world, Key("jobs.batch", "default", name)) for name in _FILLERS}
    left = [name for name, job in jobs.items() if job["spec"].get("suspend") or _annotations(job)]
    return f"suspended or annotated: {left}" if left else None


def _annotations(job: Object) -> bool:
    return ANNOTATION_SUSPENSION in (job["metadata"].get("annotations") or {})


async def _await_state(world: World, is_so: Callable[[], bool], names: Iterable[str]) -> str | None:
    """Wait for the expected state; describe the actual one otherwise."""
    for _ in range(_TIMEOUT_S):
        if is_so():
            return None
        await asyncio.sleep(1)
    runs = {name: run_of(world, name) for name in names}
    return f"of pods from before {_kept(world, names)} are left, and {runs} run"


def _kept(world: World, names: Iterable[str]) -> dict[str, int]:
    """Number of running pods of each gang that are older than the preempting gang."""
    since = _found(world, Key(_GROUPS, "default", NAME))["metadata"]["creationTimestamp"]
    return {
        name: sum(1 for pod in running_pods(world, name) if pod["metadata"]["creationTimestamp"] < since)
        for name in names
    }


def _found(world: World, key: Key) -> Object:
    found = world.client.get(key)
    assert found is not None
    return found


PREEMPTION_OPERATIONS: Final = (
    Operation("preemption", _full_of_lower_priority, _create_urgent_gang, 300.0, _one_was_evicted),
    Operation("reclaim", _full_of_another_queue, _create_gang_of_mine, 300.0, _fillers_share_the_rest),
    Operation(
        "nomination",
        _nearly_full_with_slow_termination,
        _create_urgent_gang_and_neighbour,
        300.0,
        _victims_were_evicted,
    ),
    Operation(
        "suspension",
        _full_of_lower_priority,
        _create_and_end_urgent_gang,
        300.0,
        _none_is_suspended,
        SchedulerConfig(suspended_minutes=None),
    ),
    Operation("move", _scattered, _create_gang, 300.0, _all_run_again, _WITH_MOVES),
)
"""A gang is evicted for one of higher priority, or for one of another queue; a victim ends slowly while a
third gang competes for the capacity; a victim waits without pods and comes back; a gang is moved so that
another fits."""
