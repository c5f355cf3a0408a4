"""A joint problem as arrays, cut into regions.

Regions are the domains of one level, and one more region holds the nodes outside of all of them. The level is
the widest that a component requires, or a wider one where that would make too many regions. Each component
is therefore either in one region or may use several.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.model.rules import (
    Budget,
    FewestDomains,
    SameDomain,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupSegments,
)
from phalanx.solver.arrays import BoolArray, IntArray, NodeTable, class_rows, node_table
from phalanx.solver.joint.components import Component, Unsupported, components_of
from phalanx.solver.joint.problem import GangDemand, JointProblem
from phalanx.solver.limits import JOINT_PAIRS_MAX
from phalanx.solver.problem import NodeClass, PlacementProblem, RoleDemand


class Share(Struct, frozen=True):
    """The pods of a component in one region."""

    component: int
    counts: tuple[int, ...]
    """Per pod class."""


class Plan(Struct, frozen=True):
    """A solution of the master problem: the admitted gangs and each region's shares."""

    admitted: tuple[int, ...]
    """Indices of gangs in queue order."""
    value: int
    shares: tuple[tuple[Share, ...], ...]
    """Per region."""


class BendersCut(Struct, frozen=True):
    """A constraint on the master problem that an infeasible region implies.

    A region that holds at least `count` components of each group holds at most `rest` units of the components
    that may use several regions.
    """

    region: int
    groups: tuple[tuple[tuple[int, ...], int], ...]
    """Pairs of components (indices) and a count."""
    weights: tuple[int, ...] = ()
    """Units per pod class."""
    rest: int | None = None
    """None: the groups alone do not fit."""
    proven: bool = True
    """Whether it holds for certain; otherwise later bounds of the master problem are not valid."""


Usable = dict[tuple[int, ...], list[NodeName]]
"""Per set of pod classes, the nodes that some of them may use."""


class SharedBudget(Struct, frozen=True):
    """A budget and the gangs whose pods it counts."""

    budget: Budget
    gangs: tuple[int, ...]
    """Indices; the budget counts all pods of each."""


class Region(Struct, frozen=True, eq=False):
    """Nodes of one domain that some gang could use."""

    problem: PlacementProblem
    """Placing any number of pods of each pod class in the region."""
    table: NodeTable
    labels: IntArray
    """Per row, how many topology labels its nodes have."""
    is_domain: bool
    """False for the nodes outside of all domains of this level."""


class JointArrays(Struct, frozen=True, eq=False):
    """A joint problem in regions and components."""

    problem: JointProblem
    depth: int
    """Depth of the regions: a number of levels from the widest; 0 where all nodes are one region."""
    regions: tuple[Region, ...]
    components: tuple[Component, ...]
    components_of: tuple[tuple[int, ...], ...]
    """Per gang, the indices of its components."""
    wanted: IntArray
    """Pods by [component, pod class]."""
    limits: tuple[SharedBudget, ...]

    def is_confined(self, component: int) -> bool:
        """Whether the component must be in one region."""
        return self.components[component].required > 0

    def inner_depth(self, component: int) -> int:
        """The deepest level inside a region that matters to the component; 0 where none does."""
        deepest = max(self.components[component].depth, self.components[component].preferred)
        return deepest if deepest > self.depth else 0

    def counts_in(self, share: Share, role_set: int) -> tuple[int, ...]:
        """Return the pods of a role set in a share, per pod class.

        A component of several role sets is never divided.
        """
        if len(self.components[share.component].role_sets) == 1:
            return share.counts
        return self.counts(share.component, [role_set])

    def counts(self, component: int, role_sets: Iterable[int]) -> tuple[int, ...]:
        """Return the pods of some role sets of a component, per pod class."""
        counts = [0] * len(self.problem.pod_classes)
        roles = self.problem.gangs[self.components[component].gang].roles
        for role_set in role_sets:
            for role in self.components[component].role_sets[role_set]:
                counts[roles[role].pod_class] += roles[role].count
        return tuple(counts)


def joint_arrays(problem: JointProblem) -> JointArrays:
    """Build the arrays. Raises Unsupported, or TooLarge where amounts would not stay exact."""
    limits = _limits(problem)
    for gang in problem.gangs:
        _accept(problem, gang)
    components = [
        component for gang in range(len(problem.gangs)) for component in components_of(problem, gang)
    ]
    members: list[list[int]] = [[] for _ in problem.gangs]
    wanted = np.zeros((len(components), len(problem.pod_classes)), dtype=np.int64)
    for index, component in enumerate(components):
        members[component.gang].append(index)
        for role_set in component.role_sets:
            for role in role_set:
                wanted[index, problem.gangs[component.gang].roles[role].pod_class] += (
                    problem.gangs[component.gang].roles[role].count
                )
    depth = _region_depth(problem, components)
    deepest = max((max(component.depth, component.preferred) for component in components), default=0)
    return JointArrays(
        problem=problem,
        depth=depth,
        regions=tuple(_regions(problem, wanted, depth, deepest)),
        components=tuple(components),
        components_of=tuple(map(tuple, members)),
        wanted=wanted,
        limits=limits,
    )


def unsupported_gangs(problem: JointProblem) -> tuple[int, ...]:
    """Return the indices of the gangs that make the engine decline the problem."""
    usable: Usable = {}
    unsupported = []
    for index, gang in enumerate(problem.gangs):
        try:
            _accept(problem, gang)
            components_of(problem, index)
            list(_counted(problem, gang, usable))
        except Unsupported:
            unsupported.append(index)
    return tuple(unsupported)


def labelled(region: Region, depth: int) -> BoolArray:
    """Per row, whether its nodes are in a domain of this depth."""
    return region.labels >= depth


def _accept(problem: JointProblem, gang: GangDemand) -> None:
    for rule in gang.rules:
        match rule:
            case SameDomain() | FewestDomains() | SubgroupDomain() | SubgroupSegments() | SubgroupFewest():
                if rule.level not in problem.levels:
                    raise Unsupported(f"{gang.name}: there is no level {rule.level}")
            case Budget():
                pass
            case _:
                raise Unsupported(f"{gang.name}: a rule of an unknown kind: {type(rule).__name__}")


def _region_depth(problem: JointProblem, components: Sequence[Component]) -> int:
    """The deepest level, at most the widest required one, with few enough pairs of component and domain."""
    widest = min(
        (component.required or component.depth for component in components if component.depth), default=0
    )
    for depth in range(widest, 1, -1):
        domains = {group.path[:depth] for group in problem.classes}
        if len(domains) * len(components) <= JOINT_PAIRS_MAX:
            return depth
    return min(widest, 1)


def _regions(problem: JointProblem, wanted: IntArray, depth: int, deepest: int) -> Iterable[Region]:
    members: dict[tuple[str, ...] | None, list[NodeClass]] = {}
    for group in problem.classes:
        path = group.path[:depth] if len(group.path) >= depth else None
        members.setdefault(path, []).append(group)
    totals = wanted.sum(axis=0).tolist()
    roles = tuple(
        RoleDemand(pod_class.name, pod_class.request, 0, total)
        for pod_class, total in zip(problem.pod_classes, totals, strict=True)
    )
    preference = (FewestDomains("levels", problem.levels[deepest - 1]),) if deepest else ()
    free_of_charge = (0,) * len(problem.pod_classes)
    for path, classes in members.items():
        plain = tuple(
            group if not any(group.cost) else structs.replace(group, cost=free_of_charge) for group in classes
        )
        region_problem = PlacementProblem(
            problem.resources, problem.levels, roles, plain, preference, seed=problem.seed
        )
        yield region_of(region_problem, is_domain=path is not None)


def region_of(problem: PlacementProblem, *, is_domain: bool) -> Region:
    """Build a region from the problem of placing pods of each class in it."""
    table = node_table(class_rows(problem))
    known = {node: len(group.path) for group in problem.classes for node in group.nodes}
    lengths = [known[names[0]] for names in table.rows.nodes]
    return Region(problem, table, np.array(lengths, dtype=np.int64), is_domain)


def _limits(problem: JointProblem) -> tuple[SharedBudget, ...]:
    """Budgets by name with their gangs. Raises Unsupported where a budget counts a gang in part."""
    budgets: dict[str, Budget] = {}
    gangs: dict[str, list[int]] = {}
    usable: Usable = {}
    for index, gang in enumerate(problem.gangs):
        for rule in _counted(problem, gang, usable):
            if budgets.setdefault(rule.name, rule) != rule:
                raise Unsupported(f"{gang.name}: two budgets are named {rule.name}")
            gangs.setdefault(rule.name, []).append(index)
    return tuple(SharedBudget(budgets[name], tuple(counted)) for name, counted in gangs.items())


def _counted(problem: JointProblem, gang: GangDemand, usable: Usable) -> Iterable[Budget]:
    """The budgets that count all pods of the gang."""
    for rule in gang.rules:
        if isinstance(rule, Budget):
            pod_classes = tuple(sorted({role.pod_class for role in gang.roles}))
            if pod_classes not in usable and rule.nodes is not None:
                usable[pod_classes] = _usable(problem, pod_classes)
            if _counts(rule, usable.get(pod_classes, []), gang):
                yield rule


def _usable(problem: JointProblem, pod_classes: Sequence[int]) -> list[NodeName]:
    return [
        node
        for group in problem.classes
        if any(group.eligible[pod_class] for pod_class in pod_classes)
        for node in group.nodes
    ]


def _counts(budget: Budget, usable: Sequence[NodeName], gang: GangDemand) -> bool:
    if budget.nodes is None:
        return True
    inside = sum(node in budget.nodes for node in usable)
    if 0 < inside < len(usable):
        raise Unsupported(f"{gang.name}: {budget.name} counts only some of the nodes it could use")
    return inside > 0
