"""Affinity and anti-affinity between the pods of a gang, required and preferred."""

from collections.abc import Iterator

from msgspec import Struct

from phalanx.model.names import ShapeKey
from phalanx.model.reasons import Reason
from phalanx.rules.primitives import Apart, Near, PairPreference, Primitive
from phalanx.rules.problem import Obstacle, PlacedPods, PlacementProblem, Rule
from phalanx.rules.traffic_matrix import TrafficMatrix


class AffinityRule(Rule, frozen=True):
    """Where pods of the shapes in `owners` are depends on the pods of the shapes in `others`."""

    obstacle = Obstacle.AFFINITY
    names_shapes = True

    key: str
    """Nodes with the same value of this label are near each other; nodes without it are near none."""
    owners: tuple[ShapeKey, ...]
    others: tuple[ShapeKey, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)


class PodAntiAffinityRule(AffinityRule, frozen=True, tag="pod-anti-affinity"):
    """No pod of a shape in `owners` is near another pod of a shape in `others`."""

    reason = Reason.POD_ANTI_AFFINITY
    is_about_pairs = True

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        owners, others = problem.roles_with(self.owners), problem.roles_with(self.others)
        yield Apart(self.name, problem.key_of(self.key), owners, others)

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        for value, there in sorted(placed.by_value(self.key).items()):
            for owner in sorted(set(self.owners) & there.keys()):
                others = sum(there[other] for other in set(self.others)) - (owner in self.others)
                if value and others > 0:
                    yield f"{self.name}: a pod in {value} is with {others} pods that it must avoid"


class PodAffinityRule(AffinityRule, frozen=True, tag="pod-affinity"):
    """Pods of the shapes in `owners` are near pods of `others`."""

    existing_values: tuple[str, ...] = ()
    """Values of `key` where matching pods outside the gang already are."""
    starters: tuple[ShapeKey, ...] = ()
    """Shapes that match the term themselves: with one of them, `owners` may start one more domain."""

    @property
    def is_met_by_others(self) -> bool:
        return bool(self.existing_values)

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        yield Near(
            key=problem.key_of(self.key),
            owners=problem.roles_with(self.owners),
            others=problem.roles_with(self.others),
            begin=problem.roles_with(self.starters),
            existing=self.existing_values,
        )

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        started = []
        for value, there in sorted(placed.by_value(self.key).items()):
            if there.keys().isdisjoint(self.owners):
                continue
            if not value:
                yield f"{self.name}: a pod on a node without {self.key}"
            elif value not in self.existing_values and there.keys().isdisjoint(self.others):
                started.append(value)
                if there.keys().isdisjoint(self.starters):
                    yield f"{self.name}: pods in {value}, where no pod matches their affinity"
        if len(started) > 1:
            yield f"{self.name}: pods in {len(started)} domains of {self.key}"


class PairWeight(Struct, frozen=True):
    """How much each pod of one shape draws each other pod of another one; negative: keeps it away."""

    owner: ShapeKey
    other: ShapeKey
    weight: int


class PodPairs(Rule, frozen=True, tag="pod-pairs"):
    """Preference: pods of the gang are near pods that they prefer, and apart from those that they avoid.

    It is part of the cost of a placement.
    """

    is_about_pairs = True
    names_shapes = True

    key: str
    """Nodes with the same value of this label are near each other; nodes without it are near none."""
    weights: tuple[PairWeight, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        roles = range(len(problem.roles))
        weights = [[0 for _ in roles] for _ in roles]
        for each in self.weights:
            for owner in problem.roles_with((each.owner,)):
                for other in problem.roles_with((each.other,)):
                    weights[owner][other] += each.weight
        matrix = TrafficMatrix(weights=tuple(map(tuple, weights)), members=tuple(roles), anchors=())
        pairs = [(one, other, _pairs(problem, one, other)) for one in roles for other in roles[one:]]
        if any(count and matrix.both_ways(one, other) for one, other, count in pairs):
            most = sum(count * max(0, matrix.both_ways(one, other)) for one, other, count in pairs)
            yield PairPreference(problem.key_of(self.key), matrix, most)


def _pairs(problem: PlacementProblem, one: int, other: int) -> int:
    """Pairs of pods of these roles."""
    most = problem.roles[one].maximum
    return most * (most - 1) // 2 if one == other else most * problem.roles[other].maximum
