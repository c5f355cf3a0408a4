"""When waiting gangs are reported again although nothing has changed: one timer for each gang."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from phalanx.clock import Clock
from phalanx.model.names import GangId

Plan = Callable[[GangId, float], None]
"""Report the gang again at this time in monotonic seconds."""


class _Timer(Struct):
    at: float
    """Monotonic seconds of our clock."""
    handle: asyncio.TimerHandle


class LaterReports:
    """The timers of all gangs."""

    def __init__(self, clock: Clock, report: Callable[[GangId], None]) -> None:
        self._clock = clock
        self._report = report
        self._timers: dict[GangId, _Timer] = {}

    @property
    def gangs(self) -> frozenset[GangId]:
        return frozenset(self._timers)

    def plan(self, gang: GangId, at: float) -> None:
        """Report the gang again at `at` (monotonic seconds), unless an earlier report is planned: that one
        plans what is left."""
        timer = self._timers.get(gang)
        if timer is not None and timer.at <= at:
            return
        self.forget(gang)
        seconds = at - self._clock.monotonic()
        handle = asyncio.get_running_loop().call_later(seconds, self._due, gang)
        self._timers[gang] = _Timer(at, handle)

    def forget(self, gang: GangId) -> None:
        timer = self._timers.pop(gang, None)
        if timer is not None:
            timer.handle.cancel()

    def _due(self, gang: GangId) -> None:
        """The clock of the timer may be ahead of ours, so the time may have to be planned again."""
        del self._timers[gang]
        self._report(gang)
