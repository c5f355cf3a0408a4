"""`phalanx drill`: operations of the scheduler with a fault at each point, and load tests."""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from itertools import islice
from multiprocessing import Value
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cli.exits import BadInput, Exit

from phalanx_simulator.commands.progress import progress
from phalanx_simulator.commands.workers import workers

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

    from phalanx_simulator.drills.drill import Outcome, Playable

_LOOK_S: Final = 0.5

Drill = Literal["crashes", "replies", "races", "views", "load"]


class Tally(Struct):
    """Result of a drill: plans run, failures by plan, coverage counts."""

    drill: str
    played: int = 0
    failed: dict[str, str] = {}
    coverage: dict[str, int] = {}


class _Share(Struct, frozen=True):
    """One process's part of a drill's plans: one in `every`, and of these one in `jobs`.

    `plan`: of these only the one of this name.
    """

    drill: str
    seed: int
    every: int
    full: bool
    acts: tuple[str, ...]
    plan: str | None
    jobs: int
    part: int = 0


def drill(
    *drills: Drill,
    act: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    plan: str | None = None,
    seed: int = 1,
    every: int = 1,
    full: bool = False,
    jobs: Annotated[int, Parameter(name=["--jobs", "-j"])] = 1,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Repeat short operations with one fault at every point; exit code 0 when all of them succeed.

    The operations: a gang of 16 is bound; it loses a member; it loses a node and its pods are replaced, or it
    is restarted; it is restarted after a member failed, with the failed pod kept or removed by its
    controller; it is released because it would stay partly bound; another gang is evicted for it, by
    priority, from another queue, or slowly while a third gang competes; another gang is moved for it; or,
    for load, the cluster is full, or there are very many changes or new pods. Each must end in bounded
    simulated time, and no check may be violated.

    Parameters
    ----------
    drills
        crashes: the leader is killed, frozen or partitioned, at each of its steps. replies: each request gets
        each kind of failed reply. races: the pod, the node or the sender of a bind changes while the bind is
        in flight. views: the leader's watches are delayed, silent, cut or repeat events. load: a full
        cluster is listed, changes arrive without a pause, or very many pods arrive at once.
        Default: all.
    act
        Play this act only; repeat for several. load has none.
    plan
        Play this plan only, named as it is where it failed.
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
    _check_acts(act, drills)
    wanted = drills or tuple(name for name in get_args(Drill) if not act or name != "load")
    tallies = [_played(_Share(name, seed, every, full, act, plan, jobs)) for name in wanted]
    if plan is not None and not any(tally.played for tally in tallies):
        raise BadInput(f"--plan: found no plan named {plan}")
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(tallies)).decode())
    else:
        print("\n".join(_text(tallies)))
    return Exit.FAILED if any(tally.failed for tally in tallies) else Exit.OK


def _check_acts(acts: tuple[str, ...], drills: tuple[str, ...]) -> None:
    from phalanx_simulator.drills.catalogue import ALL_OPERATIONS

    names = [operation.name for operation in ALL_OPERATIONS]
    for act in acts:
        if act not in names:
            raise BadInput(f"--act: expected one of {', '.join(names)}, found {act}")
    if acts and "load" in drills:
        raise BadInput("--act: load has its own acts, leave it out")


def _played(whole: _Share) -> Tally:
    from phalanx_simulator.runs.totals import added

    tally, played = Tally(whole.drill), Value("i", 0)
    with (
        progress(f"{whole.drill}: plans played", total=None) as advance,
        workers(whole.jobs, prepare=_count_in, given=(played,)) as pool,
    ):
        shares = [pool.submit(_play_share, replace(whole, part=part)) for part in range(whole.jobs)]
        _watch(shares, lambda: advance(played.value))
        for pending in shares:
            share = pending.result()
            tally.played += share.played
            tally.failed.update(share.failed)
            tally.coverage = added((tally.coverage, share.coverage))
    return tally


def _watch(shares: Iterable[Future[Tally]], look: Callable[[], None]) -> None:
    waiting = set(shares)
    while waiting:
        waiting = wait(waiting, timeout=_LOOK_S).not_done
        look()


_played_by_all: "Synchronized[int] | None" = None
"""In a worker: how many plans all workers together have played."""


def _count_in(counter: "Synchronized[int]") -> None:
    global _played_by_all
    _played_by_all = counter


def _count_one() -> None:
    if _played_by_all is not None:
        with _played_by_all.get_lock():
            _played_by_all.value += 1


def _play_share(share: _Share) -> Tally:
    from phalanx.observe.logs import configure_logs

    from phalanx_simulator.drills.catalogue import plans_of
    from phalanx_simulator.drills.drill import play_each
    from phalanx_simulator.invariants.catalogue import ALL_CHECKS
    from phalanx_simulator.runs.totals import added

    configure_logs(level="critical")
    tally = Tally(share.drill)
    plans = plans_of(share.drill, seed=share.seed, checks=ALL_CHECKS, full=share.full, acts=share.acts)

    def take(plan: "Playable", outcome: "Outcome") -> None:
        tally.played += 1
        _count_one()
        tally.coverage = added((tally.coverage, outcome.coverage))
        if outcome.problem is not None:
            tally.failed[plan.name] = outcome.problem
            print(f"{plan.name}: {outcome.problem}", file=sys.stderr)
            again = command_of(plan, drill=share.drill, seed=share.seed, full=share.full)
            print(f"  again: {again}", file=sys.stderr)

    own = islice(plans, share.part * share.every, None, share.every * share.jobs)
    wanted = (plan for plan in own if share.plan in (None, plan.name))
    play_each(wanted, checks=ALL_CHECKS, take=take)
    return tally


def command_of(plan: "Playable", *, drill: str, seed: int, full: bool) -> str:
    """The shell command that runs exactly this plan."""
    from phalanx_simulator.drills.drill import Plan

    act = ("--act", plan.act.name) if isinstance(plan, Plan) else ()
    size = ("--full",) if full else ()
    return shlex.join(["phalanx", "drill", drill, *size, *act, "--seed", str(seed), "--plan", plan.name])


def _text(tallies: Iterable[Tally]) -> Iterator[str]:
    for tally in tallies:
        yield f"{tally.drill}: {tally.played} plans played, {len(tally.failed)} failed"
