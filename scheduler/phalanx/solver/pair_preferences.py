"""Preferences between pods of one gang, as matrices over the roles of a problem.

Pods of two roles that share a domain are worth the weights of their terms for each other, in both directions.
The cost of a placement is what all pods would be worth together, if every pair that draws were near and no
other one, without what they are worth. So it is never negative.
"""

from collections.abc import Sequence

from msgspec import Struct

from phalanx.rules.affinity import PodPairs
from phalanx.rules.problem import NodeClass, PlacementProblem
from phalanx.solver.traffic_matrix import TrafficMatrix

UNIQUE_PER_NODE = -1
"""Stands for the index of a label whose value differs on every node."""


class PairPreference(Struct, frozen=True):
    key: int
    """Index of the label, or UNIQUE_PER_NODE."""
    matrix: TrafficMatrix
    """`weights[a][b]` is the weight of a pod of role a for one of role b; the roles are those of the
    problem."""
    most: int
    """What all pods are worth if every pair that draws is near and no other one is."""

    def cost(self, counts: Sequence[Sequence[int]]) -> int:
        """The cost of so many pods per domain and role, exactly."""
        return self.most - sum(map(self.matrix.inside, counts))

    def value_of(self, group: NodeClass, node: str) -> str:
        """What nodes that are near each other have in common; empty for a node that is near none."""
        return node if self.key == UNIQUE_PER_NODE else group.label_values[self.key]


def preference_of(problem: PlacementProblem, rule: PodPairs) -> PairPreference | None:
    """The preference of this rule; None if no two pods of the problem prefer or avoid each other."""
    roles = range(len(problem.roles))
    weights = [[0 for _ in roles] for _ in roles]
    for each in rule.weights:
        for owner in _with_shape(problem, each.owner):
            for other in _with_shape(problem, each.other):
                weights[owner][other] += each.weight
    matrix = TrafficMatrix(weights=tuple(map(tuple, weights)), members=tuple(roles), anchors=())
    pairs = [(one, other, _pairs(problem, one, other)) for one in roles for other in roles[one:]]
    if not any(count and matrix.both_ways(one, other) for one, other, count in pairs):
        return None
    return PairPreference(
        key=problem.keys.index(rule.key) if rule.key in problem.keys else UNIQUE_PER_NODE,
        matrix=matrix,
        most=sum(count * max(0, matrix.both_ways(one, other)) for one, other, count in pairs),
    )


def _with_shape(problem: PlacementProblem, shape: str) -> list[int]:
    return [index for index, role in enumerate(problem.roles) if role.shape == shape]


def _pairs(problem: PlacementProblem, one: int, other: int) -> int:
    """Pairs of pods of these roles."""
    most = problem.roles[one].maximum
    return most * (most - 1) // 2 if one == other else most * problem.roles[other].maximum
