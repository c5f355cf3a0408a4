"""Closed form for one role without topology: the cheapest, then the fullest nodes are taken.

Also optimal under budgets whose node sets do not overlap: the sets of pods that fit are then independent sets
of a matroid, on which the greedy algorithm is optimal (Edmonds, 1971). O(nodes log nodes).
"""

from collections.abc import Sequence

from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem, RoleDemand
from phalanx.solver.answer import Answer, Unplaceable
from phalanx.solver.objective import Scorer, certify, classes_by_node
from phalanx.solver.problem_rules import pods_allowed, read_rules

BY = "closed-form"

Scope = tuple[int, ...]


def place_closed(problem: PlacementProblem) -> Answer | None:
    """Return the proven answer; None where this form does not apply."""
    rules = read_rules(problem)
    if len(problem.roles) != 1 or rules.depth or rules.traffic is not None:
        return None
    if rules.subgroup_constraints or rules.compares_values or rules.pairs or rules.few_values:
        return None
    role = problem.roles[0]
    allowed = [pods_allowed(problem, budget, role) for budget in rules.budgets]
    usable = [group for group in problem.classes if group.eligible[0]]
    scopes = [rules.budgets_of(group) for group in usable]
    distinct = list(dict.fromkeys(scopes))
    everywhere = [index for index in range(len(allowed)) if all(index in scope for scope in distinct)]
    if _overlap(distinct, everywhere):
        return None
    most = min([role.maximum, *(allowed[index] for index in everywhere)])
    left = {scope: min([most, *(allowed[index] for index in scope)]) for scope in distinct}
    assignments = _take(role, usable, scopes, left, most)
    if sum(assignment.count for assignment in assignments) < role.minimum:
        return Unplaceable(proven=True, by=BY)
    return certify(Scorer(problem, classes_by_node(problem, assignments)), assignments, bound=None, by=BY)


def _overlap(scopes: Sequence[Scope], everywhere: Sequence[int]) -> bool:
    """Whether some budget counts nodes of two different scopes, but not of all."""
    local = [index for scope in scopes for index in scope if index not in everywhere]
    return len(local) != len(set(local))


def _take(
    role: RoleDemand, usable: Sequence[NodeClass], scopes: Sequence[Scope], left: dict[Scope, int], most: int
) -> list[Assignment]:
    """Take at most `most` pods, and at most `left` per scope, cheapest and then fullest nodes first."""
    asked = [(index, need) for index, need in enumerate(role.request) if need > 0]
    fits = [min([group.free[index] // need for index, need in asked] or [most]) for group in usable]
    order = sorted(range(len(usable)), key=lambda index: (usable[index].cost[0], fits[index]))
    taken = []
    for index in order:
        for node in usable[index].nodes:
            count = min(fits[index], most, left[scopes[index]])
            if count == 0:
                break
            most -= count
            left[scopes[index]] -= count
            taken.append(Assignment(role=0, node=node, count=count))
    return taken
