"""Waiting between attempts: longer each time, never all at once."""

from collections.abc import Callable


class Backoff:
    """Doubling delays with jitter. `jitter` gives numbers in [0, 1); delays are in seconds."""

    def __init__(self, *, first: float, longest: float, jitter: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._delay = first

    def next(self, *, at_least: float | None = None) -> float:
        """Between half of the delay and all of it, but `at_least` what the server asked for."""
        delay = self._delay * (0.5 + 0.5 * self._jitter())
        self._delay = min(self._delay * 2, self._longest)
        return max(delay, at_least or 0.0)

    def reset(self) -> None:
        """Something worked: begin with the first delay again."""
        self._delay = self._first
