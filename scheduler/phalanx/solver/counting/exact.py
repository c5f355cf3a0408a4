"""CP-SAT on the counting model of one scope: one solve per term of the objective, the most important first.

Values reached are fixed as upper limits for the later terms. The best placement known is a limit from the
start, so that a scope which cannot do better is left quickly; where it lies in the scope, it is the hint.
"""

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.arrays import IntArray, TooLarge
from phalanx.solver.counting.constraints import CONSTRAINTS
from phalanx.solver.counting.model import CountingModel
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.exchange import hint, solution
from phalanx.solver.nodetable import Found, NodeTable, assignments_of
from phalanx.solver.objective import UNPLACED, Scorer
from phalanx.solver.objective_terms import objective_term

BY: Final = "cp-sat"

ROUNDING: Final = 1e-6
"""The solver states integer bounds as doubles."""

Score = tuple[int, ...]


class Question(Struct, frozen=True, eq=False):
    """One scope to solve. `limit` is the score to beat, `hint` a placement in the scope, if there is one.

    `bound` is known to hold in the scope; `floor` gives the values that no term can go below when so many
    pods are left out. `effort` is in deterministic units, and so is the part of it that `tightness` may take.
    """

    nodes: IntArray
    bound: Score
    limit: Score | None
    hint: Found | None
    floor: Callable[[int], Score]
    effort: float
    tightness: float


class ScopeAnswer(Struct, frozen=True, eq=False):
    """What CP-SAT says of one scope.

    `found` is better than the limit, None without such a placement. `bound` holds for all placements in the
    scope that are better than the limit. `empty` when it was proven, twice, that there is none at all.
    `declined` when the model could not be proven to stay exact. `for_tightness` is the part of `spent` that
    went into that term.
    """

    found: Found | None
    bound: Score
    empty: bool = False
    spent: float = 0.0
    declined: bool = False
    for_tightness: float = 0.0


def solve_scope(table: NodeTable, scorer: Scorer, question: Question) -> ScopeAnswer:
    """The best placement in the scope, as far as the effort goes."""
    try:
        return _Solve(table, scorer, question).run()
    except TooLarge:
        return ScopeAnswer(found=None, bound=question.bound, declined=True)


class _Solve:
    """The state of the successive solves of one question."""

    def __init__(self, table: NodeTable, scorer: Scorer, question: Question) -> None:
        self._table, self._scorer, self._question = table, scorer, question
        self._model = CountingModel(table, groups_of(table, question.nodes))
        for add in CONSTRAINTS.values():
            add(self._model)
        self._terms = [objective_term(self._model, name) for name in scorer.terms]
        self._found: Found | None = None
        self._limit = question.limit
        self._bound = question.bound
        self._empty = False
        self._spent = 0.0
        self._for_tightness = 0.0
        if question.hint is not None:
            hint(self._model, question.hint)

    def run(self) -> ScopeAnswer:
        """Solves term by term until one is not settled."""
        if not self._terms and self._limit is None:
            self._optimise(0, None)
        for index, term in enumerate(self._terms):
            if not self._settle(index, term):
                break
        return ScopeAnswer(
            found=self._found,
            bound=self._bound,
            empty=self._empty,
            spent=self._spent,
            for_tightness=self._for_tightness,
        )

    def _settle(self, index: int, term: cp_model.LinearExpr) -> bool:
        """Fixes a term at its least value; False when that is not known or nothing better is left."""
        settled = self._bound[:index]
        if self._limit is None:
            known = index == 0
        else:
            self._model.cp.add(term <= self._limit[index])
            known = settled == self._limit[:index]
            if known and self._bound[index] == self._limit[index]:
                return True
        if known:
            self._model.cp.add(term >= self._bound[index])
        self._model.cp.minimize(term)
        return self._optimise(index, term)

    def _optimise(self, index: int, term: cp_model.LinearExpr | None) -> bool:
        effort = self._question.effort - self._spent
        is_firm = index < self._scorer.firm
        solver = one_worker(
            self._table.rows.problem.seed, effort if is_firm else min(effort, self._question.tightness)
        )
        status = solver.solve(self._model.cp)
        self._spent += solver.deterministic_time
        self._for_tightness += 0.0 if is_firm else solver.deterministic_time
        if status == cp_model.INFEASIBLE:
            self._nothing_left()
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return False
        least = math.ceil(solver.best_objective_bound - ROUNDING) if term is not None else 0
        self._learn(index, least, solution(self._model, solver))
        if status == cp_model.OPTIMAL and term is not None:
            self._model.cp.add(term <= least)
        return bool(status == cp_model.OPTIMAL)

    def _nothing_left(self) -> None:
        if self._limit is not None:
            self._bound = max(self._bound, self._limit)
            return
        self._empty = self._confirmed_empty()

    def _learn(self, index: int, least: int, found: Found) -> None:
        """Takes over a placement and the bound that was proven on the way."""
        score = self._scorer.score(assignments_of(self._table, found))
        if self._limit is None or score < self._limit:
            self._limit, self._found = score, found
        hint(self._model, found)
        if self._terms:
            proven = (*score[:index], least)
            floor = self._question.floor(proven[0] if self._scorer.terms[0] == UNPLACED else 0)
            self._bound = max(self._bound, proven + floor[index + 1 :])

    def _confirmed_empty(self) -> bool:
        agrees, spent = confirmed_empty(
            self._model.cp, seed=self._table.rows.problem.seed, effort=self._question.effort
        )
        self._spent += spent
        return agrees


def one_worker(seed: int, effort: float) -> cp_model.CpSolver:
    """One worker with strong linear relaxation: measured fastest on these models, and it repeats exactly."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed % (1 << 31)
    solver.parameters.max_deterministic_time = max(effort, 0.0)
    return solver


def confirmed_empty(model: cp_model.CpModel, *, seed: int, effort: float) -> tuple[bool, float]:
    """Whether a second configuration agrees that a model has no solution, and what that took.

    The model loses its goal.
    """
    model.clear_objective()  # type: ignore[no-untyped-call]
    solver = one_worker(seed + 1, effort)
    solver.parameters.linearization_level = 0
    solver.parameters.cp_model_probing_level = 0
    status = solver.solve(model)
    return bool(status == cp_model.INFEASIBLE), solver.deterministic_time
