"""Earlier versions of an object by revision, as far back as they are kept."""

from bisect import bisect_right
from typing import Generic, TypeVar

from phalanx_simulator.invariants.bounds import VERSIONS_KEPT

T = TypeVar("T")


class Unknown:
    """The version is no longer kept."""


UNKNOWN = Unknown()


class History(Generic[T]):
    """The versions of one object, oldest first; None where it did not exist."""

    def __init__(self) -> None:
        self._revisions: list[int] = []
        self._values: list[T | None] = []
        self._is_cut = False

    def add(self, revision: int, value: T | None) -> None:
        """Add the version that is valid from this revision on; revisions increase."""
        self._revisions.append(revision)
        self._values.append(value)
        if len(self._revisions) > VERSIONS_KEPT:
            half = VERSIONS_KEPT // 2
            del self._revisions[:half], self._values[:half]
            self._is_cut = True

    @property
    def now(self) -> T | None:
        """The present version."""
        return self._values[-1] if self._values else None

    @property
    def began_at(self) -> int:
        """The revision of the first kept version; 0 if it never existed."""
        return self._revisions[0] if self._revisions else 0

    @property
    def changed_at(self) -> int:
        """The revision of the present version; 0 if it never existed."""
        return self._revisions[-1] if self._revisions else 0

    def at(self, revision: int) -> T | Unknown | None:
        """The version at this revision."""
        place = bisect_right(self._revisions, revision) - 1
        if place >= 0:
            return self._values[place]
        return UNKNOWN if self._is_cut else None

    def since(self, revision: int) -> list[T | None]:
        """The version at that revision, if known, and all later ones."""
        place = bisect_right(self._revisions, revision) - 1
        if place >= 0:
            return self._values[place:]
        return list(self._values) if self._is_cut else [None, *self._values]
