"""Relaxations of a problem, as data, and how each changes the problem."""

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
"""The name of the node eligibility, beside the names of rules."""

CAPACITY: Final = "capacity"
"""The name of the free capacity of nodes."""

NEW_NODE: Final = NodeName("")
"""Stands for a node that does not exist."""


_NEW_LABEL_VALUE: Final = "?"
"""Label value of a node that does not exist: different from all others."""


class RelaxationKind(StrEnum):
    """What is changed."""

    WIDEN_LEVEL = "widen-level"
    PREFER_LEVEL = "prefer-level"
    RAISE_BUDGET = "raise-budget"
    DROP_ELIGIBILITY = "drop-eligibility"
    LOWER_MINIMUM = "lower-minimum"
    ADD_CAPACITY = "add-capacity"


class NodeCapacity(Struct, frozen=True):
    """More free capacity on one node, or on NEW_NODE."""

    node: NodeName
    amounts: Resources


class Relaxation(Struct, frozen=True):
    """One change. Which fields apply depends on the kind.

    - widen-level: `rule` is required at the wider `level`.
    - prefer-level: `rule` becomes a preference.
    - raise-budget: `rule` gets `amounts` more.
    - drop-eligibility: every role may use every node.
    - lower-minimum: `minimums` per role.
    - add-capacity: `capacity` on nodes, `amounts` in total, all in `domain` of `level` (empty: anywhere).
    """

    kind: RelaxationKind
    rule: str = ""
    level: str = ""
    amounts: Resources = NONE
    minimums: tuple[int, ...] = ()
    domain: tuple[str, ...] = ()
    capacity: tuple[NodeCapacity, ...] = ()
    pods: int = 0
    """For add-capacity, if not 0: any nodes there that take so many more pods suffice, and no less does."""

    @property
    def needs_new_node(self) -> bool:
        """Whether some of the capacity is on a new node."""
        return any(node_capacity.node == NEW_NODE for node_capacity in self.capacity)


def apply_relaxation(problem: PlacementProblem, change: Relaxation) -> PlacementProblem:
    """Return the changed problem. It must have no tightness term: the change may move or add capacity."""
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
    """Replace or drop rules by name; budgets are kept, since classes refer to them by order."""
    rules = [changes[rule.name](rule) if rule.name in changes else rule for rule in problem.rules]
    return structs.replace(problem, rules=tuple(rule for rule in rules if rule is not None))


def without_eligibility(problem: PlacementProblem) -> PlacementProblem:
    """Every role may use every node."""
    everyone = (True,) * len(problem.roles)
    classes = tuple(structs.replace(group, eligible=everyone) for group in problem.classes)
    return structs.replace(problem, classes=classes)


def without_capacity(problem: PlacementProblem) -> PlacementProblem:
    """Every node has capacity for all pods together, or as much as sums may hold."""
    enough = tuple(
        min(ARRAY_AMOUNT_MAX, sum(role.request[resource] * role.maximum for role in problem.roles))
        for resource in range(len(problem.resources))
    )
    classes = tuple(structs.replace(group, free=enough) for group in problem.classes)
    return structs.replace(problem, classes=classes)


def with_minimums(problem: PlacementProblem, minimums: Sequence[int]) -> PlacementProblem:
    """Replace the minimums; maximums stay."""
    pairs = zip(problem.roles, minimums, strict=True)
    roles = tuple(structs.replace(role, minimum=least) for role, least in pairs)
    return structs.replace(problem, roles=roles)


def softened(rule: Rule) -> Rule | None:
    """What remains of a dropped rule: a budget without limits, a preference, or nothing."""
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
    larger = with_free(problem, more)
    if NEW_NODE not in more:
        return larger
    new = NodeClass(
        path=change.domain,
        free=tuple(more[NEW_NODE].get(name, 0) for name in problem.resources),
        eligible=(True,) * len(problem.roles),
        cost=(0,) * len(problem.roles),
        nodes=(NEW_NODE,),
        label_values=(_NEW_LABEL_VALUE,) * len(problem.keys),
    )
    return structs.replace(problem, classes=(*larger.classes, new))


def with_free(problem: PlacementProblem, more: Mapping[NodeName, Resources]) -> PlacementProblem:
    """Add free amounts on these nodes; negative ones are subtracted."""
    classes = tuple(part for group in problem.classes for part in _split_class(problem, group, more))
    return structs.replace(problem, classes=classes)


def _split_class(
    problem: PlacementProblem, group: NodeClass, more: Mapping[NodeName, Resources]
) -> list[NodeClass]:
    """Separate the nodes whose free amounts change from the others."""
    same = tuple(node for node in group.nodes if node not in more)
    parts = [structs.replace(group, nodes=same)] if same else []
    for node in group.nodes:
        if node in more:
            amounts = zip(problem.resources, group.free, strict=True)
            free = tuple(max(0, amount + more[node].get(name, 0)) for name, amount in amounts)
            parts.append(structs.replace(group, free=free, nodes=(node,)))
    return parts
