"""Lower bounds on the traffic between domains, from what fits beside one pod.

A pod shares its domain with at most as many members of another role as fit there beside it. So much of its
traffic may stay inside; the rest crosses the level. Each level, and the nodes, have a bound of their own.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from phalanx.rules.traffic_matrix import TrafficMatrix
from phalanx.solver.arrays import ClassRows, IntArray, requests_of
from phalanx.solver.single.scopes import Scope

_ROUNDING: Final = 1 + 1e-9
"""Sums of free amounts are doubles; what fits into them is rounded up."""

FloatArray = NDArray[np.float64]


class TrafficBounds:
    """Lower bounds for the scopes of one problem in which all pods are placed."""

    def __init__(self, rows: ClassRows) -> None:
        self._rows = rows
        self._known: dict[tuple[int, int], list[int]] = {}
        matrix = rows.rules.traffic
        if matrix is None:
            return
        self._matrix = matrix
        self._owned = [
            [own for own, role in enumerate(matrix.members) if role == index] for index in range(matrix.size)
        ]
        self._there = [0] * matrix.size
        for anchor, index in matrix.anchors:
            self._there[index] += anchor.count
        roles = rows.problem.roles
        self._of_members = matrix.crossing([], len(rows.problem.levels))
        self._placed = [sum(roles[own].maximum for own in owned) for owned in self._owned]

    def least(self, scope: Scope, *, whole: bool) -> Sequence[int]:
        """The least traffic per level and between nodes, with all pods placed (`whole`) or with any."""
        if self._rows.rules.traffic is None:
            return ()
        if not whole:
            return self._of_members
        key = (scope.depth, scope.domain)
        if key not in self._known:
            levels = range(self._rows.rules.traffic_depth)
            found = [self._crossing(self._matrix, scope, self._rows.domain[level]) for level in levels]
            found.append(self._crossing(self._matrix, scope, None))
            self._known[key] = [*map(max, found, self._of_members)]
        return self._known[key]

    def _crossing(self, matrix: TrafficMatrix, scope: Scope, domain: IntArray | None) -> int:
        """The least traffic between these domains; None for the nodes."""
        rows = self._rows
        inside = np.ones(len(rows.count), dtype=np.bool_)
        if scope.depth:
            inside = rows.domain[scope.depth - 1] == scope.domain
        where = np.arange(int(inside.sum())) if domain is None else domain[inside]
        count = np.ones(int(inside.sum()), dtype=np.int64) if domain is None else rows.count[inside]
        fits = _per_domain(where, np.minimum(rows.fits[inside], 1 << 30) * count[:, None])
        free = _per_domain(where, rows.free[inside].astype(np.float64) * count[:, None])
        total = [there + placed for there, placed in zip(self._there, self._placed, strict=True)]
        crossing = 0
        for one in range(matrix.size):
            for other in range(matrix.size):
                weight = matrix.weights[one][other]
                if weight and total[one] and total[other]:
                    pairs = total[one] * (total[other] - (one == other))
                    kept = min(
                        total[one] * self._beside(one, other, fits, free),
                        total[other] * self._beside(other, one, fits, free),
                    )
                    crossing += weight * max(0, pairs - kept)
        return crossing

    def _beside(self, one: int, other: int, fits: FloatArray, free: FloatArray) -> int:
        """The most members of `other` that share a domain with a member of `one`, itself not counted."""
        itself = int(one == other)
        most = self._placed[other] + self._there[other] - itself
        if not self._placed[other]:
            return most
        here = fits[:, self._owned[other]].sum(axis=1)
        if not self._matrix.anchors:
            here = np.minimum(here - itself, self._left(one, other, free))
        elif itself:
            here = here - (0 if self._there[other] else 1)
        fitting = int(max(0, min(self._placed[other], here.max(initial=0))))
        return min(most, fitting + self._there[other])

    def _left(self, one: int, other: int, free: FloatArray) -> FloatArray:
        """Pods of `other` that fit per domain beside a pod of `one`, by the amounts alone."""
        requests = requests_of(self._rows.problem)
        if not self._owned[one] or not self._owned[other]:
            return np.zeros(len(free))
        taken, asked = requests[self._owned[one]].min(axis=0), requests[self._owned[other]].min(axis=0)
        needed = asked > 0
        left = (free[:, needed] * _ROUNDING - taken[needed]) / asked[needed]
        counts: FloatArray = np.floor(left.min(axis=1, initial=float(1 << 40)) + 1e-6)
        return counts


def _per_domain(domain: IntArray, amounts: NDArray[np.generic]) -> FloatArray:
    found = np.zeros((int(domain.max(initial=-1)) + 1, amounts.shape[1]), dtype=np.float64)
    np.add.at(found, domain, amounts.astype(np.float64))
    return found
