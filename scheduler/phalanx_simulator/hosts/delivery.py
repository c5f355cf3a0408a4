"""The state of each kind that a host has received, for the checks."""

from collections import deque
from collections.abc import Callable
from typing import Final

_STEP_S: Final = 0.05
_STEPS_KEPT: Final = 64


class ReceivedVersions:
    """Received resource versions by kind (plural).

    `versions`: the latest state of each kind that has arrived. `listed_at`: when all objects of a kind were
    last heard anew.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.versions: dict[str, int] = {}
        self.listed_at: dict[str, float] = {}
        self._now = now
        self._arrivals: dict[str, deque[tuple[float, int]]] = {}

    def up_to(self, kind: str, version: int) -> None:
        """All changes of a kind up to this version have arrived."""
        newest = self.versions[kind] = max(version, self.versions.get(kind, 0))
        arrivals = self._arrivals.setdefault(kind, deque(maxlen=_STEPS_KEPT))
        now = self._now()
        if arrivals and now // _STEP_S == arrivals[-1][0] // _STEP_S:
            arrivals.pop()
        arrivals.append((now, newest))

    def listed(self, kind: str) -> None:
        """A complete list of a kind has arrived."""
        self.listed_at[kind] = self._now()

    def by(self, kind: str, at_s: float) -> int:
        """The version of a kind that had arrived by then, or an earlier one; 0 if unknown."""
        arrivals = self._arrivals.get(kind, ())
        return next((version for since, version in reversed(arrivals) if since <= at_s), 0)
