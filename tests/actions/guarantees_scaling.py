"""Amounts that do not fit are rounded to whole units, as docs/guarantees.md says."""

from collections.abc import Sequence
from fractions import Fraction


def scaled(asked: Sequence[int], available: int, used: Sequence[int]) -> list[int]:
    """Divide by the same factor, to whole units."""
    total = sum(asked)
    if total <= available:
        return list(asked)
    return in_units([Fraction(each * available, total) for each in asked], used)


def in_units(exact: Sequence[Fraction], used: Sequence[int]) -> list[int]:
    """Down; then the largest remainders up, among equals those that use the unit. All are of the same age."""
    given = [int(each) for each in exact]
    order = sorted(
        range(len(exact)),
        key=lambda index: (given[index] - exact[index], used[index] <= given[index], index),
    )
    for index in order[: int(sum(exact)) - sum(given)]:
        given[index] += 1
    return given
