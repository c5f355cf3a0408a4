"""Pods that must be apart as amounts and budgets, which every backend knows.

Of a domain, or of a node where each is one by itself, there is one seat. Pods that avoid others and are
avoided take all of it; those that are only avoided, or only avoid, take a part so small that all of them fit
together. Two kinds of pods that avoid each other and not their own cannot be said so: such rules
stay.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.rules import Budget, PodAntiAffinityRule, Rule
from phalanx.solver.problem import NodeClass, PlacementProblem
from phalanx.solver.problem_rules import roles_with_shapes

_SLOTS: Final = "seats of "
"""Begins the names of the amounts."""


class _Slots(Struct, frozen=True):
    """What a pod of each role takes of the `size` parts of a seat."""

    rule: PodAntiAffinityRule
    name: str
    size: int
    takes: tuple[int, ...]


def reformulate_anti_affinity(problem: PlacementProblem) -> PlacementProblem:
    """The same problem with seats in place of the rules that can be said so; itself without such a rule."""
    apart = [rule for rule in problem.rules if isinstance(rule, PodAntiAffinityRule)]
    expressible = [rule for rule in apart if _is_expressible(problem, rule)]
    rules: list[Rule] = [rule for rule in problem.rules if rule not in expressible]
    slots = [_slots(problem, rule, f"{_SLOTS}{number}") for number, rule in enumerate(expressible)]
    classes = list(problem.classes)
    scopes = sum(isinstance(rule, Budget) for rule in rules)
    for each in slots:
        budgets = _budgets(problem, each)
        classes = [_with_slots(problem, each, group, budgets, scopes) for group in classes]
        rules += budgets.values()
        scopes += len(budgets)
    reformulated = problem
    if expressible:
        roles = tuple(
            replace(role, request=(*role.request, *(each.takes[index] for each in slots)))
            for index, role in enumerate(problem.roles)
        )
        resources = (*problem.resources, *(each.name for each in slots))
        reformulated = replace(
            problem, resources=resources, roles=roles, classes=tuple(classes), rules=tuple(rules)
        )
    keys = dict.fromkeys(
        rule.key for rule in apart if rule not in expressible and rule.key not in problem.keys
    )
    return _with_each_node(reformulated, tuple(keys)) if keys else reformulated


def _with_each_node(problem: PlacementProblem, keys: tuple[str, ...]) -> PlacementProblem:
    """The same, with labels that have another value on every node among its keys.

    Nodes that are left out are so with the first node of their class.
    """
    classes = tuple(
        replace(
            group,
            nodes=(node,),
            order=group.order[index : index + 1],
            label_values=(*group.label_values, *(node for _ in keys)),
            left_out=0 if index else group.left_out,
        )
        for group in problem.classes
        for index, node in enumerate(group.nodes)
    )
    return replace(problem, classes=classes, keys=(*problem.keys, *keys))


def _is_expressible(problem: PlacementProblem, rule: PodAntiAffinityRule) -> bool:
    """Whether all that avoid are avoided too, or the reverse."""
    owners, others = (
        set(roles_with_shapes(problem, rule.owners)),
        set(roles_with_shapes(problem, rule.others)),
    )
    return owners <= others or others <= owners


def _slots(problem: PlacementProblem, rule: PodAntiAffinityRule, name: str) -> _Slots:
    owners, others = (
        set(roles_with_shapes(problem, rule.owners)),
        set(roles_with_shapes(problem, rule.others)),
    )
    exclusive, partial = owners & others, owners ^ others
    size = max(1, sum(problem.roles[role].maximum for role in partial)) if exclusive else 0
    takes = tuple(
        size if role in exclusive else int(role in partial and size > 0) for role in range(len(problem.roles))
    )
    return _Slots(rule=rule, name=name, size=size, takes=takes)


def _budgets(problem: PlacementProblem, slots: _Slots) -> dict[str, Budget]:
    """One for each domain of a label that nodes share; none where every node is one by itself."""
    key = slots.rule.key
    if key not in problem.keys:
        return {}
    number = problem.keys.index(key)
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
    """The class with parts of seats; the budget of its domain counts it, numbered from `first` on."""
    if not budgets and slots.rule.key not in problem.keys:
        return replace(group, free=(*group.free, slots.size))
    enough = sum(take * role.maximum for take, role in zip(slots.takes, problem.roles, strict=True))
    label_value = group.label_values[problem.keys.index(slots.rule.key)]
    number = (first + list(budgets).index(label_value),) if label_value else ()
    return replace(group, free=(*group.free, enough), budgets=(*group.budgets, *number))
