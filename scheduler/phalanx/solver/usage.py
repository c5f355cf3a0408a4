"""What a placement uses, per node and per budget."""

from collections.abc import Sequence

from phalanx.model.names import NodeName
from phalanx.model.resources import Resources, add, scale
from phalanx.model.rules import Budget
from phalanx.solver.problem import Assignment, PlacementProblem


def node_use(problem: PlacementProblem, assignments: Sequence[Assignment]) -> dict[NodeName, Resources]:
    """Per node with pods, what they request."""
    used: dict[NodeName, Resources] = {}
    for one in assignments:
        request = dict(zip(problem.resources, problem.roles[one.role].request, strict=True))
        used[one.node] = add(used.get(one.node, {}), scale(request, one.count))
    return used


def budget_use(problem: PlacementProblem, budget: Budget, assignments: Sequence[Assignment]) -> Resources:
    """What the pods on the nodes that the budget counts request."""
    total: Resources = {}
    for node, amounts in node_use(problem, assignments).items():
        if budget.nodes is None or node in budget.nodes:
            total = add(total, amounts)
    return total
