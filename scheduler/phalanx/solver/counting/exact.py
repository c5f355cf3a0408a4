"""Solves one scope with CP-SAT: one solve per term of the objective, the most important first.

Lexicographic optimisation: the value reached for a term becomes a constraint of the later solves. The
incumbent's score is a constraint from the start, so that a scope which cannot improve it is left quickly. A
placement in the scope is the hint.
"""

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.arrays import IntArray, NodeTable, Placement, TooLarge, assignments_of
from phalanx.solver.counting.constraints import CONSTRAINTS
from phalanx.solver.counting.model import CountingModel, hint, objective_term, solution
from phalanx.solver.counting.node_groups import groups_of
from phalanx.solver.cp_sat import ROUNDING, confirmed_empty, one_worker
from phalanx.solver.objective import UNPLACED, Scorer

BY: Final = "cp-sat"


Score = tuple[int, ...]


class ScopeProblem(Struct, frozen=True, eq=False):
    """One scope to solve."""

    nodes: IntArray
    bound: Score
    """A known lower bound in the scope."""
    limit: Score | None
    """The score to beat; None without an incumbent."""
    hint: Placement | None
    """A placement in the scope, if there is one."""
    floor: Callable[[int], Score]
    """Returns lower bounds per term when so many pods are left out."""
    effort: float
    """Deterministic time units."""
    tightness: float
    """The part of the effort that the tightness term may take."""


class ScopeResult(Struct, frozen=True, eq=False):
    found: Placement | None
    """A placement better than the limit; None without one."""
    bound: Score
    """A lower bound on all placements in the scope that are better than the limit."""
    empty: bool = False
    """Whether two configurations proved that the scope has no placement."""
    spent: float = 0.0
    declined: bool = False
    """Whether the model could have been inexact."""
    for_tightness: float = 0.0
    """The part of `spent` on the tightness term."""


def solve_scope(table: NodeTable, scorer: Scorer, question: ScopeProblem) -> ScopeResult:
    """Return the best placement in the scope within the effort."""
    try:
        return _Solve(table, scorer, question).run()
    except TooLarge:
        return ScopeResult(found=None, bound=question.bound, declined=True)


class _Solve:
    """The state of the successive solves of one scope."""

    def __init__(self, table: NodeTable, scorer: Scorer, question: ScopeProblem) -> None:
        self._table, self._scorer, self._question = table, scorer, question
        self._model = CountingModel(table, groups_of(table, question.nodes))
        for add in CONSTRAINTS.values():
            add(self._model)
        self._terms = [objective_term(self._model, name) for name in scorer.terms]
        self._found: Placement | None = None
        self._limit = question.limit
        self._bound = question.bound
        self._empty = False
        self._spent = 0.0
        self._for_tightness = 0.0
        if question.hint is not None:
            hint(self._model, question.hint)

    def run(self) -> ScopeResult:
        """Solve term by term until one is not proven."""
        if not self._terms and self._limit is None:
            self._optimise(0, None)
        for index, term in enumerate(self._terms):
            if not self._fix_term(index, term):
                break
        return ScopeResult(
            found=self._found,
            bound=self._bound,
            empty=self._empty,
            spent=self._spent,
            for_tightness=self._for_tightness,
        )

    def _fix_term(self, index: int, term: cp_model.LinearExpr) -> bool:
        """Fix a term at its minimum; False when that is unknown or nothing better remains."""
        fixed = self._bound[:index]
        if self._limit is None:
            known = index == 0
        else:
            self._model.cp.add(term <= self._limit[index])
            known = fixed == self._limit[:index]
            if known and self._bound[index] == self._limit[index]:
                return True
        if known:
            self._model.cp.add(term >= self._bound[index])
        self._model.cp.minimize(term)
        return self._optimise(index, term)

    def _optimise(self, index: int, term: cp_model.LinearExpr | None) -> bool:
        effort = self._question.effort - self._spent
        is_primary = index < self._scorer.primary
        solver = one_worker(
            self._table.rows.problem.seed, effort if is_primary else min(effort, self._question.tightness)
        )
        status = solver.solve(self._model.cp)
        self._spent += solver.deterministic_time
        self._for_tightness += 0.0 if is_primary else solver.deterministic_time
        if status == cp_model.INFEASIBLE:
            self._record_infeasible()
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return False
        least = math.ceil(solver.best_objective_bound - ROUNDING) if term is not None else 0
        self._record(index, least, solution(self._model, solver))
        if status == cp_model.OPTIMAL and term is not None:
            self._model.cp.add(term <= least)
        return bool(status == cp_model.OPTIMAL)

    def _record_infeasible(self) -> None:
        if self._limit is not None:
            self._bound = max(self._bound, self._limit)
            return
        self._empty = self._confirmed_empty()

    def _record(self, index: int, least: int, found: Placement) -> None:
        """Keep a placement and the bound proven with it."""
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
