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

from phalanx_simulator.drills.operations import Act
from phalanx_simulator.hosts.host import Host
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.world import World, WorldSettings, in_world

_LOOK_S = 0.25


class Outcome(Struct, frozen=True):
    """Result of one run.

    `steps` and `requests` (method, path) are those of the process that led when the act began, during it;
    `coverage` are rare paths, with the times that they were reached.
    """

    problem: str | None
    steps: int
    requests: tuple[tuple[str, str], ...]
    coverage: Mapping[str, int]


Missed = Callable[[], str | None]
"""Says, when an act has come to its end, that the fault has hit nothing."""


Strike = Callable[[World], Missed | None]
"""Sets the fault up."""


class Fault(Struct, frozen=True):
    """A fault, and when it is injected.

    `strike` is called right before the act begins or, with a `step`, before that step of the process that
    leads then, counted from there. The world goes on for `watched_s` simulated seconds after the act.
    """

    strike: Strike
    step: int | None = None
    watched_s: float = 0.0


def _hit_nothing() -> str | None:
    return None


NO_FAULT = Fault(lambda _world: None)

Enters = Callable[[int], bool]
"""Asked at the moment of each fault, by its number, whether it strikes; then no other one does."""


def play(act: Act, *, seed: int, fault: Fault = NO_FAULT, checks: tuple[type[Check], ...]) -> Outcome:
    """Run the operation once in a world of its own."""
    return play_one_of(act, (fault,), seed=seed, enters=lambda _number: True, checks=checks)


def play_one_of(
    act: Act, faults: Sequence[Fault], *, seed: int, enters: Enters, checks: tuple[type[Check], ...]
) -> Outcome:
    """Run the operation with the one fault that `enters` selects, or with none.

    Faults are in order of their steps.
    """
    performance = _Performance(act, faults, enters)
    world = in_world(WorldSettings(seed=seed, checks=checks, config=act.config), performance.play)
    problem = performance.problem
    if world.violations.kept:
        first = world.violations.kept[0]
        problem = f"{first.check} {first.subject}: {first.message}"
    return Outcome(problem, performance.steps, tuple(performance.requests), world.coverage.counts)


class _Performance:
    def __init__(self, act: Act, faults: Sequence[Fault], enters: Enters) -> None:
        self.problem: str | None = None
        self.steps = 0
        self.requests: list[tuple[str, str]] = []
        self._act = act
        self._faults = faults
        self._enters = enters
        self._next = 0
        self._fault = NO_FAULT
        self._missed: Missed = _hit_nothing

    async def play(self, world: World) -> None:
        await self._act.prepare(world)
        leader = world.leader()
        if leader is None or leader.process is None:
            self.problem = "nobody leads before the act begins"
            return
        host = leader.process.host
        world.observe(self._hear(host.name))
        before = host.steps
        self._await_faults(world, host)
        done = self._act.begin(world)
        try:
            async with asyncio.timeout(self._act.within_s):
                while not done():
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            self.problem = f"not done after {self._act.within_s} s"
        self.steps = host.steps - before
        await asyncio.sleep(self._fault.watched_s)
        self.problem = self.problem or await self._act.afterwards(world) or self._missed()

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
                self._missed = self._fault.strike(world) or _hit_nothing

    def _hear(self, host: str) -> Callable[[Exchange], None]:
        def hear(exchange: Exchange) -> None:
            if exchange.host == host and exchange.landed_at is None and exchange.outcome is None:
                self.requests.append((exchange.method, exchange.path))

        return hear


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
    act: Act
    seed: int
    fault: Fault

    def outcome(self, checks: tuple[type[Check], ...]) -> Outcome:
        """Run it once."""
        return play(self.act, seed=self.seed, fault=self.fault, checks=checks)


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
