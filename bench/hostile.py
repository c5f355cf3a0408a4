"""Feeds 100,000 malformed objects through watch, reflector, cache, decide and `phalanx decide`.

    python -m bench.hostile [--objects 100000] [--world 400] [--manifests 10] [--seed 1000] [--out FILE]

Each world is a new cluster with valid gangs, 400 malformed objects and two cycles; at the end all objects are
deleted. The checks are those of tests/hostile. One object in `--manifests` is also given to `phalanx decide`.
Each cycle is compared with a cycle over the valid forms of the same objects in the same minute.
"""

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from bench.record import record
from tests.hostile import events
from tests.hostile.commands import decided
from tests.hostile.generator import MutatedObject, mutated_objects
from tests.hostile.harness import Cluster, add_healthy, check_healthy, event

RESULTS = Path(__file__).resolve().parent / "results" / "hostile.json"

LONGEST = 3.0
"""The largest allowed ratio of the CPU time of a cycle with malformed objects to one with valid objects.

The reference is the cycle with valid objects of the same world, or the median of all worlds if that is
larger: invalid single pods get one verdict each, while a valid world may have nothing to report.
"""


class Tally:
    """Counts of the results of all objects."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.logged = self.refused = self.worlds = 0
        self.cycle_ms: list[float] = []
        self.sound_ms: list[float] = []

    @property
    def objects(self) -> int:
        return self.kinds.total()

    def report(self, seconds: float) -> dict[str, Any]:
        return {
            "objects": self.objects,
            "worlds": self.worlds,
            "seconds": round(seconds, 1),
            "crashes": len(self.failures),
            "failures": self.failures,
            "kinds": dict(self.kinds.most_common()),
            "spoiled by": dict(self.ways.most_common()),
            "named in a log": self.logged,
            "gangs refused with a verdict": self.refused,
            "verdicts": dict(self.reasons.most_common()),
            "exit codes of phalanx decide": dict(self.codes.most_common()),
            "cycle ms with hostile objects (median, p99, most)": _spread(self.cycle_ms),
            "cycle ms with as many sound ones (median, p99, most)": _spread(self.sound_ms),
            "longest beside sound ones (times)": round(self.longest, 2),
            "longest that is no delay (times)": LONGEST,
        }

    @property
    def longest(self) -> float:
        """The greatest ratio of a cycle with malformed objects to its valid reference."""
        return longest(self.cycle_ms, self.sound_ms)


def longest(hostile_ms: list[float], sound_ms: list[float]) -> float:
    """The greatest ratio by world; the median of all valid cycles is the lower bound of the reference."""
    least = statistics.median(sound_ms)
    return max(each / max(sound, least) for each, sound in zip(hostile_ms, sound_ms, strict=True))


def _spread(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [
        round(each, 2)
        for each in (statistics.median(ordered), ordered[-1 - len(ordered) // 100], ordered[-1])
    ]


async def world(tally: Tally, items: list[MutatedObject], seed: int) -> None:
    """Run one world: create a cluster, run its cycles, and delete its objects."""
    cluster, random = Cluster(), Random(seed)
    add_healthy(cluster)
    for item in items:
        tally.kinds[item.kind] += 1
        tally.ways.update(item.mutations)
        events.send(cluster, random, item)
    await cluster.deliver()
    gc.collect()  # garbage of earlier worlds must not count for this cycle
    snapshot, result = cluster.cycle()
    tally.cycle_ms.append(cluster.deciding_s * 1000)
    tally.sound_ms.append(await sound_cycle_ms(items))
    check_healthy(snapshot, result)
    unreported = cluster.unreported()
    assert not unreported, unreported[:5]
    cluster.cycle()
    await cluster.delete_everything()
    tally.logged += len(cluster.logs)
    tally.refused += len(result.verdicts)
    tally.reasons.update(verdict.reason.value for verdict in result.verdicts)


async def sound_cycle_ms(items: list[MutatedObject]) -> float:
    """The time of the cycle of the same cluster with valid objects."""
    cluster = Cluster()
    add_healthy(cluster)
    for item in items:
        cluster.send(item.kind, event("ADDED", item.original))
    await cluster.deliver()
    gc.collect()
    check_healthy(*cluster.cycle())
    return cluster.deciding_s * 1000


def run(arguments: argparse.Namespace) -> Tally:
    """Run all worlds; a failure is recorded and the next world starts."""
    tally = Tally()
    _load(arguments)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "object.yaml"
        while tally.objects < arguments.objects:
            seed = arguments.seed + tally.worlds
            items = list(
                islice(mutated_objects(seed), min(arguments.world, arguments.objects - tally.objects))
            )
            _recorded(
                tally, f"world {seed}", lambda items=items, seed=seed: asyncio.run(world(tally, items, seed))
            )
            for item in items[:: arguments.manifests]:
                _recorded(
                    tally,
                    f"phalanx decide, seed {seed}, {item.kind} {item.name} {item.mutations}",
                    lambda item=item: tally.codes.update([str(decided(item, file))]),
                )
            tally.worlds += 1
            _progress(tally, arguments.objects, time.perf_counter() - began)
    return tally


def _load(arguments: argparse.Namespace) -> None:
    """Load what the first cycle of a process imports: the solver and plugins."""
    import_module("phalanx.solver.cp_sat")
    asyncio.run(sound_cycle_ms(list(islice(mutated_objects(arguments.seed), arguments.world))))


def _recorded(tally: Tally, what: str, work: Any) -> None:
    try:
        work()
    except Exception as error:
        tally.failures.append(f"{what}: {type(error).__name__}: {error}"[:500])
        print(f"\n{tally.failures[-1]}", file=sys.stderr)


def _progress(tally: Tally, objects: int, seconds: float) -> None:
    rate = tally.objects / seconds
    left = (objects - tally.objects) / rate
    print(
        f"\r{tally.objects:,} of {objects:,} objects, {tally.worlds} worlds, {len(tally.failures)} failures, "
        f"{rate:,.0f}/s, {left:,.0f} s left   ",
        end="",
        file=sys.stderr,
        flush=True,
    )


def main() -> None:
    """Print a table and write the JSON; exit code 1 when anything failed or a cycle was too slow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--world", type=int, default=400)
    parser.add_argument("--manifests", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    began = time.perf_counter()
    gc.freeze()
    tally = run(arguments)
    report = tally.report(time.perf_counter() - began)
    print(file=sys.stderr)
    for name, value in report.items():
        print(f"{name:>52}  {value}")
    record(arguments.out, report)
    sys.exit(1 if tally.failures or tally.longest > LONGEST else 0)


if __name__ == "__main__":
    main()
