"""The start of joint admission in benchmarks and tests: gangs are placed one by one in queue order."""

from phalanx.solver.arrays import TooLarge
from phalanx.solver.engine import DEFAULT_LIMITS
from phalanx.solver.joint.arrays import joint_arrays
from phalanx.solver.joint.components import Unsupported
from phalanx.solver.joint.problem import Declined, JointAssignment, JointProblem
from phalanx.solver.joint.sequential import one_by_one


def admit_in_queue_order(problem: JointProblem) -> JointAssignment | Declined:
    """Return the assignment of the gangs that are placed one by one in queue order."""
    try:
        arrays = joint_arrays(problem)
    except (Unsupported, TooLarge) as error:
        return Declined(str(error) or "amounts are too large")
    return one_by_one(arrays, range(len(problem.gangs)), limits=DEFAULT_LIMITS)
