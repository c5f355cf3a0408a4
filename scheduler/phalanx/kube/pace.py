"""A token bucket: how many requests a second, and a break when the server asks for one."""

import asyncio

from phalanx.clock import Clock


class RateLimiter:
    """`per_second` requests on average, at most `burst` at once. Whoever asks first goes first."""

    def __init__(self, *, per_second: float, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / per_second
        self._slack = burst * self._interval
        self._clock = clock
        self._next = clock.monotonic() - self._slack

    async def turn(self) -> None:
        """Wait for a turn."""
        now = self._clock.monotonic()
        self._next = max(self._next, now - self._slack) + self._interval
        if self._next > now:
            await asyncio.sleep(self._next - now)

    def hold(self, seconds: float) -> None:
        """Nobody gets a turn for so long; then the pace begins without a burst."""
        self._next = max(self._next, self._clock.monotonic() + seconds)
