"""Explains why a problem has no placement: what fits, which rules conflict, what would make it fit.

Every part is a sequence of feasibility tests with a small effort each. What is not conclusive within them is
left out or marked as not proven.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from phalanx.model.resources import Resources
from phalanx.rules.budget import Budget, budgets_in
from phalanx.rules.problem import Assignment, Obstacle, PlacementProblem
from phalanx.solver.answer import Answer, Placed, SolveLimits
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem, is_possible
from phalanx.solver.infeasibility.largest_fit import LargestFit, largest_fit
from phalanx.solver.infeasibility.missing_capacity import (
    MissingCapacity,
    budget_use,
    missing_capacity,
    used_path,
)
from phalanx.solver.infeasibility.obstacles import dominant_obstacle, involved
from phalanx.solver.infeasibility.relaxations import (
    CAPACITY,
    ELIGIBILITY,
    Exclusions,
    Raises,
    allowed_by,
    with_free,
    with_raised_budgets,
    without_capacity,
    without_rules,
)
from phalanx.solver.problem_rules import domains_of, read_rules

DEFAULT_LIMITS = SolveLimits()

_SOLVES_FOR_CHANGES: Final = 24
"""Feasibility tests that the search for a conflict leaves to budgets and missing capacity."""


class Explanation(Struct, frozen=True):
    """Facts about a problem without a placement."""

    most: tuple[int, ...]
    """Pods per role that fit now, as many as possible in total."""
    most_proven: bool
    """Whether no more fit."""
    conflict: tuple[str, ...]
    """Names of rules, causes of ineligible nodes, and "capacity" that cannot hold together; empty without any
    node."""
    irreducible: bool
    """Whether each of them is needed for the conflict."""
    obstacle: Obstacle | None = None
    """The obstacle to name; None if only ineligible nodes prevent a placement."""
    raised: tuple[Raises, ...] = ()
    """Raises of budgets, each of which makes it fit: of single budgets, else of all together."""
    missing: MissingCapacity | None = None
    """Capacity that makes it fit if it is freed."""
    best_domain: tuple[str, ...] = ()
    """The domain of the required level where `most` fits; empty without one."""


def explain(
    problem: PlacementProblem,
    *,
    empty: PlacementProblem | None = None,
    exclusions: Exclusions | None = None,
    limits: SolveLimits = DEFAULT_LIMITS,
    answers: AnswerCache | None = None,
) -> Explanation:
    """Analyse why a problem has no placement.

    `empty` is the same problem on nodes without pods, class by class; it shows where capacity could be freed.
    `exclusions` says why nodes are ineligible, if there are several causes, which together exclude them.
    """
    oracle = FeasibilityOracle(answers or AnswerCache(), limits)
    core = feasibility_problem(problem)
    vacant = _where_eligible(core, feasibility_problem(empty)) if empty is not None else None
    most = largest_fit(core, oracle.answer)
    causes = exclusions or causes_of(core)
    conflict, irreducible = _conflict(core, oracle, causes)
    found = involved(core, conflict)
    return Explanation(
        most=most.counts,
        most_proven=most.proven,
        conflict=conflict,
        irreducible=irreducible,
        obstacle=dominant_obstacle(core, vacant, causes, conflict, oracle),
        raised=raised_budgets(core, oracle) if Obstacle.LIMITS in found else (),
        missing=_missing(core, vacant, most, oracle)
        if vacant is not None and Obstacle.CAPACITY in found
        else None,
        best_domain=_domain(core, most.assignments),
    )


def _where_eligible(core: PlacementProblem, vacant: PlacementProblem) -> PlacementProblem:
    """The empty nodes with the eligibility and the affinity of now: only capacity is to be freed."""
    pairs = zip(vacant.classes, core.classes, strict=True)
    classes = tuple(structs.replace(empty, eligible=now.eligible) for empty, now in pairs)
    rules = (
        *(rule for rule in vacant.rules if not rule.names_shapes),
        *(rule for rule in core.rules if rule.names_shapes),
    )
    return structs.replace(vacant, classes=classes, rules=rules)


def causes_of(problem: PlacementProblem) -> Exclusions:
    """The eligibility of the problem as the only cause."""
    return {ELIGIBILITY: [group.eligible for group in problem.classes]}


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


def _conflict(
    core: PlacementProblem, oracle: FeasibilityOracle, exclusions: Exclusions
) -> tuple[tuple[str, ...], bool]:
    """Find a conflict with a deletion filter: drop names while the rest stays infeasible."""
    rules = sorted(core.rules, key=lambda rule: (rule.obstacle is not Obstacle.LIMITS, not rule.gang_level))
    names = list(dict.fromkeys([*exclusions, *(rule.name for rule in rules), CAPACITY]))
    if oracle.fits(with_only_rules(core, (), exclusions)) is False:
        return (), True
    kept, irreducible = names, True
    for name in names:
        if oracle.solves_left <= _SOLVES_FOR_CHANGES:
            return tuple(kept), False
        fewer = [assignment for assignment in kept if assignment != name]
        fits = oracle.fits(with_only_rules(core, fewer, exclusions))
        if fits is False:
            kept = fewer
        irreducible = irreducible and fits is not None
    is_known = len(kept) < len(names) or oracle.fits(core) is False
    return tuple(kept), irreducible and is_known


def with_only_rules(
    core: PlacementProblem, names: Sequence[str], exclusions: Exclusions | None = None
) -> PlacementProblem:
    """Return the problem with only these of its named rules and causes of ineligible nodes.

    A topology spread constraint is dropped too if it would count more domains than in `core`. So no problem
    with fewer names is harder.
    """
    causes = exclusions or causes_of(core)
    kept = without_rules(core, {rule.name for rule in core.rules}.difference(names))
    kept = allowed_by(kept, [allowed for cause, allowed in causes.items() if cause in names])
    kept = without_rules(kept, _with_more_domains(kept, core))
    return feasibility_problem(kept if CAPACITY in names else without_capacity(kept))


def _with_more_domains(relaxed: PlacementProblem, core: PlacementProblem) -> list[str]:
    """Names of the spread constraints that count domains of nodes that pods may not use in `core`."""
    before = _counted_domains(core)
    return [name for name, domains in _counted_domains(relaxed).items() if domains != before[name]]


def _counted_domains(problem: PlacementProblem) -> dict[str, frozenset[str]]:
    return {skew.name: frozenset(domains_of(problem, skew)) for skew in read_rules(problem).skews}


def raised_budgets(core: PlacementProblem, oracle: FeasibilityOracle) -> tuple[Raises, ...]:
    """Raises of single budgets that make the problem feasible, else of all budgets together."""
    budgets = budgets_in(core.rules)
    candidates = [_raised(core, [rule], oracle) for rule in budgets]
    alone = tuple(raised for raised in candidates if raised and _helps(core, raised, oracle))
    if alone or len(budgets) < 2:
        return alone
    together = _raised(core, budgets, oracle)
    return (together,) if together and _helps(core, together, oracle) else ()


def _helps(core: PlacementProblem, raised: Raises, oracle: FeasibilityOracle) -> bool:
    return oracle.fits(feasibility_problem(with_raised_budgets(core, raised))) is True


def _missing(
    core: PlacementProblem, vacant: PlacementProblem, most: LargestFit, oracle: FeasibilityOracle
) -> MissingCapacity | None:
    """The first candidate that makes the problem feasible."""
    for found in missing_capacity(core, vacant, most.assignments, oracle):
        freed = with_free(core, {each.node: each.amounts for each in found.capacity})
        if found.capacity and oracle.fits(feasibility_problem(freed)):
            return found
    return None


def _raised(core: PlacementProblem, budgets: Sequence[Budget], oracle: FeasibilityOracle) -> Raises:
    """What a placement without these budgets, and few pods on their nodes, uses beyond them."""
    without = without_rules(core, {rule.name for rule in budgets})
    answer = oracle.answer(_avoiding(without, budgets))
    if not isinstance(answer, Placed):
        return {}
    raised = {rule.name: _beyond(core, rule, answer.assignments) for rule in budgets}
    return {name: amounts for name, amounts in raised.items() if amounts}


def _beyond(core: PlacementProblem, rule: Budget, assignments: Sequence[Assignment]) -> Resources:
    """The amounts by which these pods exceed the budget."""
    used = budget_use(core, rule, assignments)
    over = {name: used.get(name, 0) - left for name, left in rule.remaining.items()}
    return {name: more for name, more in over.items() if more > 0 and used.get(name, 0) > 0}


def _avoiding(problem: PlacementProblem, budgets: Sequence[Budget]) -> PlacementProblem:
    """The problem in which each pod costs one for each of these budgets that counts its node."""
    classes = []
    for group in problem.classes:
        counting = sum(1 for rule in budgets if rule.nodes and not rule.nodes.isdisjoint(group.nodes))
        classes.append(structs.replace(group, cost=(counting,) * len(problem.roles)))
    return structs.replace(problem, classes=tuple(classes))
