"""Feasibility tests: whether a problem has any placement, up to a number of solves."""

from typing import Final

from msgspec import structs

from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import Answer, Placed, SolveLimits
from phalanx.solver.answer_cache import AnswerCache

EXPLANATION_SOLVES_MAX: Final = 64
"""Solves for one explanation: one per constraint, per relaxation, and per binary digit of the number of pods
that fit."""

EXPLANATION_EFFORT_PART: Final = 0.1
"""Fraction of the deterministic time of an explanation for each of its solves."""


class FeasibilityOracle:
    """Tests whether problems have a placement, up to a number of solves."""

    def __init__(
        self, answers: AnswerCache, limits: SolveLimits, *, solves: int = EXPLANATION_SOLVES_MAX
    ) -> None:
        self._answers = answers
        self._limits = SolveLimits(deterministic=limits.deterministic * EXPLANATION_EFFORT_PART)
        self._solves = self._solves_left = solves

    def renew(self) -> None:
        """Allow as many solves as at first."""
        self._solves_left = self._solves

    @property
    def solves_left(self) -> int:
        """How many more solves are allowed."""
        return self._solves_left

    def answer(self, problem: PlacementProblem) -> Answer | None:
        """Return the solver's answer; None without solves left."""
        if self._solves_left == 0:
            return None
        self._solves_left -= 1
        return self._answers.place(problem, limits=self._limits)

    def fits(self, problem: PlacementProblem) -> bool | None:
        """Whether a placement exists; None when that is not known."""
        answer = self.answer(problem)
        return None if answer is None else is_possible(answer)


def is_possible(answer: Answer) -> bool | None:
    """Whether an answer shows that a placement exists; None when that is not known."""
    if isinstance(answer, Placed):
        return True
    return False if answer.proven else None


def feasibility_problem(problem: PlacementProblem) -> PlacementProblem:
    """Return the minimums under hard rules, without preferences, costs and tightness."""
    roles = tuple(structs.replace(role, maximum=role.minimum) for role in problem.roles)
    classes = problem.classes
    if problem.prefers_tightness or problem.packs_subgroups or problem.has_costs:
        free_of_charge = (0,) * len(roles)
        classes = tuple(
            structs.replace(group, cost=free_of_charge, domain_capacity=0, subgroup_capacities=())
            for group in classes
        )
    rules = tuple(rule for rule in problem.rules if rule.obstacle is not None)
    return structs.replace(problem, roles=roles, classes=classes, rules=rules)
