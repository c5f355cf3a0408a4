"""Each admitted gang is taken up and put down again where it lies best while all others stay."""

from collections.abc import Iterator

from phalanx.solver.certify import certified
from phalanx.solver.engine import place
from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.problem import Admitted, JointAssignment
from phalanx.solver.joint.sequential import Room
from phalanx.solver.objective import DOMAINS, Scorer
from phalanx.solver.problem import Assignment, Placed, PlacementProblem, SolveLimits

BY = "joint"


def polished(field: Field, arrangement: JointAssignment, *, limits: SolveLimits) -> tuple[Admitted, ...]:
    """All gangs, none worse than before, each with a certificate of its own."""
    room = Room(field.problem, field.limits)
    for gang, assignments in arrangement.items():
        room.put(gang, assignments)
    return tuple(_each(arrangement, room, limits))


def _each(arrangement: JointAssignment, room: Room, limits: SolveLimits) -> Iterator[Admitted]:
    for gang, assignments in sorted(arrangement.items()):
        room.put(gang, assignments, sign=-1)
        placed = _better(room.problem_of(gang), assignments, limits)
        room.put(gang, placed.assignments)
        yield Admitted(gang, placed)


def _better(problem: PlacementProblem, assignments: tuple[Assignment, ...], limits: SolveLimits) -> Placed:
    scorer = Scorer(problem)
    score = scorer.score(assignments)
    if all(term.startswith(DOMAINS) and value == 1 for term, value in zip(scorer.terms, score, strict=True)):
        return certified(scorer, assignments, bound=None, by=BY)
    answer = place(problem, limits=limits)
    if isinstance(answer, Placed) and answer.certificate.objective <= score:
        return answer
    least = tuple(
        1 if term.startswith(DOMAINS) else min(0, value)
        for term, value in zip(scorer.terms, score, strict=True)
    )
    return certified(scorer, assignments, bound=min(least, score), by=BY)
