"""`python -m tests.sim_runs.select_seeds`: choose few seeds that reach all that many seeds reach.

Plays the candidates with all checks and selects seeds by the greedy algorithm for weighted set multicover:
the next seed is the one that adds most points per CPU second, until each point is reached `--repeats` times,
or by every candidate that reaches it. Redundant seeds are dropped afterwards. Writes `seeds.json`.
Takes about twenty CPU minutes for 200 candidates.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

import msgspec
from msgspec import Struct
from phalanx.observe.logs import configure_logs

from tests.sim_runs.seeds import PATH, Selection, points_of, run


class Played(Struct, frozen=True):
    """One candidate: what it reached and what it cost."""

    seed: int
    points: frozenset[str]
    cpu_s: float


def select(candidates: Sequence[Played], repeats: int) -> list[Played]:
    """Return the selected candidates, the most valuable first."""
    reached = Counter(point for played in candidates for point in played.points)
    wanted = {point: min(repeats, count) for point, count in reached.items()}
    left, selected = list(candidates), list[Played]()
    missing = dict(wanted)
    while any(missing.values()):
        best = max(left, key=lambda played: sum(missing[point] > 0 for point in played.points) / played.cpu_s)
        left.remove(best)
        selected.append(best)
        for point in best.points:
            missing[point] = max(0, missing[point] - 1)
    return _without_redundant(selected, wanted)


def _without_redundant(selected: Sequence[Played], wanted: Mapping[str, int]) -> list[Played]:
    """Drop seeds, the most expensive first, that later choices made unnecessary."""
    kept = list(selected)
    reached = Counter(point for played in kept for point in played.points)
    for played in sorted(selected, key=lambda played: -played.cpu_s):
        if all(reached[point] > wanted[point] for point in played.points):
            kept.remove(played)
            reached.subtract(played.points)
    return kept


def selection_of(candidates: Sequence[Played], repeats: int) -> Selection:
    """Select, and count by point how many candidates and how many selected seeds reach it."""
    selected = select(candidates, repeats)
    before = Counter(point for played in candidates for point in played.points)
    after = Counter(point for played in selected for point in played.points)
    return Selection(
        candidates=len(candidates),
        repeats=repeats,
        candidate_cpu_s=round(sum(played.cpu_s for played in candidates), 1),
        selected_cpu_s=round(sum(played.cpu_s for played in selected), 1),
        seeds=tuple(sorted(played.seed for played in selected)),
        points={point: (before[point], after[point]) for point in sorted(before)},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit with 1, and write nothing, when a candidate violates a check."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim_runs.select_seeds", description=__doc__)
    parser.add_argument("--candidates", type=int, default=200, help="seeds 0 to N - 1")
    parser.add_argument("--repeats", type=int, default=1, help="seeds that reach each point")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    asked = parser.parse_args(arguments)
    with ProcessPoolExecutor(asked.jobs) as pool:
        candidates = list(pool.map(_play, range(asked.candidates)))
    write(selection_of(candidates, asked.repeats))
    return 0


def write(found: Selection) -> None:
    """Write `seeds.json`, and print the counts before and after."""
    PATH.write_text(text_of(found))
    reached = sum(after > 0 for _, after in found.points.values())
    print(
        f"{found.candidates} candidates reach {len(found.points)} points in {found.candidate_cpu_s:.0f} CPU s"
    )
    print(f"{len(found.seeds)} seeds reach {reached} points in {found.selected_cpu_s:.0f} CPU s")


def text_of(found: Selection) -> str:
    """Format as JSON with one line for each field and each point, for readable differences."""
    fields = msgspec.to_builtins(found)
    points = fields.pop("points")
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items()]
    inner = ",\n".join(f"    {json.dumps(name)}: {json.dumps(counts)}" for name, counts in points.items())
    return "{\n" + ",\n".join([*lines, f'  "points": {{\n{inner}\n  }}']) + "\n}\n"


def _play(seed: int) -> Played:
    configure_logs(level="critical")
    began = time.process_time()
    summary = run(seed)
    if summary.violations:
        raise AssertionError(f"seed {seed}: {summary.violations[0]}")
    print(f"seed {seed}", file=sys.stderr, flush=True)
    return Played(seed, points_of(summary), round(time.process_time() - began, 2))


if __name__ == "__main__":
    sys.exit(main())
