"""Clocks of a simulation: true time, and host clocks that may be wrong."""

import asyncio
from typing import Final

EPOCH_MS: Final = 1_767_225_600_000
"""Wall time at which every simulation begins: 2026-01-01T00:00:00Z."""


class WorldClock:
    """True time, taken from the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return EPOCH_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._loop.time()


class HostClock:
    """A host's clocks.

    The wall clock can jump; both can run fast or slow.
    """

    def __init__(self, world: WorldClock) -> None:
        self._world = world
        self._rate = 1.0
        self._since = world.monotonic()
        self._elapsed = 0.0
        self._offset_ms = 0

    def now_ms(self) -> int:
        """The host's wall time in milliseconds since the epoch."""
        return EPOCH_MS + round(self.monotonic() * 1000) + self._offset_ms

    def monotonic(self) -> float:
        """The host's seconds since the simulation began."""
        return self._elapsed + self._rate * (self._world.monotonic() - self._since)

    def jump(self, by_ms: int) -> None:
        """Shift the wall clock."""
        self._offset_ms += by_ms

    def run_at(self, rate: float) -> None:
        """1.1 is ten per cent too fast. The clock does not jump."""
        elapsed = self.monotonic()
        self._rate, self._since, self._elapsed = rate, self._world.monotonic(), elapsed
