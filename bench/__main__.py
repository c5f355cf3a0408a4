"""Compares schedulers on real control planes with fake nodes: speed, latency, gangs, cost.

    python -m bench [--workload NAME ...] [--only PART ...] [--peers all] [--rounds N] [--output PATH]

Every run gets a fresh control plane, and the schedulers take turns: A B C, A B C. The other benchmarks
of this folder are separate modules.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.harness import workloads
from bench.harness.contenders import ALL, Contender
from bench.harness.machine import this_machine
from bench.harness.run import Run, takes_part, try_once
from bench.harness.tables import Comparison, markdown
from bench.harness.workloads import BadWorkload, Workload
from bench.peers import ABSENT, PEERS

RESULTS: Final = Path(__file__).parent / "results" / "side_by_side"
DEFAULT_ROUNDS: Final = {"100x100": 1, "100x100-live": 1, "latency": 1, "deadlock": 1}
"""The default workloads and their numbers of rounds: about 11 minutes on two cores."""
WARM_UP: Final = "smoke"
_INTERRUPTED: Final = 130


def report(line: str) -> None:
    """Print progress to stderr."""
    print(line, file=sys.stderr, flush=True)


class NoSuchScheduler(Exception):
    """No scheduler has this text in its name."""


def chosen(only: Sequence[str], peers: Sequence[str]) -> list[Contender]:
    """The contenders: ours and the requested peers ("all" for all), restricted to those that `only` names.

    Both match parts of names. Raises NoSuchScheduler.
    """
    wanted = [*ALL, *(_named(PEERS, peers) if "all" not in peers else PEERS)]
    return _named(wanted, only) if only else wanted


def _named(contenders: Sequence[Contender], parts: Sequence[str]) -> list[Contender]:
    unknown = [part for part in parts if not any(part in each.name for each in contenders)]
    if unknown:
        known = ", ".join(each.name for each in contenders) or "none"
        raise NoSuchScheduler(f"no scheduler with {unknown[0]!r} in its name; known schedulers: {known}")
    return [each for each in contenders if any(part in each.name for part in parts)]


def planned(names: Sequence[str], rounds: int | None) -> list[tuple[Workload, int]]:
    """Each workload with its number of rounds. Raises BadWorkload."""
    wanted = workloads.names() if list(names) == ["all"] else names or list(DEFAULT_ROUNDS)
    return [(workloads.load(name), rounds or DEFAULT_ROUNDS.get(name, 1)) for name in wanted]


async def compare(
    plan: Sequence[tuple[Workload, int]], contenders: Sequence[Contender], runs: list[Run], *, warm_up: bool
) -> None:
    """Add each run to `runs` when it ends, so that an interrupted comparison keeps finished runs."""
    turns = in_turn(plan, contenders)
    for contender in contenders if warm_up else ():
        if any(each is contender for _, each, _ in turns):
            report(f"warm-up, not counted: {contender.name}")
            await try_once(contender, workloads.load(WARM_UP), number=0, report=report)
    for place, (workload, contender, number) in enumerate(turns, start=1):
        report(f"{place} of {len(turns)}: {workload.name}, round {number}: {contender.name} ...")
        runs.append(await _reported_run(contender, workload, number=number))


def in_turn(
    plan: Sequence[tuple[Workload, int]], contenders: Sequence[Contender]
) -> list[tuple[Workload, Contender, int]]:
    """Every run with its round. Schedulers take turns, so that a slower machine affects all of them."""
    return [
        (workload, contender, number)
        for workload, rounds in plan
        for number in range(1, rounds + 1)
        for contender in contenders
        if takes_part(contender, workload)
    ]


async def _reported_run(contender: Contender, workload: Workload, *, number: int) -> Run:
    began = time.monotonic()
    run = await try_once(contender, workload, number=number, report=report)
    seen = run.figures
    what = run.trouble or (f"last bind {seen.last_bind_s} s, {seen.bound} bound" if seen else "")
    report(f"  {what} ({time.monotonic() - began:.0f} s in all)")
    return run


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        metavar="NAME",
        help=f"{', '.join(workloads.names())}; all; or the path of a YAML file. Repeat for several. "
        f"Without: {', '.join(DEFAULT_ROUNDS)}",
    )
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="of a scheduler's name")
    parser.add_argument(
        "--peers",
        action="append",
        default=[],
        metavar="all|PART",
        help="other schedulers too: " + (", ".join(each.name for each in PEERS) or "none yet"),
    )
    parser.add_argument(
        "--rounds", type=_positive, help="of every workload; without, each has its own number"
    )
    parser.add_argument(
        "--no-warm-up", action="store_true", help="without a small run of each scheduler before"
    )
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="path without extension, for .json, .md and .png"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


def main() -> int:
    """Exit code 1 when no run finished, 2 for an invalid command line or workload."""
    parser = arguments()
    options = parser.parse_args()
    try:
        plan = planned(options.workload, options.rounds)
        contenders = chosen(options.only, options.peers)
    except (BadWorkload, NoSuchScheduler) as error:
        parser.error(str(error))
    runs: list[Run] = []
    interrupted = False
    try:
        asyncio.run(compare(plan, contenders, runs, warm_up=not options.no_warm_up))
    except KeyboardInterrupt:
        interrupted = True
    comparison = Comparison(
        machine=this_machine({each.name: each.version for each in contenders if each.version}),
        deviations={each.name: each.deviation for each in contenders},
        workloads={each.name: each for each, _ in plan if any(run.workload == each.name for run in runs)},
        runs=runs,
        absent=ABSENT if options.peers else {},
    )
    print(markdown(comparison))
    if interrupted:
        report("interrupted: nothing was written")
        return _INTERRUPTED
    write(comparison, options.output)
    return int(all(run.trouble for run in runs))


def write(comparison: Comparison, to: Path) -> None:
    """Write JSON, Markdown and, when matplotlib is installed, PNG."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(comparison)) + b"\n")
    to.with_suffix(".md").write_text(markdown(comparison))
    try:
        from bench.harness.charts import draw
    except ImportError:
        report("no chart: matplotlib is not installed")
        return
    draw(comparison, to.with_suffix(".png"))


if __name__ == "__main__":
    sys.exit(main())
