"""Dynamic program for one role on a tree of domains, exact.

Pods of one role are interchangeable, so a domain is described by the number of pods that it holds. Applies
where each budget counts all nodes or none. Among choices of equally few domains the cost decides; it is
proven where all of them were compared or nothing cheaper exists. Then tightness decides.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from phalanx.rules.problem import Assignment, PlacementProblem
from phalanx.solver.answer import Answer, Unplaceable
from phalanx.solver.arrays import ClassRows, IntArray, class_rows
from phalanx.solver.objective import Scorer, certify
from phalanx.solver.problem_rules import pods_allowed
from phalanx.solver.single.fewest_domains import DomainChoice, Rank, best_choice, fewest, opened_capacity
from phalanx.solver.single.tree_knapsack import Forest, forest_of, with_capacity

BY = "tree-dp"


class _TreeProblem(Struct, frozen=True, eq=False):
    """The only role on the tree."""

    rows: ClassRows
    held: IntArray
    """Pods that each row holds."""
    forest: Forest
    demand: int
    """Pods to place."""


def place_on_tree(problem: PlacementProblem) -> Answer | None:
    """Return the answer; None where this backend does not apply."""
    if len(problem.roles) != 1:
        return None
    rows = class_rows(problem)
    most = _most_pods(rows)
    rules = rows.rules
    if (
        rules.depth == 0
        or most is None
        or rules.subgroup_constraints
        or rules.subgroup_preferences
        or rules.compares_values
        or rules.few_values
        or rules.traffic is not None
        or rules.pairs
    ):
        return None
    tree = _tree_problem(rows, most)
    if tree.demand < problem.roles[0].minimum:
        return Unplaceable(proven=True, by=BY)
    if tree.demand == 0:
        return certify(Scorer(problem), (), bound=None, by=BY)
    choice = _choose(tree)
    assigned = _assigned(tree, choice.domains)
    scorer = Scorer(problem, {assignment.node: rows.classes[row] for row, assignment in assigned})
    return certify(
        scorer, [assignment for _, assignment in assigned], bound=_bound(tree, choice, scorer), by=BY
    )


def _most_pods(rows: ClassRows) -> int | None:
    """The pods that the maximum and the budgets allow; None when a budget counts only some nodes."""
    role = rows.problem.roles[0]
    most = role.maximum
    for index, budget in enumerate(rows.rules.budgets):
        counted = [index in scope for scope in rows.budgets]
        if any(counted):
            most = min(most, pods_allowed(rows.problem, budget, role))
        if any(counted) and not all(counted):
            return None
    return most


def _tree_problem(rows: ClassRows, most: int) -> _TreeProblem:
    held = rows.fits[:, 0] * rows.count
    forest = with_capacity(forest_of(rows, held), rows.domain_capacity)
    required = rows.rules.required
    capacity = held.sum() if required is None else forest.held[required].max(initial=0)
    return _TreeProblem(rows=rows, held=held, forest=forest, demand=min(most, int(capacity)))


def _choose(tree: _TreeProblem) -> DomainChoice:
    """The best choice over all domains of the required level; its cost is that of the levels below."""
    rank = _cost_rank(tree) if np.ptp(tree.rows.cost[:, 0]) else None
    return best_choice(tree.forest, list(_choices(tree, rank)), rank)


def _choices(tree: _TreeProblem, rank: Rank | None) -> Iterator[DomainChoice]:
    forest, required = tree.forest, tree.rows.rules.required
    if required is None:
        starts = [(0, np.arange(len(forest.held[0]), dtype=np.int64))]
    else:
        enough = np.flatnonzero(forest.held[required] >= tree.demand)
        if required == forest.last:
            capacities = np.where(forest.open[required][enough], 0, forest.capacity_of(enough))
            candidates = enough if rank else enough[[np.argmin(capacities)]]
            least = int(capacities.min())
            yield from (
                DomainChoice((), (least,), candidates[[index]], compared=True)
                for index in range(len(candidates))
            )
            return
        starts = [(required + 1, forest.inner[required][domain]) for domain in enough.tolist()]
    for level, domains in starts:
        choice = fewest(forest, domains, tree.demand, level=level, rank=rank)
        if choice is not None:
            yield choice


def _cost_rank(tree: _TreeProblem) -> Rank:
    def rank(domains: IntArray) -> tuple[int, ...]:
        return (_cheapest(tree, _within(tree, domains)), opened_capacity(tree.forest, domains))

    return rank


def _within(tree: _TreeProblem, domains: IntArray) -> IntArray:
    """The rows inside these deepest-level domains."""
    return np.flatnonzero(np.isin(tree.rows.domain[tree.forest.last], domains))


def _taken(tree: _TreeProblem, order: IntArray) -> IntArray:
    """Pods that each of these rows takes when they meet the demand in this order."""
    held = tree.held[order]
    taken: IntArray = np.clip(tree.demand - (np.cumsum(held) - held), 0, held)
    return taken


def _cheapest(tree: _TreeProblem, within: IntArray) -> int:
    """The least cost for which these rows meet the demand."""
    cost = tree.rows.cost[within, 0]
    order = np.argsort(cost, kind="stable")
    return int((cost[order] * _taken(tree, within[order])).sum())


def _assigned(tree: _TreeProblem, domains: IntArray) -> list[tuple[int, Assignment]]:
    """Rows and assignments in these domains: the cheapest, then the fullest domain and node first."""
    rows, last = tree.rows, tree.forest.last
    within = _within(tree, domains)
    fits = rows.fits[within, 0]
    order = np.lexsort((fits, tree.forest.held[last][rows.domain[last][within]], rows.cost[within, 0]))
    assignments = []
    for row, taken, fit in zip(
        within[order].tolist(), _taken(tree, within[order]).tolist(), fits[order].tolist(), strict=True
    ):
        for node in rows.nodes[row][: -(-taken // fit)]:
            assignments.append((row, Assignment(role=0, node=node, count=min(fit, taken))))
            taken -= fit
    return assignments


def _bound(tree: _TreeProblem, choice: DomainChoice, scorer: Scorer) -> tuple[int, ...]:
    """The bound per term; a required level opens one domain unless the gang already runs there."""
    outer = [0 if tree.rows.problem.anchors else 1] * tree.rows.rules.required_depth
    compared = _within(tree, choice.domains) if choice.compared else np.arange(len(tree.held))
    cost = _cheapest(tree, compared)
    *opened, capacity = choice.bound
    if choice.compared:
        capacity = opened_capacity(tree.forest, choice.domains)
    return scorer.values(placed=tree.demand, opened=[*outer, *opened], cost=cost, tightness=capacity)
