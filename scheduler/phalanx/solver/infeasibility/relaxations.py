"""Changes to a problem that could make it fit, as data, and what each change does to the problem."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct, structs

from phalanx.limits import ARRAY_AMOUNT_MAX
from phalanx.model.names import NodeName
from phalanx.model.resources import NONE, Resources, add
from phalanx.model.rules import (
    AffinityRule,
    Budget,
    FewestDomains,
    Rule,
    SubgroupDomain,
    SubgroupFewest,
    SubgroupSegments,
)
from phalanx.solver.problem import NodeClass, PlacementProblem

ELIGIBILITY: Final = "eligibility"
"""The name, beside those of a problem's rules, of what keeps roles off nodes."""

CAPACITY: Final = "capacity"
"""The name of what nodes have free."""

NEW_NODE: Final = NodeName("")
"""Stands for a node that is not there yet."""


_NEW_LABEL_VALUE: Final = "?"
"""What a node that is not there yet has for a label: something else than all others."""


class RelaxationKind(StrEnum):
    """What is changed."""

    WIDEN_LEVEL = "widen-level"
    PREFER_LEVEL = "prefer-level"
    RAISE_BUDGET = "raise-budget"
    DROP_ELIGIBILITY = "drop-eligibility"
    LOWER_MINIMUM = "lower-minimum"
    ADD_CAPACITY = "add-capacity"


class NodeCapacity(Struct, frozen=True):
    """More room on one node; NEW_NODE for a node that is not there yet."""

    node: NodeName
    amounts: Resources


class Relaxation(Struct, frozen=True):
    """One change. Which fields count depends on the kind:

    widen-level: `rule` is required at the wider `level`. prefer-level: `rule` is only a wish. raise-budget:
    `rule` has `amounts` more. drop-eligibility: every role may use every node. lower-minimum: `minimums` per
    role. add-capacity: `capacity` on nodes, `amounts` in total, all in `domain` of `level` (empty for anywhere);
    where `pods` is not 0, any nodes there that take so many more pods will do, and less room will not.
    """

    kind: RelaxationKind
    rule: str = ""
    level: str = ""
    amounts: Resources = NONE
    minimums: tuple[int, ...] = ()
    domain: tuple[str, ...] = ()
    capacity: tuple[NodeCapacity, ...] = ()
    pods: int = 0

    @property
    def needs_new_node(self) -> bool:
        """Whether some of the room is on a node that is not there yet."""
        return any(each.node == NEW_NODE for each in self.capacity)


def apply_relaxation(problem: PlacementProblem, change: Relaxation) -> PlacementProblem:
    """The problem after the change."""
    match change.kind:
        case RelaxationKind.WIDEN_LEVEL | RelaxationKind.PREFER_LEVEL | RelaxationKind.RAISE_BUDGET:
            return with_rules(problem, {change.rule: partial(_changed, change)})
        case RelaxationKind.DROP_ELIGIBILITY:
            return without_eligibility(problem)
        case RelaxationKind.LOWER_MINIMUM:
            return with_minimums(problem, change.minimums)
        case RelaxationKind.ADD_CAPACITY:
            return _with_capacity(problem, change)


def with_rules(
    problem: PlacementProblem, changes: Mapping[str, Callable[[Rule], Rule | None]]
) -> PlacementProblem:
    """Rules of these names are replaced or dropped; budgets stay, since classes refer to them by order."""
    rules = [changes[rule.name](rule) if rule.name in changes else rule for rule in problem.rules]
    return structs.replace(problem, rules=tuple(rule for rule in rules if rule is not None))


def without_eligibility(problem: PlacementProblem) -> PlacementProblem:
    """Every role may use every node."""
    everyone = (True,) * len(problem.roles)
    classes = tuple(structs.replace(group, eligible=everyone) for group in problem.classes)
    return structs.replace(problem, classes=classes)


def without_capacity(problem: PlacementProblem) -> PlacementProblem:
    """Every node has room for all pods together, or as much of it as sums may hold."""
    enough = tuple(
        min(ARRAY_AMOUNT_MAX, sum(role.request[resource] * role.maximum for role in problem.roles))
        for resource in range(len(problem.resources))
    )
    classes = tuple(structs.replace(group, free=enough) for group in problem.classes)
    return structs.replace(problem, classes=classes)


def with_minimums(problem: PlacementProblem, minimums: Sequence[int]) -> PlacementProblem:
    """Other minimums; maximums stay."""
    pairs = zip(problem.roles, minimums, strict=True)
    roles = tuple(structs.replace(role, minimum=least) for role, least in pairs)
    return structs.replace(problem, roles=roles)


def softened(rule: Rule) -> Rule | None:
    """What is left of a rule that is dropped: a budget without limits, a wish, or nothing."""
    if isinstance(rule, Budget):
        return structs.replace(rule, remaining=NONE)
    if isinstance(rule, SubgroupDomain):
        return SubgroupFewest(name=rule.name, subgroup=rule.subgroup, level=rule.level)
    if isinstance(rule, SubgroupSegments | AffinityRule):
        return None
    return FewestDomains(name=rule.name, level=rule.level)


def _changed(change: Relaxation, rule: Rule) -> Rule | None:
    if isinstance(rule, Budget):
        more = {name: amount for name, amount in change.amounts.items() if name in rule.remaining}
        return structs.replace(rule, remaining=add(rule.remaining, more))
    if change.kind == RelaxationKind.PREFER_LEVEL or isinstance(rule, AffinityRule):
        return softened(rule)
    return structs.replace(rule, level=change.level)


def _with_capacity(problem: PlacementProblem, change: Relaxation) -> PlacementProblem:
    more = {capacity.node: capacity.amounts for capacity in change.capacity}
    roomier = with_free(problem, more)
    if NEW_NODE not in more:
        return roomier
    new = NodeClass(
        path=change.domain,
        free=tuple(more[NEW_NODE].get(name, 0) for name in problem.resources),
        eligible=(True,) * len(problem.roles),
        cost=(0,) * len(problem.roles),
        nodes=(NEW_NODE,),
        label_values=(_NEW_LABEL_VALUE,) * len(problem.keys),
    )
    return structs.replace(problem, classes=(*roomier.classes, new))


def with_free(problem: PlacementProblem, more: Mapping[NodeName, Resources]) -> PlacementProblem:
    """So much more is free on these nodes, less where an amount is negative."""
    classes = tuple(part for group in problem.classes for part in _split_class(problem, group, more))
    return structs.replace(problem, classes=classes)


def _split_class(
    problem: PlacementProblem, group: NodeClass, more: Mapping[NodeName, Resources]
) -> list[NodeClass]:
    """The class, with the nodes whose free amounts change apart from the others."""
    same = tuple(node for node in group.nodes if node not in more)
    parts = [structs.replace(group, nodes=same)] if same else []
    for node in group.nodes:
        if node in more:
            amounts = zip(problem.resources, group.free, strict=True)
            free = tuple(max(0, amount + more[node].get(name, 0)) for name, amount in amounts)
            parts.append(structs.replace(group, free=free, nodes=(node,)))
    return parts
