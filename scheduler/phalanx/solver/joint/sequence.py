"""One gang after the other, each by the solver of single gangs: what joint admission is never worse than."""

from collections.abc import Iterable

from phalanx.solver.engine import place
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.problem import JointAssignment
from phalanx.solver.joint.sequential import Room
from phalanx.solver.problem import Placed, SolveLimits


def one_by_one(
    field: Field, gangs: Iterable[int], *, limits: SolveLimits, start: JointAssignment | None = None
) -> JointAssignment:
    """What is admitted when these gangs are tried in this order, on top of `start`."""
    arrangement = dict(start or {})
    room = Room(field.problem, field.limits)
    for gang, assignments in arrangement.items():
        room.put(gang, assignments)
    for gang in gangs:
        answer = place(room.problem_of(gang), limits=limits)
        if isinstance(answer, Placed):
            arrangement[gang] = answer.assignments
            room.put(gang, answer.assignments)
    return arrangement
