"""Keeps what a session made of gangs that do not change, so that later sessions see the same objects.

What is known of a gang (`Gang.is_stable`) is kept with its object, and most gangs run for many cycles.
"""

from typing import Final, Generic, TypeVar

from phalanx.model.gangs import Gang
from phalanx.model.names import GangId

Made = TypeVar("Made")

_FEW: Final = 1024
"""Gangs that are kept in any case."""


class SettledGangs(Generic[Made]):
    """What sessions made of gangs that stay as they are.

    Those that no session asks for are dropped: at most about three times as many are kept as there are.
    """

    def __init__(self) -> None:
        self._now: dict[GangId, tuple[Gang, Made]] = {}
        self._before: dict[GangId, tuple[Gang, Made]] = {}

    def get(self, gang: Gang) -> Made | None:
        """What an earlier session made of exactly this gang."""
        known = self._now.get(gang.id) or self._before.get(gang.id)
        if known is None or known[0] is not gang:
            return None
        self.keep(*known)
        return known[1]

    def keep(self, gang: Gang, made: Made) -> None:
        if len(self._now) > 2 * len(self._before) + _FEW:
            self._before, self._now = self._now, {}
        self._now[gang.id] = (gang, made)
