"""Entry point of joint admission.

An answer is never worth less than the start assignment, and every answer is checked.
"""

import hashlib
from typing import Final

import msgspec

from phalanx.model.decisions import Certificate
from phalanx.solver.arrays import TooLarge
from phalanx.solver.engine import GREEDY_ONLY
from phalanx.solver.joint.arrays import JointArrays, Unsupported, joint_arrays
from phalanx.solver.joint.problem import (
    UNADMITTED_VALUE,
    Admitted,
    Declined,
    JointAnswer,
    JointAssignment,
    JointLimits,
    JointProblem,
    check_joint_assignment,
    total_value,
)
from phalanx.solver.joint.sequential import reoptimized

BY: Final = "joint"
_DEFAULT = JointLimits()


def admit(
    problem: JointProblem, start: JointAssignment, *, limits: JointLimits = _DEFAULT
) -> JointAnswer | Declined:
    """Return the most valuable admission found that admits each `must_admit` gang.

    `start` is a valid assignment with these gangs, such as that of the one-by-one order; the answer is worth
    at least as much. The same input gives the same answer.
    """
    try:
        arrays = joint_arrays(problem)
        wrong = check_joint_assignment(problem, start)
        if wrong:
            return Declined(f"the start assignment is invalid: {wrong[0]}")
        return _answer(arrays, start, limits)
    except Unsupported as error:
        return Declined(str(error))
    except TooLarge:
        return Declined("amounts are too large to stay exact")


def _answer(arrays: JointArrays, start: JointAssignment, limits: JointLimits) -> JointAnswer:
    # Imports OR-Tools, which takes a quarter of a second.
    from phalanx.solver.joint.hand_out import hand_out
    from phalanx.solver.joint.model import most_valuable

    errors: list[str] = []
    admitted, bound = None, sum(gang.value for gang in arrays.problem.gangs)
    try:
        result = most_valuable(arrays, above=total_value(arrays.problem, start), effort=limits.deterministic)
        bound = result.bound
        if result.best is not None:
            found = hand_out(arrays, result.best)
            wrong = check_joint_assignment(arrays.problem, found)
            errors.extend(f"{BY}: {error}" for error in wrong)
            admitted = None if wrong else reoptimized(arrays, found, limits=GREEDY_ONLY)
    except TooLarge:
        raise
    except Exception as error:  # an error here must not cost the gangs what one-by-one order admits
        errors.append(f"{BY}: {error!r}")
    certificate = _certificate(arrays.problem, _assignment(admitted, start), bound)
    return JointAnswer(admitted, certificate, tuple(errors))


def _assignment(admitted: tuple[Admitted, ...] | None, start: JointAssignment) -> JointAssignment:
    """The assignment of the admitted gangs; the start where nothing better was found."""
    return (
        start if admitted is None else {variable.gang: variable.placed.assignments for variable in admitted}
    )


def _certificate(problem: JointProblem, assignment: JointAssignment, bound: int) -> Certificate:
    total = sum(gang.value for gang in problem.gangs)
    objective = total - total_value(problem, assignment)
    least = min(objective, total - bound)
    return Certificate(
        terms=(UNADMITTED_VALUE,),
        objective=(objective,),
        bound=(least,),
        proven=objective == least,
        by=BY,
        fingerprint=hashlib.sha256(msgspec.json.encode(problem, order="deterministic")).hexdigest()[:32],
    )
