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
from phalanx.solver.problem_rules import roles_of_shapes

_SEATS: Final = "seats of "
"""Begins the names of the amounts."""


class _Seats(Struct, frozen=True):
    """What a pod of each role takes of the `size` parts of a seat."""

    rule: PodAntiAffinityRule
    name: str
    size: int
    takes: tuple[int, ...]


def with_seats(problem: PlacementProblem) -> PlacementProblem:
    """The same problem with seats in place of the rules that can be said so; itself without such a rule."""
    apart = [rule for rule in problem.rules if isinstance(rule, PodAntiAffinityRule)]
    said = [rule for rule in apart if _is_of_one_kind(problem, rule)]
    rules: list[Rule] = [rule for rule in problem.rules if rule not in said]
    seats = [_seats(problem, rule, f"{_SEATS}{number}") for number, rule in enumerate(said)]
    classes = list(problem.classes)
    scopes = sum(isinstance(rule, Budget) for rule in rules)
    for each in seats:
        budgets = _budgets(problem, each)
        classes = [_seated(problem, each, group, budgets, scopes) for group in classes]
        rules += budgets.values()
        scopes += len(budgets)
    seated = problem
    if said:
        roles = tuple(
            replace(role, request=(*role.request, *(each.takes[index] for each in seats)))
            for index, role in enumerate(problem.roles)
        )
        resources = (*problem.resources, *(each.name for each in seats))
        seated = replace(
            problem, resources=resources, roles=roles, classes=tuple(classes), rules=tuple(rules)
        )
    keys = dict.fromkeys(rule.key for rule in apart if rule not in said and rule.key not in problem.keys)
    return _with_each_node(seated, tuple(keys)) if keys else seated


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


def _is_of_one_kind(problem: PlacementProblem, rule: PodAntiAffinityRule) -> bool:
    """Whether all that avoid are avoided too, or the reverse."""
    owners, others = set(roles_of_shapes(problem, rule.owners)), set(roles_of_shapes(problem, rule.others))
    return owners <= others or others <= owners


def _seats(problem: PlacementProblem, rule: PodAntiAffinityRule, name: str) -> _Seats:
    owners, others = set(roles_of_shapes(problem, rule.owners)), set(roles_of_shapes(problem, rule.others))
    alone, some = owners & others, owners ^ others
    size = max(1, sum(problem.roles[role].maximum for role in some)) if alone else 0
    takes = tuple(
        size if role in alone else int(role in some and size > 0) for role in range(len(problem.roles))
    )
    return _Seats(rule=rule, name=name, size=size, takes=takes)


def _budgets(problem: PlacementProblem, seats: _Seats) -> dict[str, Budget]:
    """One for each domain of a label that nodes share; none where every node is one by itself."""
    key = seats.rule.key
    if key not in problem.keys:
        return {}
    number = problem.keys.index(key)
    members: dict[str, list[NodeClass]] = {}
    for group in problem.classes:
        if group.label_values[number]:
            members.setdefault(group.label_values[number], []).append(group)
    return {
        spot: Budget(
            name=seats.rule.name,
            remaining={seats.name: seats.size},
            nodes=frozenset(node for group in groups for node in group.nodes),
        )
        for spot, groups in sorted(members.items())
    }


def _seated(
    problem: PlacementProblem, seats: _Seats, group: NodeClass, budgets: dict[str, Budget], first: int
) -> NodeClass:
    """The class with parts of seats; the budget of its domain counts it, numbered from `first` on."""
    if not budgets and seats.rule.key not in problem.keys:
        return replace(group, free=(*group.free, seats.size))
    enough = sum(take * role.maximum for take, role in zip(seats.takes, problem.roles, strict=True))
    spot = group.label_values[problem.keys.index(seats.rule.key)]
    number = (first + list(budgets).index(spot),) if spot else ()
    return replace(group, free=(*group.free, enough), budgets=(*group.budgets, *number))
