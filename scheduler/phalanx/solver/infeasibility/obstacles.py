"""The obstacle that prevents a placement: the first one without which there is one."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import structs

from phalanx.model.rules import AffinityRule, Budget, OtherTopologyDomain, Rule, SameDomain, SubgroupRule
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.relaxations import (
    CAPACITY,
    ELIGIBILITY,
    Exclusions,
    allowed_by,
    softened,
    with_rules,
)
from phalanx.solver.problem import PlacementProblem


class Obstacle(StrEnum):
    """What prevents a placement, in the order in which it is named."""

    LIMITS = "limits"
    """The budgets."""

    LEVELS = "levels"
    """The required levels of the gang and its subgroups."""

    CAPACITY = "capacity"
    """Usage of nodes by other pods."""

    AFFINITY = "affinity"
    """Affinity and anti-affinity between pods."""


def obstacle_of(rule: Rule) -> Obstacle | None:
    """The obstacle that the rule is part of; None for preferences."""
    if isinstance(rule, Budget):
        return Obstacle.LIMITS
    is_free = isinstance(rule, SameDomain) and not rule.fixed
    if is_free or isinstance(rule, SubgroupRule | OtherTopologyDomain):
        return Obstacle.LEVELS
    return Obstacle.AFFINITY if isinstance(rule, AffinityRule | SameDomain) else None


def involved(core: PlacementProblem, conflict: Sequence[str]) -> list[Obstacle]:
    """The obstacles with parts in the conflict, in their order."""
    rules = {obstacle_of(rule) for rule in core.rules if rule.name in conflict}
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
            names = {rule.name for rule in core.rules if obstacle_of(rule) is obstacle}
            problem = with_rules(core, dict.fromkeys(names, softened))
            if obstacle is Obstacle.AFFINITY:
                problem = allowed_by(problem, [exclusions[ELIGIBILITY]])
            yield obstacle, problem
        elif vacant is not None:
            yield obstacle, structs.replace(core, classes=vacant.classes)
