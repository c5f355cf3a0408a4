"""Guarantees that do not fit are scaled, as docs/guarantees.md says."""

from collections.abc import Sequence
from fractions import Fraction


def scaled(asked: Sequence[int], available: int) -> list[int]:
    """Divide by the same factor, to whole units: the largest remainders first, then the first names."""
    total = sum(asked)
    if total <= available:
        return list(asked)
    exact = [Fraction(each * available, total) for each in asked]
    given = [int(each) for each in exact]
    order = sorted(range(len(asked)), key=lambda index: (given[index] - exact[index], index))
    for index in order[: available - sum(given)]:
        given[index] += 1
    return given
