"""For how long one process has led without a disturbance."""

from collections.abc import Callable

from phalanx_simulator.invariants.truth import Truth


class UndisturbedLeader:
    """Call `take` at each cycle."""

    def __init__(self, truth: Truth, now: Callable[[], float]) -> None:
        self._truth = truth
        self._now = now
        self._host = ""
        self._since = 0.0

    def take(self, host: str) -> None:
        """The process that decided a cycle."""
        if host != self._host:
            self._host, self._since = host, self._now()

    @property
    def seconds(self) -> float:
        """Seconds since it began to decide, or since its process or connection was disturbed."""
        return min(self._now() - self._since, self._truth.healthy_s(self._host)) if self._host else 0.0
