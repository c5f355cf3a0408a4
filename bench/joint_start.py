"""The start of joint admission in benchmarks and tests: gangs are placed one by one in queue order."""

from phalanx.rules.problem import Assignment
from phalanx.solver.answer import Placed
from phalanx.solver.arrays import TooLarge
from phalanx.solver.engine import DEFAULT_LIMITS, place
from phalanx.solver.joint.arrays import Unsupported, joint_arrays
from phalanx.solver.joint.problem import Declined, JointAssignment, JointProblem
from phalanx.solver.joint.sequential import ResidualCapacity


def admit_in_queue_order(problem: JointProblem) -> JointAssignment | Declined:
    """Return the assignment of the gangs that are placed one by one in queue order."""
    try:
        arrays = joint_arrays(problem)
    except (Unsupported, TooLarge) as error:
        return Declined(str(error) or "amounts are too large")
    residual = ResidualCapacity(problem, arrays.limits)
    found: dict[int, tuple[Assignment, ...]] = {}
    for gang in range(len(problem.gangs)):
        answer = place(residual.problem_of(gang), limits=DEFAULT_LIMITS)
        if isinstance(answer, Placed):
            found[gang] = answer.assignments
            residual.take(gang, answer.assignments)
    return found
