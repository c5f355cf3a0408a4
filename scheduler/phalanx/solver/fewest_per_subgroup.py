"""How few domains the subgroups that wish for few could lie in: bounds that need no search.

As for a whole gang, each role of a subgroup alone, and each resource in total, is a single kind of thing; on
one level the largest domains are the fewest that hold it. Levels and subgroups are counted by themselves, so
the sums hold for every placement.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from phalanx.solver.anchors import inhabited
from phalanx.solver.arrays import BoolArray, IntArray, Rows
from phalanx.solver.problem_rules import Gathering
from phalanx.solver.single.scopes import Scope, scaled_usable


class _Kind(Struct, frozen=True, eq=False):
    """One kind of thing: what each row holds of it, and how much the minimums and maximums take."""

    held: IntArray
    minimum: int
    maximum: int


class FewestPerSubgroup:
    """Lower bounds on the domains that subgroups open, for the scopes of one problem."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._kinds = [list(_kinds(rows, one)) for one in rows.book.gatherings]
        self._known: dict[tuple[int, int, bool], list[int]] = {}

    def opened(self, scope: Scope, *, whole: bool) -> Sequence[int]:
        """Per level, what all such subgroups open at least: with all pods placed, or with the minimums."""
        key = (scope.depth, scope.home, whole)
        if key not in self._known:
            self._known[key] = self._opened(scope, whole=whole)
        return self._known[key]

    def _opened(self, scope: Scope, *, whole: bool) -> list[int]:
        inside = np.ones(len(self._rows.count), dtype=np.bool_)
        if scope.depth:
            inside = self._rows.domain[scope.depth - 1] == scope.home
        opened = [0] * self._rows.book.gathered_depth
        for gathering, kinds in zip(self._rows.book.gatherings, self._kinds, strict=True):
            for level in range(gathering.depth):
                there = np.zeros(len(self._rows.tree.open[level]), dtype=np.bool_)
                there[list(inhabited(self._rows, gathering, level))] = True
                opened[level] += max(self._needed(kind, level, inside, there, whole=whole) for kind in kinds)
        return opened

    def _needed(self, kind: _Kind, level: int, inside: BoolArray, there: BoolArray, *, whole: bool) -> int:
        """The fewest domains of the level, beside those with members, that hold so much."""
        held = np.zeros(len(there), dtype=np.int64)
        np.add.at(held, self._rows.domain[level][inside], kind.held[inside])
        missing = (kind.maximum if whole else kind.minimum) - int(held[there].sum())
        if missing <= 0:
            return 0
        return int(np.searchsorted(np.cumsum(-np.sort(-held[~there])), missing)) + 1


def _kinds(rows: Rows, gathering: Gathering) -> Iterator[_Kind]:
    roles = [rows.problem.roles[index] for index in gathering.roles]
    for index, role in zip(gathering.roles, roles, strict=True):
        yield _Kind(rows.fits[:, index] * rows.count, role.minimum, role.maximum)
    for resource in range(len(rows.problem.resources)):
        usable, shift = scaled_usable(rows, resource, gathering.roles)
        least = sum(role.minimum * role.request[resource] for role in roles)
        most = sum(role.maximum * role.request[resource] for role in roles)
        yield _Kind(usable * rows.count, least >> shift, most >> shift)
