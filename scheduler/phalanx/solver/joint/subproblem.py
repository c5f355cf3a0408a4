"""The subproblem of one region: place the shares of a plan exactly, in few inner domains.

A counting model in CP-SAT. Pods of one class are interchangeable, so it counts them per group of equal nodes.
Components matter only down to their innermost level: domains are nested, so it suffices that each domain
holds the sum of the demands on it and on the domains inside it (Hall's theorem for nested sets).
`assign_pods` turns counts into assignments.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, structs
from ortools.sat.python import cp_model

from phalanx.model.names import NodeName
from phalanx.solver.arrays import Placement
from phalanx.solver.counting.constraints import capacity_amounts, capacity_patterns, role_counts
from phalanx.solver.counting.model import CountingModel, solution
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.cp_sat import one_worker
from phalanx.solver.joint.arrays import JointArrays, Region, Share, region_of
from phalanx.solver.joint.inner_domains import DomainDemandModel, DomainRole, InnerDomains
from phalanx.solver.joint.problem import JointAssignment
from phalanx.solver.problem import Assignment

IMPOSSIBLE: Final = "impossible"
UNKNOWN: Final = "unknown"


class RegionPlacement(Struct, frozen=True, eq=False):
    """A solution of the subproblem."""

    region: Region
    pod_classes: tuple[int, ...]
    """The pod class of each role of the region model."""
    found: Placement
    demands: tuple[tuple[dict[DomainRole, int], ...], ...]
    """Per share and role set, pods by inner domain and role."""


class RegionResult(Struct, frozen=True):
    """The outcome of one solve."""

    placement: RegionPlacement | str
    """A placement, or IMPOSSIBLE, or UNKNOWN."""
    spent: float
    """Deterministic time units."""
    rest: int = 0
    """Most units of loose pods, where these were maximised."""


def solve_region(
    arrays: JointArrays, region: Region, shares: Sequence[Share], *, effort: float
) -> RegionResult:
    """Place all of these shares."""
    model = _RegionModel(arrays, region, shares, loose=(0,) * len(arrays.problem.pod_classes))
    if model.opened:
        model.cp.minimize(cp_model.LinearExpr.sum(model.opened))
    solver = one_worker(arrays.problem.seed, effort)
    status = solver.solve(model.cp)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return RegionResult(model.placement(solver), solver.deterministic_time)
    return RegionResult(IMPOSSIBLE if status == cp_model.INFEASIBLE else UNKNOWN, solver.deterministic_time)


def most_beside(
    arrays: JointArrays,
    region: Region,
    shares: Sequence[Share],
    *,
    loose: Sequence[int],
    weights: Sequence[int],
    effort: float,
) -> RegionResult:
    """Maximise the units of loose pods beside these shares.

    `loose` limits them per pod class; a loose pod is one of a component that may use several regions.
    """
    model = _RegionModel(arrays, region, shares, loose=tuple(loose))
    variables, factors = [], []
    for (role, _), variable in model.counting.pods.items():
        variables.append(variable)
        factors.append(weights[model.pod_classes[role]])
    fixed = sum(
        share.counts[pod_class] * weights[pod_class] for share in shares for pod_class in range(len(weights))
    )
    model.cp.maximize(model.counting.total(variables, factors))
    solver = one_worker(arrays.problem.seed, effort)
    status = solver.solve(model.cp)
    spent = solver.deterministic_time
    if status == cp_model.OPTIMAL:
        return RegionResult(model.placement(solver), spent, rest=round(solver.objective_value) - fixed)
    return RegionResult(IMPOSSIBLE if status == cp_model.INFEASIBLE else UNKNOWN, spent)


class _RegionModel:
    """The counting model of the pod classes in question with the demands of the shares."""

    def __init__(
        self, arrays: JointArrays, region: Region, shares: Sequence[Share], *, loose: tuple[int, ...]
    ) -> None:
        self._arrays, self._shares = arrays, shares
        totals = np.array([share.counts for share in shares], dtype=np.int64).reshape(len(shares), len(loose))
        fixed = totals.sum(axis=0).tolist()
        self.pod_classes = tuple(
            pod_class for pod_class, count in enumerate(fixed) if count + loose[pod_class]
        )
        self.region = _narrowed(region, self.pod_classes, fixed, loose)
        table = self.region.table
        self.counting = CountingModel(table, groups_of(table, table.everything))
        self.cp = self.counting.cp
        for add in (role_counts, capacity_patterns, capacity_amounts):
            add(self.counting)
        self._inner_domains = InnerDomains(self.region)
        demand_model = DomainDemandModel(self.cp, arrays, self._inner_domains, self.pod_classes)
        self._demands = [demand_model.of(share) for share in shares]
        self.opened = demand_model.opened
        self._domains_hold_demands()

    def placement(self, solver: cp_model.CpSolver) -> RegionPlacement:
        """Read the solver's solution."""
        demands = tuple(
            tuple(
                {key: solver.value(variable) for key, variable in role_set.items()} for role_set in role_sets
            )
            for role_sets in self._demands
        )
        return RegionPlacement(self.region, self.pod_classes, solution(self.counting, solver), demands)

    def _domains_hold_demands(self) -> None:
        """Each domain holds at least the demands on it and on the domains inside it."""
        depths = [self._arrays.inner_depth(share.component) for share in self._shares]
        for depth in sorted(set(depths) - {0}):
            demanded: dict[DomainRole, list[cp_model.LinearExprT]] = {}
            for inner, role_sets in zip(depths, self._demands, strict=True):
                for demands in role_sets if inner >= depth else ():
                    for (domain, role), amount in demands.items():
                        outer = self._inner_domains.outer(domain, inner, depth)
                        demanded.setdefault((outer, role), []).append(amount)
            members: dict[int, list[int]] = {}
            for index, group in enumerate(self.counting.groups):
                members.setdefault(group.domains[depth - 1], []).append(index)
            for (domain, role), amounts in demanded.items():
                pods = self.counting.pods_of(role, members.get(domain, []))
                self.cp.add(cp_model.LinearExpr.sum(pods) >= cp_model.LinearExpr.sum(amounts))


def _narrowed(
    region: Region, pod_classes: Sequence[int], fixed: Sequence[int], loose: Sequence[int]
) -> Region:
    """The region for these pod classes only; `fixed` pods are required and `loose` ones optional."""
    problem = region.problem
    roles = tuple(
        structs.replace(
            problem.roles[pod_class], minimum=fixed[pod_class], maximum=fixed[pod_class] + loose[pod_class]
        )
        for pod_class in pod_classes
    )
    classes = tuple(
        structs.replace(
            group,
            eligible=tuple([group.eligible[pod_class] for pod_class in pod_classes]),
            cost=(0,) * len(pod_classes),
        )
        for group in problem.classes
    )
    return region_of(structs.replace(problem, roles=roles, classes=classes), is_domain=region.is_domain)


Slots = list[list[int]]
"""Pods not yet handed out, by [node, role]."""

Taken = dict[tuple[int, int], int]
"""Pods by node (position) and role."""


def assign_pods(
    arrays: JointArrays, solved: Sequence[tuple[Sequence[Share], RegionPlacement]]
) -> JointAssignment:
    """Return the assignments of each gang from the placements of all regions."""
    left = {
        (index, role): demand.count
        for index, gang in enumerate(arrays.problem.gangs)
        for role, demand in enumerate(gang.roles)
    }
    given: dict[int, dict[tuple[int, NodeName], int]] = {}
    for shares, placement in solved:
        names = [placement.region.table.names[node] for node in placement.found.nodes.tolist()]
        for component, role_set, taken in _pods_per_role_set(arrays, shares, placement):
            own = arrays.components[component]
            for (line, region_role), count in taken.items():
                per_node = given.setdefault(own.gang, {})
                for role, some in _pods_per_role(
                    arrays, component, role_set, placement.pod_classes[region_role], count, left
                ):
                    per_node[role, names[line]] = per_node.get((role, names[line]), 0) + some
    return {
        gang: tuple(
            Assignment(role=role, node=node, count=count)
            for (role, node), count in sorted(given[gang].items())
        )
        for gang in sorted(given)
    }


def _pods_per_role(
    arrays: JointArrays,
    component: int,
    role_set: int,
    pod_class: int,
    count: int,
    left: dict[tuple[int, int], int],
) -> Iterator[tuple[int, int]]:
    """Split a role set's pods of one class over its roles, taking them from `left`."""
    own = arrays.components[component]
    for role in own.role_sets[role_set]:
        if arrays.problem.gangs[own.gang].roles[role].pod_class == pod_class:
            some = min(count, left[own.gang, role])
            left[own.gang, role] -= some
            count -= some
            if some:
                yield role, some


def _pods_per_role_set(
    arrays: JointArrays, shares: Sequence[Share], placement: RegionPlacement
) -> Iterator[tuple[int, int, Taken]]:
    """Hand out the pods of a region to role sets.

    The innermost demands come first: the others can take what those leave anywhere.
    """
    slots: Slots = placement.found.counts.tolist()
    rows = placement.region.table.rows
    row = placement.region.table.row[placement.found.nodes]
    depths = [arrays.inner_depth(share.component) for share in shares]
    for index in sorted(range(len(shares)), key=lambda index: -depths[index]):
        share, depth = shares[index], depths[index]
        domain_of_line = rows.domain[depth - 1][row].tolist() if depth else [0] * len(slots)
        for role_set, demands in enumerate(placement.demands[index]):
            taken: Taken = {}
            demanded = demands if depth else _anywhere(arrays.counts_in(share, role_set), placement)
            for domain, wanted in _by_domain(demanded).items():
                _take(
                    [line for line, here in enumerate(domain_of_line) if here == domain], wanted, slots, taken
                )
            yield share.component, role_set, taken


def _anywhere(counts: Sequence[int], placement: RegionPlacement) -> dict[tuple[int, int], int]:
    return {(0, role): counts[pod_class] for role, pod_class in enumerate(placement.pod_classes)}


def _by_domain(demands: Mapping[tuple[int, int], int]) -> dict[int, dict[int, int]]:
    domains: dict[int, dict[int, int]] = {}
    for (domain, role), count in demands.items():
        if count:
            domains.setdefault(domain, {})[role] = count
    return domains


def _take(lines: Sequence[int], wanted: dict[int, int], slots: Slots, taken: Taken) -> None:
    """Take slots of these nodes, the fullest nodes first."""
    for line in sorted(lines, key=lambda line: -sum(slots[line][role] for role in wanted)):
        for role, missing in wanted.items():
            count = min(missing, slots[line][role])
            if count:
                slots[line][role] -= count
                wanted[role] -= count
                taken[line, role] = taken.get((line, role), 0) + count
