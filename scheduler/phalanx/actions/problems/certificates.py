"""Certify a placement again, after other placements of the cycle have changed."""

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.joint_problem import solver_assignments
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.solver.engine import place
from phalanx.solver.objective import Scorer, certify
from phalanx.solver.problem import Placed


def certified_again(problems: ProblemBuilder, placement: DemandPlacement) -> DemandPlacement:
    """The placement with a certificate about the session as it is now, which must not contain it."""
    if placement.certificate is None:
        return placement
    nodes = tuple(node for node, _ in placement.assignments)
    problem = problems.build_problem(placement.demand, listing=nodes).problem
    scorer, assignments = Scorer(problem), solver_assignments(placement)
    score, best = scorer.score(assignments), place(problem)
    if not isinstance(best, Placed):
        return placement
    bound = min(best.certificate.bound, score)
    certified = certify(scorer, assignments, bound=bound, by=best.certificate.by)
    return replace(placement, certificate=certified.certificate)


def certified_elsewhere(problems: ProblemBuilder, demand: Demand, answer: Placed) -> Placed:
    """An answer that was found without some nodes, with a bound for the problem that has them.

    Placements there may not be possible: the problem does not say which claims would lack volumes or devices.
    The bound is found for the present choice of devices that members share, and without reservations.
    """
    nodes = tuple(dict.fromkeys(each.node for each in answer.assignments))
    problem = problems.build_problem(demand, listing=nodes).problem
    scorer, best = Scorer(problem), place(problem)
    if not isinstance(best, Placed):
        return answer
    bound = min(best.certificate.bound, scorer.score(answer.assignments))
    certified = certify(scorer, answer.assignments, bound=bound, by=best.certificate.by)
    return replace(certified, errors=answer.errors)
