"""The way in: `admit` never does worse than the arrangement it is given, and lets nothing unchecked out."""

import hashlib
from typing import Final

import msgspec

from phalanx.model.decisions import Certificate
from phalanx.solver.arrays import TooLarge
from phalanx.solver.engine import DEFAULT_LIMITS, GREEDY_ONLY
from phalanx.solver.joint.arrays import Field, field_of
from phalanx.solver.joint.checker import check_arrangement
from phalanx.solver.joint.components import Unsupported
from phalanx.solver.joint.polish import polished
from phalanx.solver.joint.problem import (
    LEFT_OUT,
    Admitted,
    Declined,
    JointAnswer,
    JointAssignment,
    JointLimits,
    JointProblem,
    worth,
)
from phalanx.solver.joint.sequence import one_by_one

BY: Final = "joint"
_DEFAULT = JointLimits()


def in_order(problem: JointProblem) -> JointAssignment | Declined:
    """What is admitted when the gangs are tried one by one in their order."""
    try:
        field = field_of(problem)
    except (Unsupported, TooLarge) as error:
        return Declined(str(error) or "amounts are too large")
    return one_by_one(field, range(len(problem.gangs)), limits=DEFAULT_LIMITS)


def admit(
    problem: JointProblem, start: JointAssignment, *, limits: JointLimits = _DEFAULT
) -> JointAnswer | Declined:
    """The most valuable admission found that holds all `must` gangs, at least as valuable as `start`.

    `start` is a sound arrangement that holds them: what one-by-one order admits. Same input, same answer.
    """
    try:
        field = field_of(problem)
        wrong = check_arrangement(problem, start)
        if wrong:
            return Declined(f"the arrangement to start from is wrong: {wrong[0]}")
        return _answer(field, start, limits)
    except Unsupported as error:
        return Declined(str(error))
    except TooLarge:
        return Declined("amounts are too large to stay exact")


def _answer(field: Field, start: JointAssignment, limits: JointLimits) -> JointAnswer:
    from phalanx.solver.joint.benders import Rounds  # takes a quarter of a second, so only where it is needed

    errors: list[str] = []
    admitted, bound = None, sum(gang.value for gang in field.problem.gangs)
    try:
        rounds = Rounds(field, start, effort=limits.deterministic)
        rounds.run()
        bound = rounds.bound
        found = None if rounds.best is start else polished(field, rounds.best, limits=GREEDY_ONLY)
        wrong = check_arrangement(field.problem, _arrangement(found, start))
        admitted = None if wrong else found
        errors.extend(f"{BY}: {each}" for each in wrong)
    except TooLarge:
        raise
    except Exception as error:  # an error here must not cost the gangs what one-by-one order admits
        errors.append(f"{BY}: {error!r}")
    certificate = _certificate(field.problem, _arrangement(admitted, start), bound)
    return JointAnswer(admitted, certificate, tuple(errors))


def _arrangement(admitted: tuple[Admitted, ...] | None, start: JointAssignment) -> JointAssignment:
    """What is admitted, as assignments; the start where nothing better was found."""
    return start if admitted is None else {one.gang: one.placed.assignments for one in admitted}


def _certificate(problem: JointProblem, arrangement: JointAssignment, bound: int) -> Certificate:
    total = sum(gang.value for gang in problem.gangs)
    objective = total - worth(problem, arrangement)
    least = min(objective, total - bound)
    return Certificate(
        terms=(LEFT_OUT,),
        objective=(objective,),
        bound=(least,),
        proven=objective == least,
        by=BY,
        fingerprint=hashlib.sha256(msgspec.json.encode(problem, order="deterministic")).hexdigest()[:32],
    )
