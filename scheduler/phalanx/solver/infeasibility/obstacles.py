"""The obstacle that prevents a placement: the first one without which there is one."""

from collections.abc import Iterator, Sequence

from msgspec import structs

from phalanx.rules.problem import Obstacle, PlacementProblem
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.relaxations import (
    CAPACITY,
    ELIGIBILITY,
    Exclusions,
    allowed_by,
    without_rules,
)


def involved(core: PlacementProblem, conflict: Sequence[str]) -> list[Obstacle]:
    """The obstacles with parts in the conflict, in their order."""
    rules = {rule.obstacle for rule in core.rules if rule.name in conflict}
    causes = set(conflict) - {rule.name for rule in core.rules} - {ELIGIBILITY, CAPACITY}
    others = {Obstacle.CAPACITY} if CAPACITY in conflict else set()
    others |= {Obstacle.AFFINITY} if causes else set()
    return [obstacle for obstacle in Obstacle if obstacle in rules | others]


def dominant_obstacle(
    core: PlacementProblem,
    vacant: PlacementProblem | None,
    exclusions: Exclusions,
    conflict: Sequence[str],
    oracle: FeasibilityOracle,
) -> Obstacle | None:
    """The first obstacle in the conflict without which the problem is feasible.

    If no single one is enough, the first one; but affinity before levels if capacity is not involved.
    `vacant` has the nodes when other pods have ended; None if they have.
    """
    found = involved(core, conflict)
    for obstacle, problem in _relaxed(core, vacant, exclusions, found) if len(found) > 1 else ():
        if oracle.fits(feasibility_problem(problem)):
            return obstacle
    if Obstacle.AFFINITY in found and Obstacle.CAPACITY not in found and Obstacle.LIMITS not in found:
        return Obstacle.AFFINITY
    return next(iter(found), None)


def _relaxed(
    core: PlacementProblem,
    vacant: PlacementProblem | None,
    exclusions: Exclusions,
    obstacles: Sequence[Obstacle],
) -> Iterator[tuple[Obstacle, PlacementProblem]]:
    """The problem without each of these obstacles."""
    for obstacle in obstacles:
        if obstacle is not Obstacle.CAPACITY:
            names = {rule.name for rule in core.rules if rule.obstacle is obstacle}
            problem = without_rules(core, names)
            if obstacle is Obstacle.AFFINITY:
                problem = allowed_by(problem, [exclusions[ELIGIBILITY]])
            yield obstacle, problem
        elif vacant is not None:
            yield obstacle, structs.replace(core, classes=vacant.classes)
