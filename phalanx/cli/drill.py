"""`phalanx drill`: acts of the scheduler, with a fault at every point where one can be; and under load."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Annotated, Literal, get_args

import msgspec
from cyclopts import Parameter
from msgspec import Struct

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.progress import progress

Drill = Literal["crashes", "replies", "races", "views", "load"]


class Tally(Struct):
    """Plans of one drill: how many were played, what went wrong in which, which rare paths were reached."""

    drill: str
    played: int = 0
    failed: dict[str, str] = {}
    marks: dict[str, int] = {}


def drill(
    *drills: Drill,
    seed: int = 1,
    every: int = 1,
    full: bool = False,
    jobs: Annotated[int, Parameter(name=["--jobs", "-j"])] = 1,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Play short acts again and again, with one fault at every point: exit code 0 when all came to their end.

    The acts: a gang of 16 is bound; it loses a member; it loses a node and its pods are replaced, or it
    starts anew; another gang is evicted for it, by priority, from another queue, or slowly beside a rival;
    another gang is moved for it; or, for load, a cluster is full, changes or new pods are very many. Each
    must be done in bounded simulated time, with no check violated.

    Parameters
    ----------
    drills
        crashes: the leader dies, freezes or is cut off, at each of its steps. replies: requests meet every
        way in which a reply can go wrong. races: while a bind is on its way its pod, its node or its sender
        changes. views: what the leader sees is late, silent, jumps or repeats. load: a full cluster is
        listed, changes come without a pause, very many pods come at once.
        Default: all.
    seed
        The seed of every plan.
    every
        Play only every so many plans.
    full
        Play load with 5,000 nodes, 50,000 pods and 2,000 changes a second, not with a tenth: name it alone.
    jobs
        Processes among which the plans are divided.
    output
        text, or json.
    """
    for flag, value in (("--every", every), ("--jobs", jobs)):
        if value <= 0:
            raise BadInput(f"{flag}: expected a number above 0, found {value}")
    if full and drills != ("load",):
        raise BadInput("--full: only load has sizes, name it alone: phalanx drill load --full")
    tallies = [_played(name, seed, every, full, jobs) for name in drills or get_args(Drill)]
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(tallies)).decode())
    else:
        print("\n".join(_text(tallies)))
    return Exit.DIFFERENT if any(tally.failed for tally in tallies) else Exit.OK


def _played(name: str, seed: int, every: int, full: bool, jobs: int) -> Tally:
    from phalanx.sim.totals import added

    tally = Tally(name)
    with progress(name, total=None) as advance, ProcessPoolExecutor(max_workers=jobs) as pool:
        shares = pool.map(_share, [(name, seed, every, full, jobs, part) for part in range(jobs)])
        for share in shares:
            tally.played += share.played
            tally.failed.update(share.failed)
            tally.marks = added((tally.marks, share.marks))
            advance(tally.played)
    return tally


def _share(what: tuple[str, int, int, bool, int, int]) -> Tally:
    """One process's part of the plans."""
    from phalanx.observe.logs import configure_logs
    from phalanx.sim.drills.all import plans_of
    from phalanx.sim.invariants.all import ALL_CHECKS
    from phalanx.sim.totals import added

    configure_logs(level="critical")
    name, seed, every, full, jobs, part = what
    tally = Tally(name)
    plans = plans_of(name, seed=seed, checks=ALL_CHECKS, full=full)
    for plan in islice(plans, part * every, None, every * jobs):
        tally.played += 1
        outcome = plan.outcome(ALL_CHECKS)
        tally.marks = added((tally.marks, outcome.marks))
        if outcome.problem is not None:
            tally.failed[plan.name] = outcome.problem
            print(f"{plan.name}: {outcome.problem}", file=sys.stderr)
    return tally


def _text(tallies: Iterable[Tally]) -> Iterator[str]:
    for tally in tallies:
        yield f"{tally.drill}: {tally.played} plans played, {len(tally.failed)} failed"
