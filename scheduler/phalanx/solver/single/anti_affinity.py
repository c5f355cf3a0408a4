"""Reformulates anti-affinity as resource amounts and budgets, which every backend knows.

Each domain of the label, or each node, has a number of slots. A pod that both states and matches the rule
takes all of them. Pods that only state it or only match it take one, and there are enough slots for all of
these. Two groups of pods that avoid each other but not themselves have no such form; their rules stay.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.rules.budget import Budget, budgets_in
from phalanx.rules.primitives import UNIQUE_PER_NODE, Apart
from phalanx.rules.problem import NodeClass, PlacementProblem
from phalanx.solver.problem_rules import sole_primitive

_SLOTS: Final = "slots of "
"""Prefix of the resource names."""


class _Slots(Struct, frozen=True):
    """The slots of one rule."""

    rule: Apart
    name: str
    size: int
    """Slots of a domain."""
    takes: tuple[int, ...]
    """Slots that a pod takes, per role."""


def reformulate_anti_affinity(problem: PlacementProblem) -> PlacementProblem:
    """Replace the expressible rules by slots; without one return the problem itself."""
    found = [(rule, sole_primitive(problem, rule, Apart)) for rule in problem.rules if rule.keys]
    apart = [(rule, form) for rule, form in found if form is not None]
    expressible = [rule for rule, form in apart if _is_expressible(form)]
    rules = [rule for rule in problem.rules if rule not in expressible]
    forms = [form for _, form in apart if _is_expressible(form)]
    slots = [_slots(problem, form, f"{_SLOTS}{number}") for number, form in enumerate(forms)]
    classes = list(problem.classes)
    scopes = len(budgets_in(rules))
    for slot in slots:
        budgets = _budgets(problem, slot)
        classes = [_with_slots(problem, slot, group, budgets, scopes) for group in classes]
        rules += budgets.values()
        scopes += len(budgets)
    reformulated = problem
    if expressible:
        roles = tuple(
            replace(role, request=(*role.request, *(slot.takes[index] for slot in slots)))
            for index, role in enumerate(problem.roles)
        )
        resources = (*problem.resources, *(slot.name for slot in slots))
        reformulated = replace(
            problem, resources=resources, roles=roles, classes=tuple(classes), rules=tuple(rules)
        )
    keys = dict.fromkeys(
        key for rule, _ in apart if rule not in expressible for key in rule.keys if key not in problem.keys
    )
    return _with_each_node(reformulated, tuple(keys)) if keys else reformulated


def _with_each_node(problem: PlacementProblem, keys: tuple[str, ...]) -> PlacementProblem:
    """Split classes into nodes and add labels whose value differs on every node."""
    classes = tuple(
        replace(
            group,
            nodes=(node,),
            order=group.order[index : index + 1],
            label_values=(*group.label_values, *(node for _ in keys)),
        )
        for group in problem.classes
        for index, node in enumerate(group.nodes)
    )
    return replace(problem, classes=classes, keys=(*problem.keys, *keys))


def _is_expressible(rule: Apart) -> bool:
    """Whether the pods that state the rule include those that it selects, or the reverse."""
    owners, others = set(rule.owners), set(rule.others)
    return owners <= others or others <= owners


def _slots(problem: PlacementProblem, rule: Apart, name: str) -> _Slots:
    owners, others = set(rule.owners), set(rule.others)
    exclusive, partial = owners & others, owners ^ others
    size = max(1, sum(problem.roles[role].maximum for role in partial)) if exclusive else 0
    takes = tuple(
        size if role in exclusive else int(role in partial and size > 0) for role in range(len(problem.roles))
    )
    return _Slots(rule=rule, name=name, size=size, takes=takes)


def _budgets(problem: PlacementProblem, slots: _Slots) -> dict[str, Budget]:
    """One budget per domain of the label; none where every node is a domain by itself."""
    number = slots.rule.key
    if number == UNIQUE_PER_NODE:
        return {}
    members: dict[str, list[NodeClass]] = {}
    for group in problem.classes:
        if group.label_values[number]:
            members.setdefault(group.label_values[number], []).append(group)
    return {
        label_value: Budget(
            name=slots.rule.name,
            remaining={slots.name: slots.size},
            nodes=frozenset(node for group in groups for node in group.nodes),
        )
        for label_value, groups in sorted(members.items())
    }


def _with_slots(
    problem: PlacementProblem, slots: _Slots, group: NodeClass, budgets: dict[str, Budget], first: int
) -> NodeClass:
    """Add slots to a class; the budget of its domain counts it. Budgets are numbered from `first` on."""
    if not budgets and slots.rule.key == UNIQUE_PER_NODE:
        return replace(group, free=(*group.free, slots.size))
    enough = sum(take * role.maximum for take, role in zip(slots.takes, problem.roles, strict=True))
    label_value = group.label_values[slots.rule.key]
    number = (first + list(budgets).index(label_value),) if label_value else ()
    return replace(group, free=(*group.free, enough), budgets=(*group.budgets, *number))
