"""Runs an operation once with one fault and checks that it completes."""

import asyncio
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Protocol

import msgspec
from msgspec import Struct

from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.hosts.host import Host
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.world import World, WorldSettings, in_world

_POLL_S = 0.25


class Outcome(Struct, frozen=True):
    """Result of one run.

    `steps` and `requests` (method, path) are those of the process that led when the operation began, until it
    was done. `coverage` counts coverage points.
    """

    problem: str | None
    steps: int
    requests: tuple[tuple[str, str], ...]
    coverage: Mapping[str, int]


Missed = Callable[[], str | None]
"""Called at the end of the operation; returns a message if the fault had no effect."""


Strike = Callable[[World], Missed | None]
"""Injects the fault; may return a check of its effect."""


class Fault(Struct, frozen=True):
    """A fault, and when it is injected.

    `strike` is called right before the operation begins. With a `step`, it is called before that step of the
    leader, counted from the start of the operation. The simulation continues for `watched_s` simulated
    seconds after the operation.
    """

    strike: Strike
    step: int | None = None
    watched_s: float = 0.0


def _unchecked() -> str | None:
    return None


NO_FAULT = Fault(lambda _world: None)

Enters = Callable[[int], bool]
"""Called with the number of each fault when it is reached. If true, this fault is injected and no other."""


def play(
    operation: Operation, *, seed: int, fault: Fault = NO_FAULT, checks: tuple[type[Check], ...]
) -> Outcome:
    """Run the operation once in its own simulated world."""
    return play_one_of(operation, (fault,), seed=seed, enters=lambda _number: True, checks=checks)


def play_one_of(
    operation: Operation,
    faults: Sequence[Fault],
    *,
    seed: int,
    enters: Enters,
    checks: tuple[type[Check], ...],
) -> Outcome:
    """Run the operation with the one fault that `enters` selects, or with none.

    Faults are in order of their steps.
    """
    performance = _Performance(operation, faults, enters)
    world = in_world(WorldSettings(seed=seed, checks=checks, config=operation.config), performance.play)
    problem = performance.problem
    if world.violations.kept:
        first = world.violations.kept[0]
        problem = f"{first.check} {first.subject}: {first.message}"
    return Outcome(problem, performance.steps, tuple(performance.requests), world.coverage.counts)


class _Performance:
    def __init__(self, operation: Operation, faults: Sequence[Fault], enters: Enters) -> None:
        self.problem: str | None = None
        self.steps = 0
        self.requests: list[tuple[str, str]] = []
        self._operation = operation
        self._faults = faults
        self._enters = enters
        self._next = 0
        self._fault = NO_FAULT
        self._missed: Missed = _unchecked

    async def play(self, world: World) -> None:
        await self._operation.prepare(world)
        leader = world.leader()
        if leader is None or leader.process is None:
            self.problem = "there is no leader before the operation begins"
            return
        host = leader.process.host
        world.observe(self._record_requests(host.name))
        before = host.steps
        self._await_faults(world, host)
        done = self._operation.begin(world)
        try:
            async with asyncio.timeout(self._operation.within_s):
                while not done():
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            self.problem = f"not done after {self._operation.within_s} s"
        self.steps = host.steps - before
        await asyncio.sleep(self._fault.watched_s)
        self.problem = self.problem or await self._operation.afterwards(world) or self._missed()

    def _await_faults(self, world: World, host: Host) -> None:
        before = host.steps

        def before_step(number: int) -> None:
            self._offer_faults(world, host, step=number - before)

        self._offer_faults(world, host, step=None)
        if self._next < len(self._faults):
            host.before_step = before_step

    def _offer_faults(self, world: World, host: Host, *, step: int | None) -> None:
        while self._next < len(self._faults) and _is_reached(self._faults[self._next], step):
            self._next += 1
            if self._enters(self._next - 1):
                self._fault, self._next = self._faults[self._next - 1], len(self._faults)
                host.before_step = None
                self._missed = self._fault.strike(world) or _unchecked

    def _record_requests(self, host: str) -> Callable[[Exchange], None]:
        def record(exchange: Exchange) -> None:
            if exchange.host == host and exchange.landed_at is None and exchange.outcome is None:
                self.requests.append((exchange.method, exchange.path))

        return record


def _is_reached(fault: Fault, step: int | None) -> bool:
    return fault.step is None or (step is not None and step >= fault.step)


class Playable(Protocol):
    """A plan that can run; `name` describes it."""

    @property
    def name(self) -> str:
        """See the class."""
        ...

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Run it once."""
        ...


class Plan(Struct, frozen=True):
    """One fault at one point of one operation; `name` describes it."""

    name: str
    operation: Operation
    seed: int
    fault: Fault

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Run it once."""
        return play(self.operation, seed=self.seed, fault=self.fault, checks=checks)


Take = Callable[[Playable, Outcome], None]
"""Called with each plan and its outcome."""


def play_each(plans: Iterable[Playable], *, checks: tuple[type[Check], ...], take: Take) -> None:
    """Run plans; consecutive plans of one operation share their prefix.

    Raises RuntimeError as `play_together`.
    """
    for operation, group in groupby(plans, key=_operation_name):
        if operation is None:
            for plan in group:
                take(plan, plan.outcome(checks))
        else:
            play_together([plan for plan in group if isinstance(plan, Plan)], checks=checks, take=take)


def _operation_name(plan: Playable) -> str | None:
    return plan.operation.name if isinstance(plan, Plan) else None


def play_together(plans: Sequence[Plan], *, checks: tuple[type[Check], ...], take: Take) -> None:
    """Run plans of one operation and seed, in the order of their steps.

    Raises RuntimeError if the operation fails without a fault, if a fault's step never comes, or if a plan
    ends without an outcome.
    """
    branches = _Branches(plans, take)
    with _sharing_memory():
        try:
            outcome = play_one_of(
                plans[0].operation,
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
        raise RuntimeError(f"{plans[0].operation.name} without any fault: {outcome.problem}")
    if branches.played < len(plans):
        raise RuntimeError(f"{plans[branches.played].name}: the operation ended before its step")


@contextmanager
def _sharing_memory() -> Iterator[None]:
    """Exclude existing objects from garbage collection, which would copy their pages in every child.

    If the caller has excluded objects for good, all stay excluded: the collector cannot distinguish them.
    """
    is_callers = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not is_callers:
            gc.unfreeze()


class _Branches:
    """Forks a child for each fault, and ends the child with its outcome."""

    def __init__(self, plans: Sequence[Plan], take: Take) -> None:
        self.played = 0
        self._plans = plans
        self._take = take
        self._pipe_to_parent: int | None = None

    def enters(self, number: int) -> bool:
        """Fork; true in the child, in which the fault is injected."""
        reading, writing = os.pipe()
        child = _fork()
        if child == 0:
            os.close(reading)
            self._pipe_to_parent = writing
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
        if self._pipe_to_parent is not None:
            # The parent may have been interrupted; then nothing reads the outcome.
            with suppress(BrokenPipeError), os.fdopen(self._pipe_to_parent, "wb") as pipe:
                pipe.write(msgspec.json.encode(outcome))
            os._exit(os.EX_OK)

    def leave_in_error(self) -> None:
        """End the child while an exception is handled; do nothing in the parent."""
        if self._pipe_to_parent is not None:
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
