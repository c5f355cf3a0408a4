"""Symmetry between components and between gangs.

A Benders cut about some components holds for all that are at least as hard to place. Of equal gangs a plan
admits the earlier ones.
"""

from collections.abc import Sequence
from itertools import pairwise

from phalanx.model.rules import Budget
from phalanx.solver.joint.arrays import JointArrays, Plan, Share

Form = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, int, tuple[int, ...]], ...]]
"""Pods by [role set, pod class] and the constraints on the role sets; empty without constraints."""

Difficulty = tuple[tuple[int, ...], int, Form]
"""Pods per pod class, the required depth, and the form."""


def groups_at_least_as_hard(
    arrays: JointArrays, shares: Sequence[Share]
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return groups of components with counts, for a Benders cut about these shares.

    A region that holds as many components of each group holds a set that is at least as hard to place. Where
    the components form a chain by difficulty, a group contains all that are at least as hard as one of them;
    otherwise it contains the equal ones.
    """
    difficulties = [difficulty(arrays, component) for component in range(len(arrays.components))]
    members = [difficulties[share.component] for share in shares]
    ordered = sorted(set(members), key=lambda each: (sum(each[0]), each), reverse=True)
    is_chain = all(_is_at_least_as_hard(hard, easy) for hard, easy in pairwise(ordered))
    groups = []
    for place, rule in enumerate(ordered):
        counted = ordered[: place + 1] if is_chain else [rule]
        alike = tuple(
            component
            for component, other in enumerate(difficulties)
            if arrays.is_confined(component)
            and (_is_at_least_as_hard(other, rule) if is_chain else other == rule)
        )
        groups.append((alike, sum(member in counted for member in members)))
    return tuple(groups)


def difficulty(arrays: JointArrays, component: int) -> Difficulty:
    """Return a value that is equal for components which are equally hard to place."""
    own = arrays.components[component]
    role_sets = tuple(
        arrays.counts(component, [role_set]) for role_set in range(len(own.role_sets)) if own.constraints
    )
    constraints = tuple(
        (constraint.depth, constraint.size, constraint.role_sets) for constraint in own.constraints
    )
    return tuple(arrays.wanted[component].tolist()), own.required, (role_sets, constraints)


def _is_at_least_as_hard(hard: Difficulty, easy: Difficulty) -> bool:
    """Components with constraints compare only with equal ones."""
    if hard[1] < easy[1]:
        return False
    _, constraints = easy[2]
    return (
        easy[0] == hard[0] and easy[2] == hard[2] if constraints else all(map(int.__ge__, hard[0], easy[0]))
    )


def earliest_first(arrays: JointArrays, plan: Plan) -> Plan:
    """Exchange equal gangs in a plan so that the first in queue order are admitted."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for gang in range(len(arrays.problem.gangs)):
        alike.setdefault(_key(arrays, gang), []).append(gang)
    names: dict[int, int] = {}
    for gangs in alike.values():
        names.update(zip((gang for gang in gangs if gang in plan.admitted), gangs, strict=False))
    components = {
        old: new
        for gang, named in names.items()
        for old, new in zip(arrays.components_of[gang], arrays.components_of[named], strict=True)
    }
    shares = (
        sorted(
            (Share(components[share.component], share.counts) for share in region),
            key=lambda share: share.component,
        )
        for region in plan.shares
    )
    return Plan(tuple(sorted(names.values())), plan.value, tuple(map(tuple, shares)))


def _key(arrays: JointArrays, gang: int) -> tuple[object, ...]:
    demand = arrays.problem.gangs[gang]
    budgets = tuple(sorted(rule.name for rule in demand.rules if isinstance(rule, Budget)))
    components = tuple(
        (difficulty(arrays, component), arrays.components[component].preferred)
        for component in arrays.components_of[gang]
    )
    return (components, budgets, demand.value, demand.must_admit)
