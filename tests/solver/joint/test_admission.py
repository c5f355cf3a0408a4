"""Joint admission against brute force, and what it promises beside one-by-one order."""

from hypothesis import given
from msgspec import structs

from phalanx.solver.joint.checker import check_arrangement
from phalanx.solver.joint.engine import admit, in_order
from phalanx.solver.joint.problem import Arrangement, Declined, JointAnswer, JointProblem, worth
from tests.solver.joint.small import best_value, joint_problems
from tests.solver.problems import bounded


def arrangement(answer: JointAnswer, start: Arrangement) -> Arrangement:
    """Who is admitted, and where."""
    if answer.admitted is None:
        return start
    return {one.gang: one.placed.assignments for one in answer.admitted}


@given(joint_problems())
@bounded(150)
def test_value_is_proven_and_what_brute_force_finds(problem: JointProblem) -> None:
    start = in_order(problem)
    assert not isinstance(start, Declined)
    for kept in (True, False):
        gangs = tuple(
            structs.replace(each, must=kept and index in start) for index, each in enumerate(problem.gangs)
        )
        posed = structs.replace(problem, gangs=gangs)
        answer = admit(posed, start)
        assert isinstance(answer, JointAnswer)
        assert answer.defects == ()
        found = arrangement(answer, start)
        assert check_arrangement(posed, found) == ()
        total, best = sum(each.value for each in gangs), best_value(posed)
        assert total - answer.certificate.bound[0] >= best
        assert answer.certificate.proven
        assert worth(posed, found) == best == total - answer.certificate.objective[0]
        if kept:
            assert start.keys() <= found.keys()
        assert worth(posed, found) >= worth(posed, start)
