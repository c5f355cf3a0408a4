"""What a set of nodes holds at most, as weighted sums over kinds of pods: true of every placement.

For any vector m, a pod that asks for floor(request / m) = w "units" on each resource of m takes w of the
floor(free / m) units of its node. So the weights w and the sums of the units bound what nodes hold, and as
well, with a gang as one big pod, what the domains that gangs must lie in hold of whole gangs. (These are the
dual feasible functions of bin packing, see Fekete and Schepers, 2001.)
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from phalanx.limits import OBJECTIVE_COEFFICIENT_MAX
from phalanx.solver.arrays import IntArray, Rows
from phalanx.solver.joint.arrays import Field, Region, labelled

Vector = tuple[int, ...]


class Cut(Struct, frozen=True):
    """`unit` is m, `weights` are units per kind, `most` is what all gangs together weigh."""

    unit: Vector
    weights: Vector
    most: int


class Hold(Struct, frozen=True, eq=False):
    """What the rows of one region hold of each cut (a line per row, a column per cut), and all together."""

    rows: IntArray
    total: IntArray

    def inside(self, region: Region, depth: int) -> IntArray:
        """What each domain of this depth holds; nothing where nodes are in no domain."""
        home = region.table.rows.domain[depth - 1]
        held = np.zeros((len(region.table.rows.tree.open[depth - 1]), self.rows.shape[1]), dtype=np.int64)
        np.add.at(held, home, np.where(labelled(region, depth)[:, None], self.rows, 0))
        return held


def cuts_of(field: Field) -> tuple[Cut, ...]:
    """The cuts that are worth having; with large weights they are left out, where sums could not be exact."""
    requests = [kind.request for kind in field.problem.kinds]
    totals = field.wanted.sum(axis=0).tolist()
    cuts: dict[Vector, Cut] = {}
    for unit in _units(requests):
        weights = tuple(_weight(request, unit) for request in requests)
        most = sum(weight * total for weight, total in zip(weights, totals, strict=True))
        if 0 < most <= OBJECTIVE_COEFFICIENT_MAX:
            cuts.setdefault(unit, Cut(unit, weights, most))
    return tuple(cuts.values())


def hold_of(region: Region, cuts: Sequence[Cut]) -> Hold:
    """What the region's rows hold of each cut."""
    rows = region.table.rows
    held = np.zeros((len(rows.count), len(cuts)), dtype=np.int64)
    for index, cut in enumerate(cuts):
        held[:, index] = np.minimum(_units_held(rows, cut), cut.most) * rows.count
    return Hold(rows=held, total=held.sum(axis=0))


def _units(requests: Sequence[Vector]) -> Iterator[Vector]:
    """Whole requests, the least of what large pods ask for, and single amounts of single resources."""
    yield from (request for request in requests if any(request))
    for resource in range(len(requests[0])):
        sizes = sorted({request[resource] for request in requests if request[resource] > 0})
        if not sizes:
            continue
        for size in sizes:
            large = [request for request in requests if request[resource] >= size]
            yield tuple(map(min, zip(*large, strict=True)))
        for size in {math.gcd(*sizes): None, **dict.fromkeys(sizes)}:
            yield tuple(size if index == resource else 0 for index in range(len(requests[0])))


def _weight(request: Vector, unit: Vector) -> int:
    return min(need // size for need, size in zip(request, unit, strict=True) if size > 0)


def _units_held(rows: Rows, cut: Cut) -> IntArray:
    """Per row, the units that one node holds of pods that may use it."""
    weights = np.array(cut.weights, dtype=np.int64)
    asked = [index for index, size in enumerate(cut.unit) if size > 0]
    used = np.minimum(rows.fits, [role.maximum for role in rows.problem.roles]) @ weights
    held = (rows.free[:, asked] // np.array([cut.unit[index] for index in asked])).min(axis=1)
    units: IntArray = np.minimum(held, used)
    return units
