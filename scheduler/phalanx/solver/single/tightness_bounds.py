"""Lower bounds on the tightness term: the least capacity of domains that hold the demands.

This is a min-knapsack with cardinality. Where there are few combinations of domains, all are enumerated.
Otherwise each demand is relaxed with a Lagrange multiplier (Geoffrion, 1974): for every multiplier, the
domains of least reduced capacity give a bound. Integer arithmetic throughout.
"""

from collections.abc import Sequence
from itertools import chain, combinations
from math import comb
from typing import Final

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import BoolArray, ClassRows, IntArray
from phalanx.solver.single.scopes import Scope

LAGRANGE_MULTIPLIERS_MAX: Final = 8
"""Multipliers that are tried per demand."""

DOMAIN_CHOICES_MAX: Final = 5_000
"""Combinations of domains that are enumerated, under a millisecond."""

_AMOUNT_BITS: Final = 16
"""Amounts keep this many bits so that sums of products with capacities stay below 2^63."""


class Need(Struct, frozen=True, eq=False):
    """One demand: what each deepest-level domain holds of it, and the amount needed."""

    held: IntArray
    amount: int


class TightnessBounds:
    """Bounds for the scopes of one problem; 0 without a tightness term."""

    def __init__(self, rows: ClassRows) -> None:
        self._rows = rows
        self._level = rows.rules.gang_depth - 1
        self._combinations: dict[tuple[int, int], IntArray] = {}
        self._domain_capacity = rows.domain_capacity

    def of(self, scope: Scope) -> int:
        """The capacity of the deepest-level domain that the scope is, or is in; else 0."""
        if self._domain_capacity is None or scope.depth <= self._level:
            return 0
        domain = scope.domain
        for level in range(scope.depth - 1, self._level, -1):
            domain = int(self._rows.tree.parent[level][domain])
        return 0 if self._rows.tree.open[self._level][domain] else int(self._domain_capacity[domain])

    def least(self, scope: Scope, needs: Sequence[Need], count: int | None = None) -> int:
        """Return a bound on the capacity of the domains opened in the scope.

        They hold what the open domains do not; `count` is their number where it is known.
        """
        if self._domain_capacity is None or scope.depth > self._level or count == 0:
            return self.of(scope)
        inside = self._inside(scope)
        opened = self._rows.tree.open[self._level] & inside
        closed = np.flatnonzero(inside & ~opened)
        capacity = self._domain_capacity[closed]
        missing = [Need(need.held[closed], need.amount - int(need.held[opened].sum())) for need in needs]
        missing = [need for need in missing if need.amount > 0]
        if count is None:
            return max((lagrangian_bound(capacity, need, None) for need in missing), default=0)
        if comb(len(closed), count) <= DOMAIN_CHOICES_MAX:
            return self._by_enumeration(capacity, count, missing)
        simple = int(np.sort(capacity)[:count].sum())
        return max([simple, *(lagrangian_bound(capacity, need, count) for need in missing)])

    def _inside(self, scope: Scope) -> BoolArray:
        """Which deepest-level domains are in the scope."""
        parent = self._rows.tree.parent
        if not scope.depth:
            return np.ones(len(parent[self._level]), dtype=np.bool_)
        outer = np.arange(len(parent[self._level]), dtype=np.int64)
        for level in range(self._level, scope.depth - 1, -1):
            outer = parent[level][outer]
        inside: BoolArray = outer == scope.domain
        return inside

    def _by_enumeration(self, capacity: IntArray, count: int, missing: Sequence[Need]) -> int:
        """The exact minimum; 0 where no combination holds everything."""
        chosen = self._combinations_of(len(capacity), count)
        enough = np.ones(len(chosen), dtype=np.bool_)
        for need in missing:
            enough &= need.held[chosen].sum(axis=1) >= need.amount
        return int(capacity[chosen[enough]].sum(axis=1).min()) if enough.any() else 0

    def _combinations_of(self, domains: int, count: int) -> IntArray:
        """All combinations of so many domains, one per line."""
        key = (domains, count)
        if key not in self._combinations:
            numbers = chain.from_iterable(combinations(range(domains), count))
            self._combinations[key] = np.fromiter(numbers, dtype=np.int64).reshape(-1, count)
        return self._combinations[key]


def lagrangian_bound(capacity: IntArray, need: Need, count: int | None) -> int:
    """The best bound over some multipliers, which are the capacity per unit of some domains."""
    shift = max(0, int(need.held.max(initial=0)).bit_length() - _AMOUNT_BITS)
    # rounded up: what holds enough still does
    held, amount = -(-need.held >> shift), -(-need.amount >> shift)
    holders = np.flatnonzero(held)
    order = holders[np.argsort(capacity[holders] / held[holders], kind="stable")]
    tried = (
        order[np.linspace(0, len(order) - 1, LAGRANGE_MULTIPLIERS_MAX, dtype=np.int64)]
        if len(order)
        else order
    )
    bounds = [0]
    for multiplier, unit in zip(capacity[tried].tolist(), held[tried].tolist(), strict=True):
        rest = unit * capacity - multiplier * held
        chosen = np.minimum(rest, 0) if count is None else np.sort(rest)[:count]
        bounds.append(-(-(int(chosen.sum()) + multiplier * amount) // unit))
    return max(bounds)
