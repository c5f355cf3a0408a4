"""Certify a placement again, after other placements of the cycle have changed."""

from collections.abc import Sequence

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.joint_problem import solver_assignments
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.rules.problem import Assignment
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place
from phalanx.solver.objective import Scorer, certify


def certified_again(problems: ProblemBuilder, placement: DemandPlacement) -> DemandPlacement:
    """The placement with a certificate about the session as it is now, which must not contain it."""
    if placement.certificate is None:
        return placement
    certified = _certified(problems, placement.demand, solver_assignments(placement))
    return placement if certified is None else replace(placement, certificate=certified.certificate)


def certified_elsewhere(problems: ProblemBuilder, demand: Demand, answer: Placed) -> Placed:
    """An answer that was found without some nodes, or without placements that may be possible on some nodes,
    with a bound for the problem that has them.

    Placements there may not be possible: the problem does not say which claims would lack volumes or devices.
    The bound is found for the present choice of devices that members share, and without reservations.
    """
    certified = _certified(problems, demand, answer.assignments)
    return answer if certified is None else replace(certified, errors=answer.errors)


def _certified(problems: ProblemBuilder, demand: Demand, assignments: Sequence[Assignment]) -> Placed | None:
    """The assignments, with the bound of the present problem; None if nothing is found for that."""
    nodes = tuple(dict.fromkeys(each.node for each in assignments))
    problem = problems.build_problem(demand, listing=nodes).problem
    scorer, best = Scorer(problem), place(problem)
    if not isinstance(best, Placed):
        return None
    bound = min(best.certificate.bound, scorer.score(assignments))
    return certify(scorer, assignments, bound=bound, by=best.certificate.by)
