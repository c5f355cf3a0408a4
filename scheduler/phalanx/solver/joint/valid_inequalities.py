"""Valid inequalities of the master problem: upper bounds on what a set of nodes holds.

For a vector m, a pod that requests at least w * m takes w of the floor(free / m) units of its node. The
weighted sum of pods is therefore at most the sum of the units of the nodes. Applied to a co-located set of
pods as one item, the same bound holds for the domains inside a region. These are dual feasible functions of
bin packing (Fekete and Schepers, Math. Programming 91, 2001).

`value_bound` is a 0-1 knapsack over one such inequality: O(gangs * units).
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from phalanx.solver.arrays import ClassRows, IntArray
from phalanx.solver.joint.arrays import JointArrays, Region, labelled
from phalanx.solver.joint.problem import GangDemand
from phalanx.solver.limits import JOINT_KNAPSACK_UNITS_MAX, OBJECTIVE_COEFFICIENT_MAX

Vector = tuple[int, ...]


class Inequality(Struct, frozen=True):
    """One weighted sum over pod classes."""

    unit: Vector
    """The vector m."""
    weights: Vector
    """Units per pod class."""
    most: int
    """Units of all gangs together."""


class RegionCapacity(Struct, frozen=True, eq=False):
    """Right-hand sides: the units of a region's nodes."""

    rows: IntArray
    """Units by [row, inequality]."""
    total: IntArray
    """Units by [inequality]."""

    def inside(self, region: Region, depth: int) -> IntArray:
        """Units by [domain of this depth, inequality]; nodes outside of all domains do not count."""
        domain = region.table.rows.domain[depth - 1]
        held = np.zeros((len(region.table.rows.tree.open[depth - 1]), self.rows.shape[1]), dtype=np.int64)
        np.add.at(held, domain, np.where(labelled(region, depth)[:, None], self.rows, 0))
        return held


def valid_inequalities(arrays: JointArrays) -> tuple[Inequality, ...]:
    """Return the inequalities that can bind.

    Those whose sums could be inexact in the model are left out.
    """
    requests = [pod_class.request for pod_class in arrays.problem.pod_classes]
    totals = arrays.wanted.sum(axis=0).tolist()
    inequalities: dict[Vector, Inequality] = {}
    for unit in _units(requests):
        weights = tuple(_weight(request, unit) for request in requests)
        most = sum(weight * total for weight, total in zip(weights, totals, strict=True))
        if 0 < most <= OBJECTIVE_COEFFICIENT_MAX:
            inequalities.setdefault(unit, Inequality(unit, weights, most))
    return tuple(inequalities.values())


def region_capacity(region: Region, inequalities: Sequence[Inequality]) -> RegionCapacity:
    """Compute the units of a region's nodes."""
    rows = region.table.rows
    held = np.zeros((len(rows.count), len(inequalities)), dtype=np.int64)
    for index, inequality in enumerate(inequalities):
        held[:, index] = np.minimum(_units_held(rows, inequality), inequality.most) * rows.count
    return RegionCapacity(rows=held, total=held.sum(axis=0))


def _units(requests: Sequence[Vector]) -> Iterator[Vector]:
    """Candidates for m: whole requests, minima over large pods, and amounts of single resources."""
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


def _units_held(rows: ClassRows, inequality: Inequality) -> IntArray:
    """Per row, the units of one node that eligible pods can use."""
    weights = np.array(inequality.weights, dtype=np.int64)
    demanded = [index for index, size in enumerate(inequality.unit) if size > 0]
    used = np.minimum(rows.fits, [role.maximum for role in rows.problem.roles]) @ weights
    held = (rows.free[:, demanded] // np.array([inequality.unit[index] for index in demanded])).min(axis=1)
    units: IntArray = np.minimum(held, used)
    return units


class ColocatedPods(Struct, frozen=True):
    """Pods of a component that must be in one domain."""

    component: int
    depth: int
    counts: tuple[int, ...]
    """Per pod class."""
    role_sets: frozenset[int]
    times: int = 1
    """How many such sets the component has."""
    per_segment: bool = False
    """Whether the number in a region is that of its segments of the component."""


def colocated_pods(arrays: JointArrays) -> tuple[ColocatedPods, ...]:
    """Return all co-located sets, enclosing ones first."""
    return tuple(
        pods for component in range(len(arrays.components)) for pods in _of_component(arrays, component)
    )


def outermost(colocated: Sequence[ColocatedPods], depth: int) -> list[ColocatedPods]:
    """Select sets of this depth or a deeper one so that no pod is in two of them."""
    chosen: list[ColocatedPods] = []
    for pods in colocated:
        around = [other for other in chosen if other.component == pods.component]
        if pods.depth >= depth and not any(pods.role_sets <= other.role_sets for other in around):
            chosen.append(pods)
    return chosen


def _of_component(arrays: JointArrays, component: int) -> Iterator[ColocatedPods]:
    """Segments count only where all pods are of one class: otherwise the weight depends on the pods in
    them."""
    own = arrays.components[component]
    every = frozenset(range(len(own.role_sets)))
    if own.required:
        yield ColocatedPods(component, own.required, arrays.counts(component, every), every)
    for constraint in own.constraints:
        counts, role_sets = arrays.counts(component, constraint.role_sets), frozenset(constraint.role_sets)
        if not constraint.size:
            yield ColocatedPods(component, constraint.depth, counts, role_sets)
        elif sum(count > 0 for count in counts) == 1:
            segment = tuple(min(count, constraint.size) for count in counts)
            times = sum(counts) // constraint.size
            yield ColocatedPods(
                component, constraint.depth, segment, role_sets, times, per_segment=not own.required
            )


def value_bound(gangs: Sequence[GangDemand], weights: IntArray, capacity: Sequence[int]) -> int:
    """Return an upper bound on the value of any admissible set of gangs.

    `weights` by [gang, inequality]; `capacity` by [inequality].
    """
    total = sum(gang.value for gang in gangs)
    if total > OBJECTIVE_COEFFICIENT_MAX:
        return total
    return min(
        [
            total,
            *(
                _knapsack(gangs, column.tolist(), most)
                for column, most in zip(weights.T, capacity, strict=True)
            ),
        ]
    )


def _knapsack(gangs: Sequence[GangDemand], sizes: Sequence[int], capacity: int) -> int:
    """Maximise the value within the capacity together with the gangs that must be admitted."""
    kept = sum(gang.value for gang, size in zip(gangs, sizes, strict=True) if gang.must_admit or size == 0)
    capacity -= sum(size for gang, size in zip(gangs, sizes, strict=True) if gang.must_admit)
    others = [
        (gang.value, size) for gang, size in zip(gangs, sizes, strict=True) if size and not gang.must_admit
    ]
    capacity = min(capacity, sum(size for _, size in others))
    if not 0 <= capacity <= JOINT_KNAPSACK_UNITS_MAX:
        return sum(gang.value for gang in gangs)
    best = np.zeros(capacity + 1, dtype=np.int64)
    for value, size in others:
        if size <= capacity:
            best[size:] = np.maximum(best[size:], best[: capacity + 1 - size] + value)
    return kept + int(best[-1])
