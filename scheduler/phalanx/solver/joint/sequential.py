"""Places each gang of a joint solution again on the capacity that all others leave."""

from collections.abc import Callable, Iterable, Sequence
from operator import le, lt, sub
from typing import Final

from msgspec import structs

from phalanx.model.names import NodeName
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Assignment, NodeClass, Obstacle, PlacementProblem
from phalanx.solver.answer import Placed, SolveLimits
from phalanx.solver.engine import place
from phalanx.solver.joint.arrays import JointArrays, SharedBudget
from phalanx.solver.joint.problem import Admitted, JointAssignment, JointProblem, roles_of
from phalanx.solver.objective import DOMAINS, Scorer, certify

Amounts = tuple[int, ...]


class ResidualCapacity:
    """Free amounts of nodes and budgets while gangs are placed and removed."""

    def __init__(self, problem: JointProblem, limits: Sequence[SharedBudget]) -> None:
        self._problem = problem
        self._limits = limits
        self._used: dict[NodeName, Amounts] = {}
        self._projected: dict[tuple[int, ...], list[NodeClass]] = {}
        self._left = [
            {name: max(0, amount) for name, amount in limit.budget.remaining.items()} for limit in limits
        ]

    def take(self, gang: int, assignments: Iterable[Assignment], *, sign: int = 1) -> None:
        """Take the capacity of these pods; with sign -1, give it back."""
        problem = self._problem
        for assignment in assignments:
            request = problem.pod_classes[problem.gangs[gang].roles[assignment.role].pod_class].request
            before = self._used.get(assignment.node, (0,) * len(request))
            after = tuple(
                [have + sign * assignment.count * need for have, need in zip(before, request, strict=True)]
            )
            if any(after):
                self._used[assignment.node] = after
            else:
                self._used.pop(assignment.node, None)
            for limit, left in zip(self._limits, self._left, strict=True):
                if gang in limit.gangs:
                    for name, need in zip(problem.resources, request, strict=True):
                        if name in left:
                            left[name] -= sign * assignment.count * need

    def problem_of(self, gang: int) -> PlacementProblem:
        joint = self._problem
        demand = joint.gangs[gang]
        pod_classes = tuple(role.pod_class for role in demand.roles)
        rules = [rule for rule in demand.rules if rule.obstacle is not Obstacle.LIMITS]
        left = [
            Budget(limit.budget.name, left, None)
            for limit, left in zip(self._limits, self._left, strict=True)
            if gang in limit.gangs
        ]
        return PlacementProblem(
            resources=joint.resources,
            levels=joint.levels,
            roles=roles_of(joint, demand),
            classes=tuple(self._classes(pod_classes)),
            rules=(*rules, *left),
            seed=joint.seed,
        )

    def _classes(self, pod_classes: tuple[int, ...]) -> Iterable[NodeClass]:
        """Classes that fit a pod of one of these pod classes, as these see them."""
        if pod_classes not in self._projected:
            self._projected[pod_classes] = list(self._projected_to(pod_classes))
        requests = [self._problem.pod_classes[pod_class].request for pod_class in pod_classes]
        used = self._used
        for projected in self._projected[pod_classes]:
            touched = [node for node in projected.nodes if node in used]
            if not touched:
                yield projected
                continue
            if len(touched) < len(projected.nodes):
                untouched = tuple([node for node in projected.nodes if node not in used])
                yield structs.replace(projected, nodes=untouched)
            for node in touched:
                free = tuple(map(sub, projected.free, used[node]))
                if _fits_any(free, projected.eligible, requests):
                    yield structs.replace(projected, free=free, nodes=(node,))

    def _projected_to(self, pod_classes: tuple[int, ...]) -> Iterable[NodeClass]:
        requests = [self._problem.pod_classes[pod_class].request for pod_class in pod_classes]
        for group in self._problem.classes:
            eligible = tuple([group.eligible[pod_class] for pod_class in pod_classes])
            if _fits_any(group.free, eligible, requests):
                cost = tuple([group.cost[pod_class] for pod_class in pod_classes])
                yield NodeClass(group.path, group.free, eligible, cost, group.nodes)


def _fits_any(free: Amounts, eligible: Sequence[bool], requests: Sequence[Amounts]) -> bool:
    """Whether some pod fits on such a node."""
    return any(may and all(map(le, need, free)) for may, need in zip(eligible, requests, strict=True))


BY = "joint"

REOPTIMIZED_ROUNDS_MAX: Final = 3
"""Times that each gang may move to better nodes; in most problems none moves twice."""


def reoptimized(
    arrays: JointArrays, assignment: JointAssignment, *, limits: SolveLimits
) -> tuple[Admitted, ...]:
    """Place each gang again while the others are fixed. No gang gets worse, and each gets a certificate.

    The certificate is about the gang alone, with all others where they are in the end: a gang that moves may
    leave nodes to those that were certified before it, so they are tried again.
    """
    residual = ResidualCapacity(arrays.problem, arrays.limits)
    for gang, assignments in assignment.items():
        residual.take(gang, assignments)
    placed = _round(assignment, residual, limits, _no_worse)
    for number in range(1, REOPTIMIZED_ROUNDS_MAX + 1):
        found = {gang: each.assignments for gang, each in placed.items()}
        if all(_are_equal(found[gang], assignment[gang]) for gang in found):
            break
        assignment = found
        placed = _round(assignment, residual, limits, lt if number < REOPTIMIZED_ROUNDS_MAX else _never)
    return tuple(Admitted(gang, each) for gang, each in placed.items())


Score = tuple[int, ...]
MayMove = Callable[[Score, Score], bool]
"""The objective of another placement and that of the present one -> whether the gang moves."""


def _no_worse(other: Score, present: Score) -> bool:
    """For the first time: among equal placements that of the solver uses the fullest nodes."""
    return other <= present


def _never(_other: Score, _present: Score) -> bool:
    return False


def _are_equal(left: Sequence[Assignment], right: Sequence[Assignment]) -> bool:
    return frozenset(left) == frozenset(right)


def _round(
    assignment: JointAssignment, residual: ResidualCapacity, limits: SolveLimits, moves: MayMove
) -> dict[int, Placed]:
    """The placement of each gang in turn; a gang that does not move gets a new certificate."""
    placed = {}
    for gang, assignments in sorted(assignment.items()):
        residual.take(gang, assignments, sign=-1)
        placed[gang] = _reoptimized(residual.problem_of(gang), assignments, limits, moves)
        residual.take(gang, placed[gang].assignments)
    return placed


def _reoptimized(
    problem: PlacementProblem, assignments: tuple[Assignment, ...], limits: SolveLimits, moves: MayMove
) -> Placed:
    scorer = Scorer(problem)
    score = scorer.score(assignments)
    if all(term.startswith(DOMAINS) and value == 1 for term, value in zip(scorer.terms, score, strict=True)):
        return certify(scorer, assignments, bound=None, by=BY)
    answer = place(problem, limits=limits)
    if isinstance(answer, Placed):
        proof = answer.certificate
        if moves(proof.objective, score):
            return answer
        return certify(scorer, assignments, bound=min(proof.bound, score), by=proof.by)
    least = tuple(
        1 if term.startswith(DOMAINS) else min(0, value)
        for term, value in zip(scorer.terms, score, strict=True)
    )
    return certify(scorer, assignments, bound=min(least, score), by=BY)
