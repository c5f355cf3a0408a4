"""Base class of checks, their context, and the record of violations."""

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from msgspec import Struct
from phalanx.model.decisions import CycleResult
from phalanx.model.overridden_methods import overrides
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change, Store
from phalanx_simulator.hosts.host import WorldClock
from phalanx_simulator.hosts.network import Exchange
from phalanx_simulator.hosts.replica import Replica
from phalanx_simulator.invariants.bounds import OPEN_CALLS_MAX
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.coverage_points import ACCESS_POINT_PREFIX, COVERAGE_POINTS
from phalanx_simulator.invariants.truth import Truth

SIM_VIOLATIONS_KEPT: Final = 20
"""Violations of one run that are kept in full: the first ones usually cause the others."""


class Violation(Struct, frozen=True):
    """One violation of an invariant."""

    check: str
    at_s: float
    subject: str
    message: str


class Coverage:
    """Counts of rare events that were reached.

    Without them the absence of violations means little.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def reached(self, point: str) -> None:
        """Count an event."""
        self.counts[point] = self.counts.get(point, 0) + 1


class CheckContext(Struct, frozen=True):
    """Data that checks read.

    `clock` shows the true time. `single_writer`: no other scheduler binds pods. `hard_budgets`: the
    configuration lets no eviction for another gang exceed a PodDisruptionBudget.
    """

    store: Store
    clock: WorldClock
    replicas: tuple[Replica, ...]
    coverage: Coverage
    report: Callable[[Violation], None]
    single_writer: bool = True
    hard_budgets: bool = True


class Check:
    """One invariant, or a few that need the same observations.

    Unused hooks cost nothing.
    """

    name: ClassVar[str]

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        self.context = context
        self.truth = truth

    def on_change(self, change: Change) -> None:
        """An object was written or removed.

        Called during the write, after `truth` was updated.
        """

    def on_call(self, call: Call) -> None:
        """A scheduler's request was sent, applied or answered: see `call.stage`."""

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        """A scheduler has decided; none of the decisions is written yet."""

    def on_tick(self) -> None:
        """Called about every simulated second."""

    def at_rest(self) -> None:
        """Faults ended half an hour ago; all feasible work should be placed."""

    def at_end(self) -> None:
        """Everything was deleted, and the schedulers have received that."""

    @property
    def now(self) -> float:
        """True seconds since the simulation began."""
        return self.context.clock.monotonic()

    def violated(self, subject: object, message: str, *, check: str = "") -> None:
        """Report a violation; `check` where this class implements several."""
        self.context.report(Violation(check or self.name, round(self.now, 3), str(subject), message))

    def reached(self, point: str) -> None:
        """Count a coverage point.

        Raises KeyError for one that is not in COVERAGE_POINTS.
        """
        if point not in COVERAGE_POINTS and not point.startswith(ACCESS_POINT_PREFIX):
            raise KeyError(point)
        self.context.coverage.reached(point)


class Checks:
    """All checks of a run.

    They share one Truth and are called only for hooks that they override.
    """

    def __init__(self, context: CheckContext, kinds: Iterable[type[Check]]) -> None:
        self.truth = Truth(context.store, context.clock, context.replicas)
        checks = [kind(context, self.truth) for kind in kinds]
        self._changes = [check.on_change for check in checks if _overrides(check, "on_change")]
        self._calls = [check.on_call for check in checks if _overrides(check, "on_call")]
        self._cycles = [check.on_cycle for check in checks if _overrides(check, "on_cycle")]
        self._ticks = [check.on_tick for check in checks if _overrides(check, "on_tick")]
        self._checks = checks
        self._open: dict[int, Call] = {}
        if checks:
            context.store.subscribe(None, self._on_change)

    def on_exchange(self, exchange: Exchange) -> None:
        """A scheduler's request has left, landed, or been answered."""
        if not self._checks:
            return
        call = self._call_of(exchange)
        if call.stage is Stage.ANSWERED:
            self.truth.note_list_response(call)
        for on_call in self._calls:
            on_call(call)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        """See Check."""
        for on_cycle in self._cycles:
            on_cycle(host, snapshot, result)

    def on_tick(self) -> None:
        """See Check."""
        self.truth.tick()
        for on_tick in self._ticks:
            on_tick()

    def at_rest(self) -> None:
        """See Check."""
        for check in self._checks:
            check.at_rest()

    def at_end(self) -> None:
        """See Check."""
        for check in self._checks:
            check.at_end()

    def _on_change(self, change: Change) -> None:
        self.truth.take(change)
        for on_change in self._changes:
            on_change(change)

    def _call_of(self, exchange: Exchange) -> Call:
        """The Call of an exchange, created when it was sent.

        It may be applied after its sender gave up.
        """
        call = self._open.get(id(exchange))
        if call is None:
            call = self._open[id(exchange)] = Call(exchange, self.truth.replica_of(exchange.host))
            self._forget_lost()
            return call
        call.stage = Stage.ANSWERED if call.has_landed or exchange.landed_at is None else Stage.LANDED
        call.has_landed = call.has_landed or call.stage is Stage.LANDED
        if exchange.outcome is not None and (call.has_landed or exchange.outcome != "unknown"):
            del self._open[id(exchange)]
        return call

    def _forget_lost(self) -> None:
        """Drop old requests that were never applied or answered."""
        if len(self._open) > OPEN_CALLS_MAX:
            for place in list(self._open)[: OPEN_CALLS_MAX // 2]:
                del self._open[place]


def _overrides(check: Check, hook: str) -> bool:
    return overrides(type(check), hook, Check)


class Violations:
    """The first violations of a run, and how many there were."""

    def __init__(self) -> None:
        self.kept: list[Violation] = []
        self.count = 0

    def take(self, violation: Violation) -> None:
        """Count a violation, and keep the first ones."""
        self.count += 1
        if len(self.kept) < SIM_VIOLATIONS_KEPT:
            self.kept.append(violation)
