"""A joint problem as arrays: the nodes for pods of all classes, and the pods of each gang by its rules."""

from collections.abc import Iterable, Sequence
from typing import assert_never

import numpy as np
from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.rules.budget import Budget, budgets_in
from phalanx.rules.levels import FewestDomains
from phalanx.rules.primitives import (
    Apart,
    AtMost,
    FewGangDomains,
    FewValues,
    GangDomain,
    Near,
    PairPreference,
    Skew,
    SubgroupConstraint,
    SubgroupPreference,
    ValueDomain,
)
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand
from phalanx.rules.traffic_matrix import TrafficMatrix
from phalanx.solver.arrays import IntArray, NodeTable, class_rows, node_table
from phalanx.solver.domains import is_domain
from phalanx.solver.joint.problem import GangDemand, JointProblem, roles_of
from phalanx.solver.problem_rules import primitives_of


class Unsupported(Exception):
    """The problem has a rule or a budget that the joint model does not state."""


class RoleSet(Struct, frozen=True):
    """Roles of a gang that the same rules are about."""

    gang: int
    roles: tuple[int, ...]
    counts: tuple[int, ...]
    """Pods per pod class."""
    depth: int
    """Depth of the deepest level that a rule names: 1 is the widest; 0 where the pods may be anywhere."""
    preferred: int
    """Depth down to which few domains are preferred."""


class DomainRule(Struct, frozen=True):
    """A rule about some role sets of a gang."""

    gang: int
    depth: int
    size: int
    """0: one domain holds all of their pods. Otherwise each domain holds a multiple of it."""
    role_sets: tuple[int, ...]
    """Indices into `JointArrays.role_sets`."""


class SharedBudget(Struct, frozen=True):
    """A budget and the gangs whose pods it counts."""

    budget: Budget
    gangs: tuple[int, ...]
    """Indices; the budget counts all pods of each."""


class JointArrays(Struct, frozen=True, eq=False):
    """A joint problem by nodes and role sets."""

    problem: JointProblem
    table: NodeTable
    """All nodes that some gang could use, for any number of pods of each pod class."""
    role_sets: tuple[RoleSet, ...]
    rules: tuple[DomainRule, ...]
    """The deepest rules of a gang first."""
    limits: tuple[SharedBudget, ...]

    def domains(self, depth: int) -> list[int]:
        """The domains of this depth, by number, without nodes that lack its label."""
        keys = self.table.rows.tree.keys[depth - 1]
        return [number for number, key in enumerate(keys) if is_domain(key)]

    def fits(self, depth: int) -> IntArray:
        """Pods of each class that fit alone, by [domain of this depth, pod class]."""
        rows = self.table.rows
        most = [role.maximum for role in rows.problem.roles]
        fits = np.zeros((len(rows.tree.keys[depth - 1]), len(most)), dtype=np.int64)
        np.add.at(fits, rows.domain[depth - 1], np.minimum(rows.fits, most) * rows.count[:, None])
        return fits

    def outer(self, domain: int, depth: int, outer: int) -> int:
        """The domain of depth `outer` that contains a domain of this depth."""
        for level in range(depth - 1, outer - 1, -1):
            domain = int(self.table.rows.tree.parent[level][domain])
        return domain


def joint_arrays(problem: JointProblem) -> JointArrays:
    """Build the arrays. Raises Unsupported, or TooLarge where amounts would not stay exact."""
    limits = _limits(problem)
    role_sets: list[RoleSet] = []
    rules: list[DomainRule] = []
    for index in range(len(problem.gangs)):
        _divide(problem, index, role_sets, rules)
    wanted = [sum(counts) for counts in zip(*(each.counts for each in role_sets), strict=True)]
    depth = max((max(each.depth, each.preferred) for each in role_sets), default=0)
    return JointArrays(
        problem=problem,
        table=node_table(class_rows(_placing_any(problem, wanted, depth))),
        role_sets=tuple(role_sets),
        rules=tuple(rules),
        limits=limits,
    )


def unsupported_gangs(problem: JointProblem) -> tuple[int, ...]:
    """Return the indices of the gangs that make the engine decline the problem."""
    usable: Usable = {}
    unsupported = []
    for index, gang in enumerate(problem.gangs):
        try:
            _stated(problem, gang)
            list(_counted(problem, gang, usable))
        except Unsupported:
            unsupported.append(index)
    return tuple(unsupported)


def _placing_any(problem: JointProblem, wanted: Sequence[int], depth: int) -> PlacementProblem:
    """The problem of placing up to so many pods of each class. A preference names the levels that matter."""
    free_of_charge = (0,) * len(problem.pod_classes)
    return PlacementProblem(
        resources=problem.resources,
        levels=problem.levels,
        roles=tuple(
            RoleDemand(pod_class.name, pod_class.request, 0, count)
            for pod_class, count in zip(problem.pod_classes, wanted, strict=True)
        ),
        classes=tuple(
            NodeClass(group.path, group.free, group.eligible, free_of_charge, group.nodes)
            for group in problem.classes
        ),
        rules=(FewestDomains("levels", problem.levels[depth - 1]),) if depth else (),
        seed=problem.seed,
    )


# --- role sets and rules ------------------------------------------------------------------------------------


def _divide(problem: JointProblem, index: int, role_sets: list[RoleSet], rules: list[DomainRule]) -> None:
    """Add the role sets of a gang and the rules about them."""
    gang = problem.gangs[index]
    about, preferences = _stated(problem, gang)
    about.sort(key=lambda rule: (-rule[0], rule[1]))
    sets: dict[tuple[int, ...], list[int]] = {}
    for role in range(len(gang.roles)):
        named = [role in roles for *_, roles in about]
        preferred = max((depth for depth, roles in preferences if role in roles), default=0)
        sets.setdefault((preferred, *named), []).append(role)
    first = len(role_sets)
    for (preferred, *_), roles in sets.items():
        depth = max((depth for depth, _, inside in about if roles[0] in inside), default=0)
        counts = _pods_per_class(problem, gang, roles)
        role_sets.append(RoleSet(index, tuple(roles), counts, depth, preferred))
    for depth, size, inside in about:
        members = [first + place for place, roles in enumerate(sets.values()) if roles[0] in inside]
        rules.append(DomainRule(index, depth, size, tuple(members)))


def _stated(
    problem: JointProblem, gang: GangDemand
) -> tuple[list[tuple[int, int, frozenset[int]]], list[tuple[int, frozenset[int]]]]:
    """Depth, size and roles of each rule about domains, and depth and roles of each preference for few.

    Raises Unsupported for every other rule but a budget.
    """
    for rule in gang.rules:
        if rule.keys or rule.is_about_pairs:
            raise Unsupported(f"{gang.name}: a rule of an unknown kind: {type(rule).__name__}")
        name = rule.gang_level or rule.subgroup_level
        if name and name not in problem.levels:
            raise Unsupported(f"{gang.name}: there is no level {name}")
    roles = roles_of(problem, gang)
    alone = PlacementProblem(problem.resources, problem.levels, roles, classes=(), rules=gang.rules)
    everyone = frozenset(range(len(roles)))
    about: list[tuple[int, int, frozenset[int]]] = []
    preferences: list[tuple[int, frozenset[int]]] = []
    for primitive in primitives_of(alone):
        match primitive:
            case GangDomain(level):
                about.append((level + 1, 0, everyone))
            case FewGangDomains(level):
                preferences.append((level + 1, everyone))
            case SubgroupConstraint():
                if primitive.roles:
                    about.append((primitive.level + 1, primitive.size, frozenset(primitive.roles)))
            case SubgroupPreference():
                preferences.append((primitive.depth, frozenset(primitive.roles)))
            case AtMost():
                pass
            case Apart() | Near() | Skew() | ValueDomain() | FewValues() | TrafficMatrix() | PairPreference():
                raise Unsupported(f"{gang.name}: {type(primitive).__name__}")
            case _:
                assert_never(primitive)
    return about, preferences


def _pods_per_class(problem: JointProblem, gang: GangDemand, roles: Iterable[int]) -> tuple[int, ...]:
    counts = [0] * len(problem.pod_classes)
    for role in roles:
        counts[gang.roles[role].pod_class] += gang.roles[role].count
    return tuple(counts)


# --- budgets ------------------------------------------------------------------------------------------------

Usable = dict[tuple[int, ...], list[NodeName]]
"""Per set of pod classes, the nodes that some of them may use."""


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
    for rule in budgets_in(gang.rules):
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
