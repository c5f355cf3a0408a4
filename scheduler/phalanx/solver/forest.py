"""What domains hold, level by level: the input of the dynamic program over the topology."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from phalanx.solver.arrays import BoolArray, IntArray, Rows, per_domain


class Forest(Struct, frozen=True, eq=False):
    """The levels in question, widest first: what each domain holds, whether it is open, its inner domains.

    What is held is one number per domain: pods of one role, or an amount of one resource. `room` is that of
    the domains of the deepest level, None where nobody asks how tight they are.
    """

    held: tuple[IntArray, ...]
    open: tuple[BoolArray, ...]
    inner: tuple[tuple[IntArray, ...], ...]
    room: IntArray | None = None

    @property
    def last(self) -> int:
        """The deepest level."""
        return len(self.held) - 1

    def inside(self, level: int, domains: IntArray) -> IntArray:
        """The domains of the next level inside these domains."""
        return np.concatenate([self.inner[level][domain] for domain in domains.tolist()])

    def room_of(self, domains: IntArray) -> IntArray:
        """The room of these domains of the deepest level, nothing where nobody asks."""
        return np.zeros_like(domains) if self.room is None else self.room[domains]

    def closed(self, level: int, domains: IntArray) -> IntArray:
        """Those of the domains that are not open."""
        return domains[~self.open[level][domains]]

    def missing(self, level: int, domains: IntArray, demand: int) -> int:
        """What the open ones of the domains do not hold of the demand; never below zero."""
        return max(0, demand - int(self.held[level][domains[self.open[level][domains]]].sum()))


def forest_of(rows: Rows, held: IntArray) -> Forest:
    """The forest of the levels that matter to the whole gang, of what each row holds; without room."""
    levels = rows.book.gang_depth
    return Forest(
        held=tuple([per_domain(domain, held) for domain in rows.domain[:levels]]),
        open=rows.tree.open[:levels],
        inner=_inner(rows, levels),
    )


def with_room(forest: Forest, room: IntArray | None) -> Forest:
    """The same with this room; without one it is what the domains hold."""
    return replace(forest, room=forest.held[forest.last] if room is None else room)


def _inner(rows: Rows, count: int) -> tuple[tuple[IntArray, ...], ...]:
    """Per level but the last, per domain, the domains of the next level inside it."""
    levels = []
    for level in range(1, count):
        parent = rows.tree.parent[level]
        order = np.argsort(parent, kind="stable")
        ends = np.cumsum(np.bincount(parent, minlength=len(rows.tree.parent[level - 1])))
        levels.append(tuple(np.split(order, ends[:-1])))
    return tuple(levels)
