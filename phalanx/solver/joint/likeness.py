"""Which sets of gangs are as hard to seat as a given one: what is learned of one is true of all of them."""

from collections.abc import Sequence
from itertools import pairwise

from phalanx.solver.joint.field import Field
from phalanx.solver.joint.plan import Share

Grade = tuple[tuple[int, ...], int]
"""What a gang wants per kind, and the depth of the level that it requires."""


def groups_like(field: Field, shares: Sequence[Share]) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Groups of confined gangs, and how many of each: whoever holds so many holds a set as hard as this one.

    Where the gangs can be ordered from hard to easy, a group is all that are at least as hard as one of them;
    elsewhere it is those that want exactly the same.
    """
    grades = [_grade(field, gang) for gang in range(len(field.wanted))]
    members = [grades[share.gang] for share in shares]
    ordered = sorted(set(members), key=lambda grade: (sum(grade[0]), grade), reverse=True)
    is_chain = all(_as_hard(hard, easy) for hard, easy in pairwise(ordered))
    groups = []
    for place, grade in enumerate(ordered):
        counted = ordered[: place + 1] if is_chain else [grade]
        alike = tuple(
            gang
            for gang, other in enumerate(grades)
            if field.confined(gang) and (_as_hard(other, grade) if is_chain else other == grade)
        )
        groups.append((alike, sum(each in counted for each in members)))
    return tuple(groups)


def _grade(field: Field, gang: int) -> Grade:
    return tuple(field.wanted[gang].tolist()), field.required[gang]


def _as_hard(hard: Grade, easy: Grade) -> bool:
    return hard[1] >= easy[1] and all(map(int.__ge__, hard[0], easy[0]))
