"""Which sets of pieces are as hard to seat as a given one: what is learned of one is true of all of them."""

from collections.abc import Sequence
from itertools import pairwise

from phalanx.solver.joint.arrays import Field
from phalanx.solver.joint.plan import Share

Form = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, int, tuple[int, ...]], ...]]
"""Pods per strand and kind, and the bonds between strands; empty where there is no bond."""

Grade = tuple[tuple[int, ...], int, Form]
"""What a piece wants per kind, the depth of the level that it requires, and its form."""


def groups_like(field: Field, shares: Sequence[Share]) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Groups of confined pieces, and how many of each: whoever holds so many holds a set as hard as this one.

    Where the pieces can be ordered from hard to easy, a group is all that are at least as hard as one of
    them; elsewhere it is those that want exactly the same.
    """
    grades = [grade(field, piece) for piece in range(len(field.pieces))]
    members = [grades[share.piece] for share in shares]
    ordered = sorted(set(members), key=lambda each: (sum(each[0]), each), reverse=True)
    is_chain = all(_as_hard(hard, easy) for hard, easy in pairwise(ordered))
    groups = []
    for place, one in enumerate(ordered):
        counted = ordered[: place + 1] if is_chain else [one]
        alike = tuple(
            piece
            for piece, other in enumerate(grades)
            if field.confined(piece) and (_as_hard(other, one) if is_chain else other == one)
        )
        groups.append((alike, sum(each in counted for each in members)))
    return tuple(groups)


def grade(field: Field, piece: int) -> Grade:
    """Equal for pieces that are as hard to seat as each other."""
    own = field.pieces[piece]
    strands = tuple(field.counts(piece, [strand]) for strand in range(len(own.strands)) if own.bonds)
    bonds = tuple((bond.depth, bond.size, bond.strands) for bond in own.bonds)
    return tuple(field.wanted[piece].tolist()), own.required, (strands, bonds)


def _as_hard(hard: Grade, easy: Grade) -> bool:
    """One with bonds is as hard as one without them, but is only compared with its like."""
    if hard[1] < easy[1]:
        return False
    _, bonds = easy[2]
    return easy[0] == hard[0] and easy[2] == hard[2] if bonds else all(map(int.__ge__, hard[0], easy[0]))
