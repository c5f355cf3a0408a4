"""Runs a whole cycle over the clusters of `bench/victims.py`, from snapshot to evictions."""

import random
import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.snapshot import Snapshot

from tests.builders import GI, Scenario

NOW_S = 1_800_000_000
CORES, MEMORY_GI = 11, 240
"""Requests of a pod per GPU."""


class Running(Struct, frozen=True):
    """A running gang: GPUs of each pod, the node of each pod, and its run time in minutes."""

    gpus: int
    nodes: Sequence[int]
    minutes: int


class Wanted(Struct, frozen=True):
    """The gang of higher priority that does not fit; with `spine` it requires one spine."""

    pods: int
    gpus: int
    spine: bool


class Cycle(Struct, frozen=True):
    """CPU seconds of the cycle, and its evicted pods."""

    seconds: float
    evicted: int


def cycle(nodes: int, nodes_per_spine: int, running: Sequence[Running], wanted: Wanted, seed: int) -> Cycle:
    """One cycle with the default configuration, over nodes of 8 GPUs."""
    snapshot = _snapshot(nodes, nodes_per_spine, running, wanted, random.Random(seed))
    began = time.process_time()
    result = decide(snapshot, SchedulerConfig())
    return Cycle(time.process_time() - began, len(result.evictions))


def _snapshot(
    nodes: int, nodes_per_spine: int, running: Sequence[Running], wanted: Wanted, rng: random.Random
) -> Snapshot:
    scenario = Scenario("spine")
    scenario.now = NOW_S * 1000
    for node in range(nodes):
        load = {"cpu": rng.randint(0, 4_000), "memory": rng.randint(0, 16 * GI)}
        spine = f"s{node // nodes_per_spine}"
        scenario.nodes(f"n{node:05}", gpu=8, cpu=96, memory=2048, within=spine, used=load)
    for number, gang in enumerate(running):
        name, on = f"g{number:05}", [f"n{node:05}-0" for node in gang.nodes]
        requests = {"gpu": gang.gpus, "cpu": CORES * gang.gpus, "memory": MEMORY_GI * gang.gpus}
        scenario.gang(name, len(on), on=on, **requests)
        since = NOW_S - 60 * gang.minutes
        members = tuple(replace(pod, running_since=since) for pod in scenario.members(name))
        scenario.change(name, members=members)
    requests = {"gpu": wanted.gpus, "cpu": CORES * wanted.gpus, "memory": MEMORY_GI * wanted.gpus}
    level = {"required": "spine"} if wanted.spine else {}
    scenario.gang("wanted", wanted.pods, priority=10, **requests, **level)  # type: ignore[arg-type]
    return scenario.snapshot()
