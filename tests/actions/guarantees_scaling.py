"""Amounts that do not fit are rounded to whole units, as docs/guarantees.md says."""

from collections.abc import Sequence
from fractions import Fraction

Claims = Sequence[tuple[int, int]]
"""Of each queue, what it uses, and when its oldest waiting gang was created."""


def scaled(asked: Sequence[int], available: int, claims: Claims) -> list[int]:
    """Divide by the same factor, to whole units."""
    total = sum(asked)
    if total <= available:
        return list(asked)
    return in_units([Fraction(each * available, total) for each in asked], claims)


def in_units(exact: Sequence[Fraction], claims: Claims) -> list[int]:
    """Down; then the largest remainders up, among equals those that use the unit, then who waits longest.

    All queues are of the same age.
    """
    given = [int(each) for each in exact]
    order = sorted(
        range(len(exact)),
        key=lambda index: (
            given[index] - exact[index],
            claims[index][0] <= given[index],
            claims[index][1],
            index,
        ),
    )
    for index in order[: int(sum(exact)) - sum(given)]:
        given[index] += 1
    return given
