"""Follow gangs from their creation to their start: what they wait for, when they are placed and bound."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from phalanx.clock import Clock
from phalanx.model.decisions import CycleResult, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.reasons import Verdict
from phalanx.observe.ports import GangStart, StartReports, Wait

_TRACED_GANGS_MAX: Final = 10_000
"""Waiting gangs of which traces record the waits, the first ones in the order of the verdicts."""

_WAITS_KEPT: Final = 32
"""Waits of one gang in its trace, the last ones. A gang that waits for days would have thousands."""

START: Final = "start"
"""The cause of a placement that starts a gang."""


class WaitHistory:
    """The last waits of each waiting gang: a new one begins when the reason of the verdict changes."""

    def __init__(self) -> None:
        self._waits: dict[GangId, tuple[Wait, ...]] = {}
        self._verdicts: dict[GangId, Verdict] = {}

    def cycle_finished(self, result: CycleResult, now_ms: int) -> None:
        """Compare the verdicts of a cycle with those of the last one. Gangs without a verdict are forgotten.

        Most verdicts are the same objects as before.
        """
        verdicts = {verdict.gang: verdict for verdict in result.verdicts[:_TRACED_GANGS_MAX]}
        for gang, verdict in verdicts.items():
            if self._verdicts.get(gang) is not verdict:
                self._add(gang, verdict, now_ms)
        for gang in self._waits.keys() - verdicts.keys():
            del self._waits[gang]
        self._verdicts = verdicts

    def take(self, gang: GangId) -> tuple[Wait, ...]:
        """The waits of a gang that is placed now, in order."""
        return self._waits.pop(gang, ())

    def _add(self, gang: GangId, verdict: Verdict, now_ms: int) -> None:
        waits = self._waits.get(gang, ())
        if not waits or waits[-1].reason != verdict.reason.value:
            wait = Wait(now_ms, verdict.reason.value, verdict.message)
            self._waits[gang] = (*waits[-_WAITS_KEPT + 1 :], wait)


class _Open(Struct):
    """A start of which binds are still open."""

    left: int
    created_ms: int
    decided_ms: int
    waits: tuple[Wait, ...]
    is_whole: bool = True


class GangStarts:
    """Reports each gang whose start is bound in full."""

    def __init__(self, reports: Iterable[StartReports], clock: Clock, history: WaitHistory | None) -> None:
        """`history`: records what gangs wait for, if that is wanted."""
        self._reports = tuple(reports)
        self._clock = clock
        self._history = history
        self._open: dict[tuple[GangId, int], _Open] = {}

    @property
    def open(self) -> int:
        """Starts whose binds have not all finished."""
        return len(self._open)

    def placed(self, placement: Placement, gang: Gang | None, pods: Iterable[Pod]) -> None:
        """The binds of a placement begin. Call it before `cycle_finished` of the same cycle."""
        if placement.cause != START:
            return
        waits = self._history.take(placement.gang) if self._history is not None else ()
        created = min((pod.created for pod in pods), default=0)
        if gang is not None and not gang.starts_over and gang.created:
            created = gang.created
        self._open[placement.gang, placement.cycle] = _Open(
            len(placement.binds), created * 1000, self._clock.now_ms(), waits
        )

    def cycle_finished(self, result: CycleResult) -> None:
        """Record what the other gangs wait for."""
        if self._history is not None:
            self._history.cycle_finished(result, self._clock.now_ms())

    def bind_finished(self, placement: Placement, *, is_bound: bool) -> None:
        """One bind of a placement has an outcome; the last one reports the start if all are bound."""
        key = (placement.gang, placement.cycle)
        start = self._open.get(key) if placement.cause == START else None
        if start is None:
            return
        start.left -= 1
        start.is_whole &= is_bound
        if start.left:
            return
        del self._open[key]
        if start.is_whole:
            self._report(placement, start)

    def _report(self, placement: Placement, start: _Open) -> None:
        done = GangStart(
            placement=placement,
            queue=placement.queue,
            created_ms=start.created_ms,
            decided_ms=start.decided_ms,
            bound_ms=self._clock.now_ms(),
            waits=start.waits,
        )
        for reports in self._reports:
            reports.gang_started(done)
