"""`python -m bench.oracle`: compares feasible nodes of single pods, and what they cost, with kube-scheduler.

    python -m bench.oracle [--kind KIND] [--cases N] [--first SEED] [--jobs N] [--output FILE]

Cases are random clusters of `tests/oracle`, 200 for each seed. `--kind`: with `pods`, all rules but those of
the other kinds; with `volumes`, claims that may take volumes which exist already; with `devices`, claims to
devices; with `extended`, extended resources that devices may satisfy. Disagreements are printed with their
seed, and their objects are appended to FILE, one List in JSON a line. The last lines have the totals: cases,
those that were left out and why, how many nodes each plugin of kube-scheduler refused, and in how many cases
its scores of the feasible nodes differ. The exit code is 1 if there was a disagreement. It needs Go, which
builds the program once.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from msgspec import Struct
from phalanx.model.supplies.devices.matching import Matcher

from tests.oracle.clusters import POD, Case, cases
from tests.oracle.comparison import Comparison, compare
from tests.oracle.device_clusters import POD as DEVICE_POD
from tests.oracle.device_clusters import cases_with_devices
from tests.oracle.device_comparison import Comparison as DeviceComparison
from tests.oracle.device_comparison import compare as compare_devices
from tests.oracle.extended_clusters import cases_with_extended_resources
from tests.oracle.plugins import Plugins, running
from tests.oracle.volume_clusters import volume_cases

CASES_PER_SEED: Final = 200

Compared = Comparison | DeviceComparison


class Disagreement(Struct, frozen=True):
    """A case on which the answers differ."""

    seed: int
    problem: str
    case: Case


class Tally(Struct, frozen=True):
    """The results of one seed."""

    counts: Counter[str]
    refused_by: Counter[str]
    scored_by: Counter[str]
    disagreements: tuple[Disagreement, ...]


class Kind(Struct, frozen=True):
    """Random clusters, and how the answers about one of them are compared."""

    cases: Callable[[], SearchStrategy[Case]]
    compare: Callable[[Plugins, Case], Compared]


def _by_cycle(plugins: Plugins, case: Case) -> Comparison:
    return compare(plugins, case.objects, POD, hard_weight=case.hard_weight)


def _by_allocator(plugins: Plugins, case: Case) -> DeviceComparison:
    return compare_devices(plugins, case.objects, DEVICE_POD, Matcher())


KINDS: Final = {
    "pods": Kind(cases, _by_cycle),
    "volumes": Kind(volume_cases, _by_cycle),
    "devices": Kind(cases_with_devices, _by_allocator),
    "extended": Kind(cases_with_extended_resources, _by_cycle),
}


def examine(number: int, *, count: int = CASES_PER_SEED, kind: str = "pods") -> Tally:
    """Compare all cases of one seed."""
    with running() as plugins:
        return _tally(number, _compared(plugins, number, count, KINDS[kind]))


def _compared(plugins: Plugins, number: int, count: int, kind: Kind) -> list[tuple[Case, Compared]]:
    made: list[tuple[Case, Compared]] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=kind.cases())
    def each(case: Case) -> None:
        made.append((case, kind.compare(plugins, case)))

    each()
    return made


def _tally(number: int, compared: list[tuple[Case, Compared]]) -> Tally:
    counts: Counter[str] = Counter()
    refused_by: Counter[str] = Counter()
    scored_by: Counter[str] = Counter()
    for _, found in compared:
        answer = found.answer
        counts[found.left_out or ("some node is feasible" if answer.feasible else "no node is feasible")] += 1
        if not found.left_out:
            refused_by.update(each.plugin for each in answer.refused.values())
            scored_by.update(name for name, each in answer.scores.items() if len(set(each.values())) > 1)
    wrong = [Disagreement(number, found.problem, case) for case, found in compared if found.problem]
    return Tally(counts, refused_by, scored_by, tuple(wrong))


def main(arguments: list[str] | None = None) -> int:
    """Print disagreements, then the totals."""
    parser = argparse.ArgumentParser(prog="python -m bench.oracle", description=__doc__)
    parser.add_argument("--kind", choices=KINDS, default="pods", help="which random clusters")
    parser.add_argument("--cases", type=int, default=10_000, help="random clusters")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--output", type=Path, help="file for the objects of disagreements")
    options = parser.parse_args(arguments)
    count = min(options.cases, CASES_PER_SEED)
    seeds = range(options.first, options.first + -(-options.cases // count))
    tallies = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for tally in pool.map(partial(examine, count=count, kind=options.kind), seeds):
            tallies.append(tally)
            counts = _named(sum((each.counts for each in tallies), Counter[str]()))
            print(f"{len(tallies)} of {len(seeds)} seeds: {counts}", file=sys.stderr, flush=True)
            for each in tally.disagreements:
                print(f"seed {each.seed}: {each.problem}", flush=True)
                _save(each, options.output)
    return _summarize(tallies, seeds)


def _save(found: Disagreement, output: Path | None) -> None:
    if output is not None:
        written = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(found.case.objects)})
        with output.open("a") as file:
            file.write(written + "\n")


def _summarize(tallies: list[Tally], seeds: range) -> int:
    counts = sum((tally.counts for tally in tallies), Counter[str]())
    refused_by = sum((tally.refused_by for tally in tallies), Counter[str]())
    scored_by = sum((tally.scored_by for tally in tallies), Counter[str]())
    wrong = sum(len(tally.disagreements) for tally in tallies)
    print(f"cases: {_named(counts)}")
    print(f"nodes refused by: {_named(refused_by)}")
    print(f"scores differ of: {_named(scored_by)}")
    print(f"{counts.total()} cases of seeds {seeds.start} to {seeds.stop - 1}: {wrong} disagreements")
    return 1 if wrong else 0


def _named(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
