"""Explains why a problem has no placement: what fits, which rules conflict, what would make it fit.

Every part is a sequence of feasibility tests with a small effort each. What is not conclusive within them is
left out or marked as not proven.
"""

from collections.abc import Iterator, Sequence
from math import lcm
from typing import Final

from msgspec import Struct, structs

from phalanx.model.rules import AffinityRule, Budget, SameDomain, SubgroupRule
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem, is_possible
from phalanx.solver.infeasibility.missing_capacity import budget_use, missing_capacity, used_path
from phalanx.solver.infeasibility.relaxations import (
    CAPACITY,
    ELIGIBILITY,
    Relaxation,
    RelaxationKind,
    apply_relaxation,
    softened,
    with_rules,
    without_capacity,
    without_eligibility,
)
from phalanx.solver.problem import Answer, Assignment, Placed, PlacementProblem, SolveLimits
from phalanx.solver.problem_rules import read_rules

DEFAULT_LIMITS = SolveLimits()

_SOLVES_FOR_CHANGES: Final = 24
"""Feasibility tests that the search for a conflict leaves to the relaxations."""

_SOLVES_FOR_CAPACITY: Final = 12
"""Those of them that remain for the missing capacity."""


class Explanation(Struct, frozen=True):
    """Facts about a problem without a placement."""

    most: tuple[int, ...]
    """Pods per role that fit now when all roles are scaled down alike."""
    most_proven: bool
    """Whether no more fit."""
    conflict: tuple[str, ...]
    """Names of rules, "eligibility" and "capacity" that cannot hold together; empty without any node."""
    irreducible: bool
    """Whether each of them is needed for the conflict."""
    relaxations: tuple[Relaxation, ...]
    """Single changes, each of which makes it fit, in the order in which to offer them."""
    best_domain: tuple[str, ...] = ()
    """The domain of the required level where `most` fits; empty without one."""


class LargestFit(Struct, frozen=True):
    """The largest part of the minimums that fits."""

    minimums: tuple[int, ...]
    assignments: tuple[Assignment, ...]
    proven: bool
    """Whether no larger one does."""


def explain(
    problem: PlacementProblem,
    *,
    empty: PlacementProblem | None = None,
    limits: SolveLimits = DEFAULT_LIMITS,
    answers: AnswerCache | None = None,
) -> Explanation:
    """Analyse why a problem has no placement.

    `empty` is the same problem on nodes without pods; it shows where capacity could be freed.
    """
    oracle = FeasibilityOracle(answers or AnswerCache(), limits)
    core = feasibility_problem(problem)
    vacant = feasibility_problem(empty) if empty is not None else None
    most = largest_fit(core, oracle)
    conflict, irreducible = _conflict(core, oracle)
    return Explanation(
        most=most.minimums,
        most_proven=most.proven,
        conflict=conflict,
        irreducible=irreducible,
        relaxations=tuple(_relaxations(core, vacant, most, oracle)),
        best_domain=_domain(core, most.assignments),
    )


def _domain(core: PlacementProblem, placed: Sequence[Assignment]) -> tuple[str, ...]:
    depth = read_rules(core).required_depth
    return next((path[:depth] for path in used_path(core, placed)), ())


def fits_when_empty(
    empty: PlacementProblem, *, limits: SolveLimits = DEFAULT_LIMITS, answers: AnswerCache | None = None
) -> bool | None:
    """Whether a problem on nodes without pods has a placement; None when not known."""
    return is_possible(place_when_empty(empty, limits=limits, answers=answers))


def place_when_empty(
    empty: PlacementProblem, *, limits: SolveLimits = DEFAULT_LIMITS, answers: AnswerCache | None = None
) -> Answer:
    """Place the minimums on nodes without pods.

    The rest of an explanation depends on this answer, so it gets the whole effort.
    """
    return (answers or AnswerCache()).place(feasibility_problem(empty), limits=limits)


def largest_fit(core: PlacementProblem, oracle: FeasibilityOracle) -> LargestFit:
    """Find the largest part that fits: one solve for one role, bisection over the size for several."""
    if len(core.roles) == 1:
        roles = (structs.replace(core.roles[0], minimum=0),)
        answer = oracle.answer(structs.replace(core, roles=roles))
        if isinstance(answer, Placed):
            placed = sum(assignment.count for assignment in answer.assignments)
            return LargestFit((placed,), answer.assignments, answer.certificate.proven)
    low, high = 0, max((role.minimum for role in core.roles), default=0)
    steps = _step_sizes(core)
    most, proven = LargestFit((0,) * len(core.roles), (), proven=True), steps is not None
    while high - low > 1:
        middle = (low + high) // 2
        smaller = _scaled(core, middle, steps or (1,) * len(core.roles))
        answer = oracle.answer(smaller)
        if isinstance(answer, Placed):
            low = middle
            most = LargestFit(tuple(role.minimum for role in smaller.roles), answer.assignments, proven=True)
        else:
            high = middle
            proven = proven and answer is not None and answer.proven
    return structs.replace(most, proven=proven)


def _step_sizes(core: PlacementProblem) -> tuple[int, ...] | None:
    """Per role, the number of which its count is a multiple; None for segments of several roles."""
    steps = [1] * len(core.roles)
    for constraint in read_rules(core).subgroup_constraints:
        if constraint.size > 1 and len(constraint.roles) > 1:
            return None
        for role in constraint.roles:
            steps[role] = lcm(steps[role], max(1, constraint.size))
    return tuple(steps)


def _scaled(core: PlacementProblem, size: int, steps: Sequence[int]) -> PlacementProblem:
    """Scale all roles down to whole steps so that the largest has about this size."""
    largest = max(role.minimum for role in core.roles)
    scaled = []
    for role, step in zip(core.roles, steps, strict=True):
        count = min(role.minimum, -(-role.minimum * size // (largest * step)) * step)
        scaled.append(structs.replace(role, minimum=count, maximum=count))
    return structs.replace(core, roles=tuple(scaled))


def _conflict(core: PlacementProblem, oracle: FeasibilityOracle) -> tuple[tuple[str, ...], bool]:
    """Find a conflict with a deletion filter: drop names while the rest stays infeasible."""
    rules = [rule.name for rule in core.rules if isinstance(rule, Budget)]
    rules += [rule.name for rule in core.rules if isinstance(rule, SameDomain)]
    rules += [rule.name for rule in core.rules if isinstance(rule, SubgroupRule | AffinityRule)]
    names = list(dict.fromkeys([ELIGIBILITY, *rules, CAPACITY]))
    if oracle.fits(with_only_rules(core, ())) is False:
        return (), True
    kept, irreducible = names, True
    for name in names:
        if oracle.solves_left <= _SOLVES_FOR_CHANGES:
            return tuple(kept), False
        fewer = [assignment for assignment in kept if assignment != name]
        fits = oracle.fits(with_only_rules(core, fewer))
        if fits is False:
            kept = fewer
        irreducible = irreducible and fits is not None
    is_known = len(kept) < len(names) or oracle.fits(core) is False
    return tuple(kept), irreducible and is_known


def with_only_rules(core: PlacementProblem, names: Sequence[str]) -> PlacementProblem:
    """Return the problem with only these of its named rules."""
    kept = with_rules(core, {rule.name: softened for rule in core.rules if rule.name not in names})
    if ELIGIBILITY not in names:
        kept = without_eligibility(kept)
    return feasibility_problem(kept if CAPACITY in names else without_capacity(kept))


def _relaxations(
    core: PlacementProblem, vacant: PlacementProblem | None, most: LargestFit, oracle: FeasibilityOracle
) -> Iterator[Relaxation]:
    """Yield relaxations: of rules first, then fewer pods, then more capacity."""
    for rule in core.rules:
        if oracle.solves_left <= _SOLVES_FOR_CAPACITY:
            break
        if isinstance(rule, SubgroupRule) or (isinstance(rule, SameDomain) and not rule.fixed):
            yield from _first_that_fits(core, _wider_levels(core, rule), oracle)
    for rule in core.rules:
        if isinstance(rule, Budget):
            yield from _first_that_fits(core, _raised_budget(core, rule, oracle), oracle)
    eligibility = Relaxation(RelaxationKind.DROP_ELIGIBILITY)
    yield from _first_that_fits(core, iter([eligibility]), oracle)
    if any(most.minimums):
        yield Relaxation(RelaxationKind.LOWER_MINIMUM, minimums=most.minimums)
    yield from _first_that_fits(core, missing_capacity(core, vacant, most.assignments, oracle), oracle)


def _first_that_fits(
    core: PlacementProblem, changes: Iterator[Relaxation], oracle: FeasibilityOracle
) -> Iterator[Relaxation]:
    for change in changes:
        if oracle.fits(feasibility_problem(apply_relaxation(core, change))):
            yield change
            return


def _wider_levels(core: PlacementProblem, rule: SameDomain | SubgroupRule) -> Iterator[Relaxation]:
    """The next wider levels in turn, then the level as a preference."""
    for level in reversed(core.levels[: core.levels.index(rule.level)]):
        yield Relaxation(RelaxationKind.WIDEN_LEVEL, rule=rule.name, level=level)
    yield Relaxation(RelaxationKind.PREFER_LEVEL, rule=rule.name, level=rule.level)


def _raised_budget(core: PlacementProblem, rule: Budget, oracle: FeasibilityOracle) -> Iterator[Relaxation]:
    """What a placement without the budget, and few pods on the budget's nodes, uses beyond it."""
    answer = oracle.answer(_avoiding(with_rules(core, {rule.name: softened}), rule))
    if isinstance(answer, Placed):
        used = budget_use(core, rule, answer.assignments)
        over = {name: used.get(name, 0) - solves_left for name, solves_left in rule.remaining.items()}
        amounts = {name: more for name, more in over.items() if more > 0 and used.get(name, 0) > 0}
        yield Relaxation(RelaxationKind.RAISE_BUDGET, rule=rule.name, amounts=amounts)


def _avoiding(problem: PlacementProblem, rule: Budget) -> PlacementProblem:
    """The problem in which each pod on nodes of the budget costs one."""
    counted, free = (1,) * len(problem.roles), (0,) * len(problem.roles)
    nodes = rule.nodes or frozenset()
    classes = tuple(
        structs.replace(group, cost=free if nodes.isdisjoint(group.nodes) else counted)
        for group in problem.classes
    )
    return structs.replace(problem, classes=classes)
