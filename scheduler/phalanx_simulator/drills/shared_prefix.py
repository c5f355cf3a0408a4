"""Runs many plans of one operation and shares their common prefix by forking.

Where a fault comes the process is forked. The child goes on with the fault, the parent without it to the next
one: a child's memory is a copy of all that has happened so far, so that the outcome is the one of the plan
played by itself.
"""

import asyncio
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby

import msgspec

from phalanx_simulator.drills.drill import Outcome, play_one_of
from phalanx_simulator.drills.plan import Plan, Playable
from phalanx_simulator.invariants.check import Check

Take = Callable[[Playable, Outcome], None]
"""Told of each plan that was played."""


def play_each(plans: Iterable[Playable], *, checks: tuple[type[Check], ...], take: Take) -> None:
    """Run plans; consecutive plans of one operation share their prefix.

    Raises RuntimeError as `play_together`.
    """
    for act, group in groupby(plans, key=lambda plan: plan.act.name if isinstance(plan, Plan) else None):
        if act is None:
            for plan in group:
                take(plan, plan.outcome(checks))
        else:
            play_together([plan for plan in group if isinstance(plan, Plan)], checks=checks, take=take)


def play_together(plans: Sequence[Plan], *, checks: tuple[type[Check], ...], take: Take) -> None:
    """Run plans of one operation and seed, in the order of their steps.

    Raises RuntimeError if the act fails without a fault, if a fault's step never comes, or if a plan ends
    without an outcome.
    """
    branches = _Branches(plans, take)
    with _sharing_memory():
        try:
            outcome = play_one_of(
                plans[0].act,
                [plan.fault for plan in plans],
                seed=plans[0].seed,
                enters=branches.enters,
                checks=checks,
            )
            branches.leave_with(outcome)
        except BaseException:
            branches.leave_in_error()
            raise
    if outcome.problem is not None:
        raise RuntimeError(f"{plans[0].act.name} without any fault: {outcome.problem}")
    if branches.played < len(plans):
        raise RuntimeError(f"{plans[branches.played].name}: the act was over before")


@contextmanager
def _sharing_memory() -> Iterator[None]:
    """Exclude existing objects from garbage collection, which would copy their pages in every child."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Branches:
    """Forks a child for each fault, and ends the child with its outcome."""

    def __init__(self, plans: Sequence[Plan], take: Take) -> None:
        self.played = 0
        self._plans = plans
        self._take = take
        self._answers_to: int | None = None

    def enters(self, number: int) -> bool:
        """Fork; true in the child, in which the fault is injected."""
        reading, writing = os.pipe()
        child = _fork()
        if child == 0:
            os.close(reading)
            self._answers_to = writing
            return True
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError(f"{self._plans[number].name}: ended without an outcome, status {status}")
        self.played += 1
        self._take(self._plans[number], msgspec.json.decode(answer, type=Outcome))
        return False

    def leave_with(self, outcome: Outcome) -> None:
        """End the child with this outcome; do nothing in the parent."""
        if self._answers_to is not None:
            # Without a parent, which was interrupted, nobody wants to know.
            with suppress(BrokenPipeError), os.fdopen(self._answers_to, "wb") as pipe:
                pipe.write(msgspec.json.encode(outcome))
            os._exit(os.EX_OK)

    def leave_in_error(self) -> None:
        """End the child while an exception is handled; do nothing in the parent."""
        if self._answers_to is not None:
            traceback.print_exc(file=sys.stderr)
            os._exit(os.EX_SOFTWARE)


def _fork() -> int:
    """Fork under a running event loop, which continues in both processes."""
    loop = asyncio.get_running_loop()
    with warnings.catch_warnings():
        # Python warns of locks that other threads may hold: the only other one waits for the command to end.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        asyncio._set_running_loop(loop)  # noqa: SLF001  # asyncio takes a parent's loop for no loop of ours
    return child
