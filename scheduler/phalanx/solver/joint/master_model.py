"""The CP-SAT model of the master problem.

It admits gangs and distributes their components to regions. Regions are relaxed to valid inequalities, so its
bound on the value holds for the whole problem; the subproblems decide whether a plan is feasible.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.arrays import IntArray, TooLarge
from phalanx.solver.cp_sat import CpModel
from phalanx.solver.joint.arrays import BendersCut, JointArrays
from phalanx.solver.joint.valid_inequalities import (
    ColocatedPods,
    Inequality,
    RegionCapacity,
    colocated_pods,
    outermost,
    region_capacity,
    valid_inequalities,
    value_bound,
)
from phalanx.solver.limits import MODEL_SUM_MAX

Term = tuple[int, cp_model.IntVar]


class MasterData(Struct, frozen=True, eq=False):
    """The parts of the master problem that do not change between solves."""

    arrays: JointArrays
    inequalities: tuple[Inequality, ...]
    capacities: tuple[RegionCapacity, ...]
    factors: IntArray
    """Units by [inequality, pod class]."""
    weights: IntArray
    """Units by [component, inequality]."""
    colocated: tuple[ColocatedPods, ...]
    fits: IntArray
    """Pods that fit alone by [region, pod class]."""
    candidate_regions: tuple[tuple[int, ...], ...]
    """Per component, the regions that could hold it; empty for those that may use several."""
    value_bound: int
    """No admissible set of gangs is worth more."""


def master_data(arrays: JointArrays) -> MasterData:
    """Prepare the master problem."""
    inequalities = valid_inequalities(arrays)
    capacities = tuple(region_capacity(region, inequalities) for region in arrays.regions)
    factors = np.array([inequality.weights for inequality in inequalities], dtype=np.int64).reshape(
        len(inequalities), len(arrays.problem.pod_classes)
    )
    weights = arrays.wanted @ factors.T
    fits = np.array([_fits(arrays, region) for region in range(len(arrays.regions))], dtype=np.int64)
    colocated = colocated_pods(arrays)
    candidate_regions = tuple(
        tuple(
            _candidate_regions(
                arrays, capacities, factors, fits, [pods for pods in colocated if pods.component == component]
            )
        )
        if arrays.is_confined(component)
        else ()
        for component in range(len(arrays.components))
    )
    units = sum((capacity.total for capacity in capacities), np.zeros(len(inequalities), dtype=np.int64))
    per_gang = np.array(
        [weights[list(components)].sum(axis=0) for components in arrays.components_of], dtype=np.int64
    )
    most = value_bound(arrays.problem.gangs, per_gang, units.tolist())
    return MasterData(
        arrays,
        inequalities,
        capacities,
        factors,
        weights,
        colocated,
        candidate_regions=candidate_regions,
        fits=fits,
        value_bound=most,
    )


def _fits(arrays: JointArrays, region: int) -> list[int]:
    rows = arrays.regions[region].table.rows
    most = [role.maximum for role in rows.problem.roles]
    fits: list[int] = (np.minimum(rows.fits, most) * rows.count[:, None]).sum(axis=0).tolist()
    return fits


def _candidate_regions(
    arrays: JointArrays,
    capacities: Sequence[RegionCapacity],
    factors: IntArray,
    fits: IntArray,
    colocated: Sequence[ColocatedPods],
) -> Iterable[int]:
    """The regions that could hold a component alone; the first co-located set is all of it."""
    component = colocated[0].component
    if any(
        sum(arrays.counts(component, constraint.role_sets)) % constraint.size
        for constraint in arrays.components[component].constraints
        if constraint.size
    ):
        return
    needs = [(max(pods.depth, arrays.depth), factors @ np.array(pods.counts)) for pods in colocated]
    for index, (region, capacity) in enumerate(zip(arrays.regions, capacities, strict=True)):
        if not region.is_domain or (fits[index] < arrays.wanted[component]).any():
            continue
        held = {depth: capacity.inside(region, depth) for depth in {depth for depth, _ in needs} if depth}
        if all((held[depth] >= weights).all(axis=1).any() for depth, weights in needs):
            yield index


class MasterModel:
    """The model of one solve.

    Components that may use several regions are merged into one stream of pods, or are a stream each where the
    gangs are fixed. Those in segments always are streams of their own. Variables: `admitted[gang]`,
    `inside[component, region]`, `pods[stream, pod_class, region]`, `segments[component, region]`.
    """

    def __init__(
        self, data: MasterData, cuts: Sequence[BendersCut], chosen: Sequence[int] | None = None
    ) -> None:
        self.data = data
        self.arrays = data.arrays
        self.cp = CpModel()
        self.admitted = [self._admission(gang, chosen) for gang in range(len(self.arrays.problem.gangs))]
        components = [
            index
            for index, component in enumerate(self.arrays.components)
            if chosen is None or component.gang in chosen
        ]
        self.streams = list(self._streams(components, merged=chosen is None))
        self.inside = {
            (component, region): self.cp.new_bool_var("")
            for component in components
            for region in data.candidate_regions[component]
        }
        self.pods = self._pods()
        self.segments = self._segments()
        self._confined: list[list[Term]] = [[] for _ in self.arrays.regions]
        for (component, region), variable in self.inside.items():
            self._confined[region].append((component, variable))
        self._loose: list[list[Term]] = [[] for _ in self.arrays.regions]
        for (_, pod_class, region), variable in self.pods.items():
            self._loose[region].append((pod_class, variable))
        self._place_confined_components()
        self._place_streams()
        self._bound_regions()
        self._bound_inner_domains()
        self._keep_budgets()
        for cut in cuts:
            self._add_cut(cut)

    def _admission(self, gang: int, chosen: Sequence[int] | None) -> cp_model.IntVar:
        """A variable even where the value is known: a shared constant would get two hints."""
        if chosen is not None:
            known = int(gang in chosen)
            return self.cp.new_int_var(known, known, "")
        return self.cp.new_int_var(int(self.arrays.problem.gangs[gang].must_admit), 1, "")

    def admission(self, component: int) -> cp_model.IntVar:
        """Whether the component's gang is admitted."""
        return self.admitted[self.arrays.components[component].gang]

    def _streams(self, components: Sequence[int], *, merged: bool) -> Iterable[list[int]]:
        loose = [component for component in components if not self.arrays.is_confined(component)]
        plain = [component for component in loose if not self.arrays.components[component].segment]
        yield from [plain] if merged and plain else ([component] for component in plain)
        yield from ([component] for component in loose if self.arrays.components[component].segment)

    def _pods(self) -> dict[tuple[int, int, int], cp_model.IntVar]:
        pods = {}
        for stream, components in enumerate(self.streams):
            wanted = self.arrays.wanted[components].sum(axis=0)
            in_segments = self.arrays.components[components[0]].segment > 0
            for region, fits in enumerate(self.data.fits):
                if in_segments and not self.arrays.regions[region].is_domain:
                    continue
                for pod_class, most in enumerate(np.minimum(wanted, fits).tolist()):
                    if most:
                        pods[stream, pod_class, region] = self.cp.new_int_var(0, most, "")
        return pods

    def _segments(self) -> dict[tuple[int, int], cp_model.IntVar]:
        """Whole segments per region of components that may use several regions."""
        segments = {}
        for stream, components in enumerate(self.streams):
            size = self.arrays.components[components[0]].segment
            for region in range(len(self.arrays.regions)) if size else ():
                keys = [
                    (stream, pod_class, region) for pod_class in range(len(self.arrays.problem.pod_classes))
                ]
                pods = [self.pods[key] for key in keys if key in self.pods]
                if pods:
                    most = int(self.arrays.wanted[components[0]].sum()) // size
                    segments[components[0], region] = number = self.cp.new_int_var(0, most, "")
                    self.cp.add(cp_model.LinearExpr.sum(pods) == size * number)
        return segments

    def total(self, terms: Iterable[Term], reach: int) -> cp_model.LinearExpr:
        """Return the sum of the terms. Raises TooLarge where `reach`, its upper bound, is not safe."""
        listed = [(weight, variable) for weight, variable in terms if weight]
        if reach > MODEL_SUM_MAX:
            raise TooLarge
        return cp_model.LinearExpr.weighted_sum(
            [variable for _, variable in listed], [weight for weight, _ in listed]
        )

    def _place_confined_components(self) -> None:
        for component, candidate_regions in enumerate(self.data.candidate_regions):
            if self.arrays.is_confined(component):
                inside = [
                    self.inside[component, region]
                    for region in candidate_regions
                    if (component, region) in self.inside
                ]
                self.cp.add(cp_model.LinearExpr.sum(inside) == self.admission(component))

    def _place_streams(self) -> None:
        for stream, components in enumerate(self.streams):
            for pod_class in range(len(self.arrays.problem.pod_classes)):
                wanted = [
                    (int(self.arrays.wanted[component, pod_class]), self.admission(component))
                    for component in components
                ]
                most = sum(weight for weight, _ in wanted)
                if most:
                    here = [(1, self.pods[key]) for key in self._keys(stream=stream, pod_class=pod_class)]
                    self.cp.add(self.total(here, most) == self.total(wanted, most))

    def _keys(self, *, stream: int, pod_class: int) -> list[tuple[int, int, int]]:
        regions = range(len(self.arrays.regions))
        return [(stream, pod_class, region) for region in regions if (stream, pod_class, region) in self.pods]

    def _bound_regions(self) -> None:
        for index, inequality in enumerate(self.data.inequalities):
            for region, capacity in enumerate(self.data.capacities):
                most = int(capacity.total[index])
                if most < inequality.most:
                    here = [
                        (int(self.data.weights[component, index]), variable)
                        for component, variable in self._confined[region]
                    ]
                    self.cp.add(
                        self.total([*here, *self._loose_load(region, inequality.weights)], inequality.most)
                        <= most
                    )

    def _loose_load(self, region: int, weights: Sequence[int]) -> list[Term]:
        return [(weights[pod_class], variable) for pod_class, variable in self._loose[region]]

    def _bound_inner_domains(self) -> None:
        """Bound the co-located sets of each size by what the inner domains hold."""
        arrays = self.arrays
        for depth in sorted({pods.depth for pods in self.data.colocated if pods.depth > arrays.depth}):
            inner = outermost(self.data.colocated, depth)
            weights = np.array([pods.counts for pods in inner], dtype=np.int64) @ self.data.factors.T
            for region, capacity in enumerate(self.data.capacities):
                held = capacity.inside(arrays.regions[region], depth)
                here = [
                    (line, found)
                    for line, pods in enumerate(inner)
                    if (found := self._colocated_in(pods, region))
                ]
                for index in range(len(self.data.inequalities)):
                    sizes = [(int(weights[line, index]), *found) for line, found in here]
                    self._bound_domains(sizes, held[:, index])

    def _colocated_in(self, pods: ColocatedPods, region: int) -> tuple[Term, int] | None:
        """The number of such sets in the region as a term, and its maximum; None where it is 0."""
        where = self.segments if pods.per_segment else self.inside
        if (pods.component, region) not in where:
            return None
        times = 1 if pods.per_segment else pods.times
        return (times, where[pods.component, region]), pods.times

    def _bound_domains(self, sizes: Sequence[tuple[int, Term, int]], held: IntArray) -> None:
        for size in sorted({units for units, _, _ in sizes} - {0}):
            large = [(units // size, term, most) for units, term, most in sizes if units >= size]
            most, reach = int((held // size).sum()), sum(count * most for count, _, most in large)
            if most < reach:
                terms = [(count * times, variable) for count, (times, variable), _ in large]
                self.cp.add(self.total(terms, reach) <= most)

    def _keep_budgets(self) -> None:
        problem = self.arrays.problem
        for limit in self.arrays.limits:
            for resource, name in enumerate(problem.resources):
                if name not in limit.budget.remaining:
                    continue
                needs = {gang: self._need(gang, resource) for gang in limit.gangs}
                unit = math.gcd(*needs.values())
                most = max(0, limit.budget.remaining[name])
                if unit and sum(needs.values()) > most:
                    terms = [(need // unit, self.admitted[gang]) for gang, need in needs.items()]
                    self.cp.add(self.total(terms, sum(needs.values()) // unit) <= most // unit)

    def _need(self, gang: int, resource: int) -> int:
        pod_classes = self.arrays.problem.pod_classes
        return sum(
            role.count * pod_classes[role.pod_class].request[resource]
            for role in self.arrays.problem.gangs[gang].roles
        )

    def _add_cut(self, cut: BendersCut) -> None:
        """Some group has fewer components in the region, or the loose pods there are limited."""
        short = [self._shortage(cut.region, components, count) for components, count in cut.groups]
        if cut.rest is None:
            self.cp.add_bool_or(short)
            return
        load = self._loose_load(cut.region, cut.weights)
        wanted = self.arrays.wanted.sum(axis=0).tolist()
        reach = sum(weight * most for weight, most in zip(cut.weights, wanted, strict=True))
        self.cp.add(self.total(load, reach) <= cut.rest + max(0, reach - cut.rest) * sum(short))

    def _shortage(self, region: int, components: Sequence[int], count: int) -> cp_model.IntVar:
        """A boolean that implies fewer than `count` of these components in the region."""
        short = self.cp.new_bool_var("")
        here = [
            self.inside[component, region] for component in components if (component, region) in self.inside
        ]
        self.cp.add(cp_model.LinearExpr.sum(here) < count).only_enforce_if(short)
        return short
