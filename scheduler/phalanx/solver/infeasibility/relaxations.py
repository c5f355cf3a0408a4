"""Relaxations of a problem: without some rules, limits of capacity or causes of ineligible nodes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.model.resources import NONE, Resources, add
from phalanx.rules.budget import Budget, with_budgets
from phalanx.rules.problem import NodeClass, PlacementProblem
from phalanx.solver.limits import ARRAY_AMOUNT_MAX

ELIGIBILITY: Final = "eligibility"
"""The name of the node eligibility, beside the names of rules."""

CAPACITY: Final = "capacity"
"""The name of the free capacity of nodes."""

Exclusions = Mapping[str, Sequence[tuple[bool, ...]]]
"""By the name of a cause, for each class of the problem and each role, whether the cause allows the nodes."""

Raises = Mapping[str, Resources]
"""By the name of a budget, the amounts that it gets more."""


class NodeCapacity(Struct, frozen=True):
    """More free capacity on one node."""

    node: NodeName
    amounts: Resources


def without_rules(problem: PlacementProblem, names: Collection[str]) -> PlacementProblem:
    """The problem with what remains of the rules of these names."""
    rules = [rule.softened() if rule.name in names else rule for rule in problem.rules]
    return structs.replace(problem, rules=tuple(rule for rule in rules if rule is not None))


def with_raised_budgets(problem: PlacementProblem, raised: Raises) -> PlacementProblem:
    """Give the budgets of these names so much more of the resources that they limit."""
    return structs.replace(problem, rules=with_budgets(problem.rules, partial(_raised, raised)))


def _raised(raised: Raises, budget: Budget) -> Budget:
    amounts = raised.get(budget.name, NONE)
    more = {name: amount for name, amount in amounts.items() if name in budget.remaining}
    return structs.replace(budget, remaining=add(budget.remaining, more))


def allowed_by(problem: PlacementProblem, causes: Iterable[Sequence[tuple[bool, ...]]]) -> PlacementProblem:
    """A role may use the nodes that all of these causes allow."""
    parts = list(causes)
    everyone = (True,) * len(problem.roles)
    classes = []
    for index, group in enumerate(problem.classes):
        allowed = [all(each) for each in zip(everyone, *(part[index] for part in parts), strict=True)]
        classes.append(structs.replace(group, eligible=tuple(allowed)))
    return structs.replace(problem, classes=tuple(classes))


def without_capacity(problem: PlacementProblem) -> PlacementProblem:
    """Every node has capacity for all pods together, or as much as sums may hold."""
    enough = tuple(
        min(ARRAY_AMOUNT_MAX, sum(role.request[resource] * role.maximum for role in problem.roles))
        for resource in range(len(problem.resources))
    )
    classes = tuple(structs.replace(group, free=enough) for group in problem.classes)
    return structs.replace(problem, classes=classes)


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
