"""The only source of time and of seeded randomness. All else asks a Clock, so a simulation can drive it."""

import random
import time
from typing import Protocol

Random = random.Random
"""The type of a seeded generator, for those who are given one."""


class Clock(Protocol):
    """Time as the scheduler sees it."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since the epoch: for timestamps in objects, never for deadlines."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: for deadlines, timeouts and the Lease."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SteadyClock:
    """Wall time that never jumps: read once, then carried on by the monotonic clock.

    Deadlines that were written down as wall time hold with it, whoever sets the machine's clock meanwhile.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - round(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as the wall clock stood when this was made, plus what has passed."""
        return self._ahead_ms + round(self._clock.monotonic() * 1000)

    def monotonic(self) -> float:
        """See Clock."""
        return self._clock.monotonic()


def seeded_random(seed: int) -> random.Random:
    """A generator of its own for one purpose (backoff jitter, say), reproducible from the seed."""
    return random.Random(seed)
