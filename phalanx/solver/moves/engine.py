"""Simple rules first, then the exact search where the problem is small enough for it."""

from phalanx.limits import MOVE_DETERMINISTIC_LIMIT, MOVE_SEATS_MAX, QUESTION_EFFORT_MIN
from phalanx.solver.moves.greedy import greedy
from phalanx.solver.moves.problem import MoveProblem, Planned, wrong


def plan_moves(problem: MoveProblem, *, effort: float = MOVE_DETERMINISTIC_LIMIT) -> Planned:
    """The plan that moves the fewest pods, as far as the effort (in deterministic units) reaches."""
    if not problem.units or problem.moves_max < 1:
        return Planned(None)
    found = greedy(problem)
    least = min(unit.pods for unit in problem.units)
    if problem.size <= MOVE_SEATS_MAX and effort > 0:
        from phalanx.solver.moves.exact import fewest  # takes a quarter of a second, so only where needed

        planned = fewest(problem, known=found, effort=effort)
    else:
        planned = Planned(found)
    plan = planned.plan
    if plan is not None and any(wrong(problem, plan)):
        return Planned(None, spent=planned.spent)
    return Planned(
        plan,
        pods_bound=max(least, planned.pods_bound),
        cost_bound=planned.cost_bound,
        spent=max(planned.spent, QUESTION_EFFORT_MIN),
    )
