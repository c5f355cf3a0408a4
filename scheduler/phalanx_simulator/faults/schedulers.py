"""F3, F4, F5, part of F14: faults between schedulers and API server, and of the schedulers themselves.

The kinds and their settings are listed in `faults/kinds.py`. Faults of requests and watches
affect every replica.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS
from phalanx_simulator.embedded.pod_claims import is_for_extended
from phalanx_simulator.embedded.store import Change, ChangeType
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.hosts.host import State
from phalanx_simulator.hosts.network import WATCH, Effect, Network, Rule
from phalanx_simulator.hosts.replica import Process, Replica
from phalanx_simulator.runs.world import World

Sleep = Callable[[float], Coroutine[Any, Any, None]]

RemoteInjector = Callable[[Fault, World, Sleep], Awaitable[bool]]
"""Injects the fault, waits for its duration, undoes it. Returns whether it affected anything."""


def _on_requests(effect: Effect | None) -> RemoteInjector:
    """An injector: requests get this effect, or the fault's, for its duration."""

    async def injector(fault: Fault, world: World, sleep: Sleep) -> bool:
        rules = [_rule(fault, effect, world) for _ in _networks(world)]
        for network, rule in zip(_networks(world), rules, strict=True):
            network.rules.append(rule)
            if WATCH in rule.methods:
                network.cut_watches(rule.path_part)
        await sleep(fault.seconds)
        for rule in rules:
            rule.times = 0
        return any(rule.met for rule in rules)

    return injector


def _rule(fault: Fault, effect: Effect | None, world: World) -> Rule:
    method, _, resource = fault.text("request").partition(" ")
    return Rule(
        effect=effect or Effect(fault.text("effect")),
        methods=(method,) if method else (),
        path_part=_path_part(resource),
        status=fault.number("status", 500),
        retry_after_s=fault.number("retry_after_s") if fault.number("status") == 429 else None,
        slow_s=fault.number("slow_ms") / 1000,
        permille=fault.number("permille", 1000),
        until_s=world.loop.time() + fault.seconds,
    )


def _path_part(resource: str) -> str:
    return f"/{resource.rpartition('/')[2]}" if resource else ""


def _watched(fault: Fault) -> str:
    return _path_part(fault.text("resource"))


def _reaches(networks: Iterable[Network], part: str = "") -> bool:
    """Whether a matching watch is open."""
    return any(network.watches(part) for network in networks)


def _on_watches(act: Callable[[Network, str], None]) -> RemoteInjector:
    """An injector that acts once on the watches of a resource."""

    async def injector(fault: Fault, world: World, sleep: Sleep) -> bool:
        has_hit = _reaches(_networks(world), _watched(fault))
        for network in _networks(world):
            act(network, _watched(fault))
        return has_hit

    return injector


def _forget_version(network: Network, path_part: str) -> None:
    """Cut the watch; the server answers 410 when the client resumes it."""
    network.rules.append(
        Rule(effect=Effect.REFUSED, methods=(WATCH,), path_part=path_part, status=410, times=1)
    )
    network.cut_watches(path_part)


async def _watch_delay(fault: Fault, world: World, sleep: Sleep) -> bool:
    hit, part = _networks(world), _watched(fault)
    for network in hit:
        network.delay_watches(fault.number("slow_ms") / 1000, part)
    await sleep(fault.seconds)
    for network in hit:
        network.delay_watches(0.0, part)
    return _reaches(hit, part)


async def _watch_reorder(fault: Fault, world: World, sleep: Sleep) -> bool:
    """Delay each kind differently, so that events of different kinds overtake each other."""
    hit, random = _networks(world), world.random(f"reorder/{fault.at_s}")
    for network in hit:
        for part in _REORDERED:
            network.delay_watches(random.random() * _REORDER_S, part)
    await sleep(fault.seconds)
    for network in hit:
        for part in _REORDERED:
            network.delay_watches(0.0, part)
    return _reaches(hit)


async def _watch_duplicate(fault: Fault, world: World, sleep: Sleep) -> bool:
    hit = _networks(world)
    for network in hit:
        network.duplicates_permille = _DUPLICATES_PERMILLE
    await sleep(fault.seconds)
    for network in hit:
        network.duplicates_permille = 0
    return _reaches(hit)


async def _compaction(fault: Fault, world: World, sleep: Sleep) -> bool:
    """Compact the server's history; disconnected watches must list again."""
    world.server.store.compact()
    for network in _networks(world):
        network.cut_watches()
    return True


async def _kill(fault: Fault, world: World, sleep: Sleep) -> bool:
    replica = _replica(fault, world)
    process = _running(replica)
    replica.kill()
    return process is not None


async def _kill_at_claim(fault: Fault, world: World, sleep: Sleep) -> bool:
    """Kill the leader as soon as the next ResourceClaim is made or allocated, within the fault's duration."""
    seen, is_step = asyncio.Event(), _CLAIM_STEPS[fault.text("after")]
    unsubscribe = world.client.subscribe(CLAIMS, lambda change: seen.set() if is_step(change) else None)
    waits = [asyncio.ensure_future(each) for each in (seen.wait(), sleep(fault.seconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        unsubscribe()
        for each in waits:
            each.cancel()
    return seen.is_set() and await _kill(fault, world, sleep)


def _is_made(change: Change) -> bool:
    """Whether a scheduler made a claim, for extended resources."""
    return change.type is ChangeType.ADDED and is_for_extended(change.entry.data)


def _is_allocated(change: Change) -> bool:
    """Whether a claim was just allocated."""
    if change.type is ChangeType.DELETED or change.previous is None:
        return False
    now, before = (each.data.get("status", {}).get("allocation") for each in (change.entry, change.previous))
    return bool(now) and not before


_CLAIM_STEPS: Final[Mapping[str, Callable[[Change], bool]]] = {"made": _is_made, "allocated": _is_allocated}


async def _pause(fault: Fault, world: World, sleep: Sleep) -> bool:
    process = _running(_replica(fault, world))
    if process is not None:
        process.host.freeze()
        await sleep(fault.seconds)
        process.host.thaw()
    return process is not None


async def _partition(fault: Fault, world: World, sleep: Sleep) -> bool:
    process = _running(_replica(fault, world))
    if process is not None:
        process.network.partition()
        await sleep(fault.seconds)
        process.network.heal()
    return process is not None


def _running(replica: Replica) -> Process | None:
    process = replica.process
    return process if process is not None and process.host.state is State.RUNNING else None


async def _clock_jump(fault: Fault, world: World, sleep: Sleep) -> bool:
    """Shift the clock permanently."""
    _replica(fault, world).clock.jump(fault.number("by_s") * 1000)
    return True


async def _clock_rate(fault: Fault, world: World, sleep: Sleep) -> bool:
    clock = _replica(fault, world).clock
    clock.run_at(1 + fault.number("percent") / 100)
    await sleep(fault.seconds)
    clock.run_at(1.0)
    return True


def _replica(fault: Fault, world: World) -> Replica:
    leader = world.leader() or world.replicas[0]
    others = [replica for replica in world.replicas if replica is not leader]
    return others[0] if fault.text("replica") == "follower" and others else leader


def _networks(world: World) -> list[Network]:
    processes = [replica.process for replica in world.replicas]
    return [process.network for process in processes if process is not None]


_REORDERED: Final = ("/pods", "/nodes", "/podgroups", "/queues", "/namespaces")
_REORDER_S: Final = 5.0
_DUPLICATES_PERMILLE: Final = 300

REMOTE_INJECTORS: Final[Mapping[str, RemoteInjector]] = {
    "api-error": _on_requests(None),
    "api-lost": _on_requests(None),
    "api-reset": _on_requests(Effect.NOT_SENT),
    "api-slow": _on_requests(Effect.SLOW),
    "watch-cut": _on_watches(Network.cut_watches),
    "watch-silent": _on_watches(Network.silence_watches),
    "watch-bookmarks": _on_watches(Network.bookmark_watches),
    "watch-gone": _on_watches(_forget_version),
    "relist": _on_watches(_forget_version),
    "watch-delay": _watch_delay,
    "watch-reorder": _watch_reorder,
    "watch-duplicate": _watch_duplicate,
    "compaction": _compaction,
    "leader-kill": _kill,
    "leader-pause": _pause,
    "partition": _partition,
    "clock-jump": _clock_jump,
    "clock-rate": _clock_rate,
    "claim-error": _on_requests(None),
    "claim-lost": _on_requests(None),
    "claim-leader-kill": _kill_at_claim,
}
