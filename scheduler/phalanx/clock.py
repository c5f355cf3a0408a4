"""The only source of time and of random numbers. A simulation replaces the Clock."""

import random
import secrets
import time
from typing import Protocol

Random = random.Random
"""The type of a seeded generator, for annotations."""


class Clock(Protocol):
    """Wall time and monotonic time."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since the epoch: for timestamps in objects, never for deadlines."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease: for deadlines, timeouts and the Lease."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SteadyClock:
    """Wall time that never jumps: read once, then advanced by the monotonic clock.

    Deadlines in wall time stay correct with it when the clock of the machine is set.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - round(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        """Milliseconds since the epoch: the wall time at creation plus the time since then."""
        return self._ahead_ms + round(self._clock.monotonic() * 1000)

    def monotonic(self) -> float:
        return self._clock.monotonic()


def seeded_random(seed: int) -> random.Random:
    """Create a generator for one purpose, such as backoff jitter, reproducible from the seed."""
    return random.Random(seed)


def secret_text(*, size: int) -> str:
    """A secret of so many random bytes, for links and cookies. It is never part of a decision."""
    return secrets.token_urlsafe(size)
