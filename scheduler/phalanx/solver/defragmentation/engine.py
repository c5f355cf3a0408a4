"""Entry point of defragmentation: greedy first, then exact search where the problem is small enough."""

from typing import Final

from phalanx.limits import MOVE_DETERMINISTIC_LIMIT
from phalanx.solver.defragmentation.greedy import greedy
from phalanx.solver.defragmentation.problem import MoveProblem, MoveResult, check
from phalanx.solver.limits import SOLVE_EFFORT_MIN

MOVE_ASSIGNMENTS_MAX: Final = 20_000
"""Pairs of a pod and a node in an exact search for moves: about 100 single pods on 200 nodes. With more,
building the model alone takes seconds."""


def plan_moves(problem: MoveProblem, *, effort: float = MOVE_DETERMINISTIC_LIMIT) -> MoveResult:
    """Return the plan that moves the fewest pods, within the effort (deterministic time units)."""
    if not problem.units or problem.moves_max < 1:
        return MoveResult(None)
    found = greedy(problem)
    least = min(unit.pods for unit in problem.units)
    if problem.size <= MOVE_ASSIGNMENTS_MAX and effort > 0:
        from phalanx.solver.defragmentation.exact import (
            fewest,  # takes a quarter of a second, so only where needed
        )

        planned = fewest(problem, known=found, effort=effort)
    else:
        planned = MoveResult(found)
    plan = planned.plan
    if plan is not None and any(check(problem, plan)):
        return MoveResult(None, spent=planned.spent)
    return MoveResult(
        plan,
        pods_bound=max(least, planned.pods_bound),
        cost_bound=planned.cost_bound,
        spent=max(planned.spent, SOLVE_EFFORT_MIN),
    )
