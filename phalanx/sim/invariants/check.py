"""What a check is, what it can look at, and where it reports."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from msgspec import Struct

from phalanx.limits import SIM_VIOLATIONS_KEPT
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.sim.clocks import WorldClock
from phalanx.sim.network import Exchange
from phalanx.sim.replica import Replica
from phalanx.sim.store import Change, Store


class Violation(Struct, frozen=True):
    """Something that must never happen has happened."""

    check: str
    at_s: float
    subject: str
    message: str


class Marks:
    """Counts of rare things that were seen to happen: without them, no violation means little."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def saw(self, mark: str) -> None:
        """It has happened once more."""
        self.counts[mark] = self.counts.get(mark, 0) + 1


class Scene(Struct, frozen=True):
    """What checks look at. `clock` is true time; `replicas` are there for their hosts, networks and clocks.

    `single_writer` tells whether nobody but us and the controllers puts pods on nodes.
    """

    store: Store
    clock: WorldClock
    replicas: tuple[Replica, ...]
    marks: Marks
    report: Callable[[Violation], None]
    single_writer: bool = True


class Check:
    """One invariant, or a few that need the same looks. Override what is needed."""

    name: ClassVar[str]

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def on_change(self, change: Change) -> None:
        """An object was written or removed; called within the write."""

    def on_exchange(self, exchange: Exchange) -> None:
        """A scheduler's request has left, landed, or been answered; see Exchange for which."""

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        """A scheduler has decided; nothing of it was written yet."""

    def on_tick(self) -> None:
        """About every simulated second."""

    def at_rest(self) -> None:
        """Faults have ended a good while ago and all that could be done should be done."""

    def at_end(self) -> None:
        """Everything was deleted, and the schedulers have heard of it."""

    def violated(self, subject: str, message: str, *, check: str = "") -> None:
        """Report; `check` where this class stands for several."""
        at_s = round(self.scene.clock.monotonic(), 3)
        self.scene.report(Violation(check or self.name, at_s, subject, message))


class Checks:
    """All checks of a run."""

    def __init__(self, scene: Scene, kinds: Iterable[type[Check]]) -> None:
        self._checks = [kind(scene) for kind in kinds]
        scene.store.subscribe(None, self._on_change)

    def on_exchange(self, exchange: Exchange) -> None:
        """See Check."""
        for check in self._checks:
            check.on_exchange(exchange)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        """See Check."""
        for check in self._checks:
            check.on_cycle(host, snapshot, result)

    def on_tick(self) -> None:
        """See Check."""
        for check in self._checks:
            check.on_tick()

    def at_rest(self) -> None:
        """See Check."""
        for check in self._checks:
            check.at_rest()

    def at_end(self) -> None:
        """See Check."""
        for check in self._checks:
            check.at_end()

    def _on_change(self, change: Change) -> None:
        for check in self._checks:
            check.on_change(change)


class Violations:
    """The first violations of a run, and how many there were."""

    def __init__(self) -> None:
        self.kept: list[Violation] = []
        self.count = 0

    def take(self, violation: Violation) -> None:
        """Count it, and keep it while there is room."""
        self.count += 1
        if len(self.kept) < SIM_VIOLATIONS_KEPT:
            self.kept.append(violation)
