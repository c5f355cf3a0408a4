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


def seeded_random(seed: int) -> random.Random:
    """A generator of its own for one purpose (backoff jitter, say), reproducible from the seed."""
    return random.Random(seed)
