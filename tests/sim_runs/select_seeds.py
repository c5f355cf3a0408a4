"""`python -m tests.sim_runs.select_seeds`: choose the cheapest seeds that reach all that many seeds reach.

Plays the candidates with all checks, and selects seeds by weighted set multicover with CP-SAT: each point is
reached `--repeats` times, or by every candidate that reaches it, and the CPU seconds are minimal. Writes
`seeds.json`. With `--store FILE` each candidate is written to the file as soon as it was played, and those
that are there are not played again: delete the file when the scheduler or the simulator has changed. Takes
about twenty-five CPU minutes for 200 seeds and 100 storms. With `--until-reached` the seeds selected now are
played first, and the others only until all points of `seeds.json` are reached: some minutes.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct
from ortools.sat.python import cp_model
from phalanx.observe.logs import configure_logs

from tests.sim_runs.seeds import PATH, STORMS, Selection, points_of, run, selection

SOLVER_S = 120.0
"""Seconds for the selection; it takes a few."""


class Played(Struct, frozen=True):
    """One candidate: what it reached and what it cost."""

    seed: int
    points: frozenset[str]
    cpu_s: float


def select(candidates: Sequence[Played], repeats: int) -> list[Played]:
    """Return the selected candidates, the cheapest first."""
    reaching: dict[str, list[int]] = {}
    for index, played in enumerate(candidates):
        for point in sorted(played.points):
            reaching.setdefault(point, []).append(index)
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(f"{played.seed}") for played in candidates]
    for indexes in reaching.values():
        model.add(sum(chosen[index] for index in indexes) >= min(repeats, len(indexes)))
    model.minimize(
        sum(round(1000 * played.cpu_s) * var for played, var in zip(candidates, chosen, strict=True))
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = SOLVER_S
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise AssertionError("all candidates together reach every point")
    found = [played for played, var in zip(candidates, chosen, strict=True) if solver.boolean_value(var)]
    return sorted(found, key=lambda played: (played.cpu_s, played.seed))


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
    """Exit with an error, and write nothing, when a candidate violates a check."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim_runs.select_seeds", description=__doc__)
    parser.add_argument("--candidates", type=int, default=200, help="seeds 0 to N - 1")
    parser.add_argument("--storms", type=int, default=100, help="so many storms too")
    parser.add_argument("--repeats", type=int, default=1, help="seeds that reach each point")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--store", type=Path, help="file with candidates that were played")
    parser.add_argument("--until-reached", action="store_true", help="stop when all known points are reached")
    asked = parser.parse_args(arguments)
    known = {each.seed: each for each in stored(asked.store)}
    wanted = (*range(asked.candidates), *range(STORMS, STORMS + asked.storms))
    sought = frozenset(selection().points) if asked.until_reached else None
    with ProcessPoolExecutor(asked.jobs) as pool:
        for batch in batches(wanted, 2 * asked.jobs):
            if sought is not None and points_reached(known.values()) >= sought:
                break
            for played in pool.map(_play, [seed for seed in batch if seed not in known]):
                known[played.seed] = played
                store(asked.store, played)
    write(selection_of([known[seed] for seed in sorted(known)], asked.repeats))
    return 0


def batches(wanted: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """The seeds selected now first, in one batch; then the others, alternating seeds and storms."""
    now = selection().seeds
    yield now
    rest = sorted((seed for seed in wanted if seed not in now), key=lambda seed: (seed % STORMS, seed))
    for first in range(0, len(rest), size):
        yield tuple(rest[first : first + size])


def points_reached(candidates: Iterable[Played]) -> frozenset[str]:
    """The points that these candidates reach."""
    return frozenset(point for played in candidates for point in played.points)


def stored(path: Path | None) -> Iterator[Played]:
    """The candidates that the file has, one on each line."""
    if path is not None and path.exists():
        yield from msgspec.json.Decoder(Played).decode_lines(path.read_bytes())


def store(path: Path | None, played: Played) -> None:
    """Append a candidate to the file."""
    if path is not None:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(played, order="deterministic") + b"\n")


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
    return Played(seed, points_of(seed, summary), round(time.process_time() - began, 2))


if __name__ == "__main__":
    sys.exit(main())
