"""The most pods of a problem that fit at once: any number of each role, under all rules.

A search that is stopped keeps the largest roles, as a search for a whole gang should, and so few pods. Then
the smallest pods are tried, as many as a greedy search places.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from msgspec import Struct, structs

from phalanx.rules.problem import Assignment, PlacementProblem
from phalanx.solver.answer import Answer, Placed
from phalanx.solver.engine import GREEDY_ONLY, place


class LargestFit(Struct, frozen=True):
    """As many pods as fit at once."""

    counts: tuple[int, ...]
    """By role."""
    assignments: tuple[Assignment, ...]
    proven: bool
    """Whether no more fit."""


def largest_fit(core: PlacementProblem, answer: Callable[[PlacementProblem], Answer | None]) -> LargestFit:
    """The most pods of the problem that fit at once, as far as `answer` finds them."""
    first = answer(with_any_number(core))
    found = as_largest_fit(core, first)
    if found.proven or first is None:
        return found
    smallest = _smallest_pods(core)
    count = sum(assignment.count for assignment in smallest)
    return _fit(core, smallest, most=_most(core, first)) if count > sum(found.counts) else found


def with_any_number(core: PlacementProblem) -> PlacementProblem:
    """The problem of placing as many pods as possible."""
    return structs.replace(core, roles=tuple(structs.replace(role, minimum=0) for role in core.roles))


def as_largest_fit(core: PlacementProblem, answer: Answer | None) -> LargestFit:
    """What an answer to `with_any_number` says. If not even no pod at all is allowed, none fits."""
    if isinstance(answer, Placed):
        return _fit(core, answer.assignments, most=_most(core, answer))
    return LargestFit((0,) * len(core.roles), (), proven=answer is not None and answer.proven)


def _fit(core: PlacementProblem, assignments: Sequence[Assignment], *, most: int) -> LargestFit:
    counts = [0] * len(core.roles)
    for assignment in assignments:
        counts[assignment.role] += assignment.count
    return LargestFit(tuple(counts), tuple(assignments), proven=sum(counts) >= most)


def _smallest_pods(core: PlacementProblem) -> Sequence[Assignment]:
    """As many of the smallest pods as a greedy search places."""
    kinds = sorted(range(len(core.roles)), key=_shares(core).__getitem__)
    pods = [role for role in kinds for _ in range(core.roles[role].maximum)]

    def placed(count: int) -> Sequence[Assignment]:
        wanted = Counter(pods[:count])
        roles = tuple(
            structs.replace(role, minimum=wanted[index], maximum=wanted[index])
            for index, role in enumerate(core.roles)
        )
        answer = place(structs.replace(core, roles=roles), limits=GREEDY_ONLY)
        return answer.assignments if isinstance(answer, Placed) else ()

    enough = bisect_left(range(1, len(pods) + 1), True, key=lambda count: not placed(count))
    return placed(enough)


def _shares(core: PlacementProblem) -> list[Fraction]:
    """For each role, the largest part of any resource of all nodes that one pod takes."""
    free = [(group.free, len(group.nodes)) for group in core.classes]
    resources = range(len(core.resources))
    total = [max(1, sum(amounts[index] * nodes for amounts, nodes in free)) for index in resources]
    return [
        max((Fraction(role.request[index], total[index]) for index in resources), default=Fraction(0))
        for role in core.roles
    ]


def _most(core: PlacementProblem, answer: Answer) -> int:
    """No more pods fit: by the answer, or by counting."""
    counted = _most_by_counting(core)
    if not isinstance(answer, Placed):
        return counted
    return min(counted, sum(role.maximum for role in core.roles) - answer.certificate.bound[0])


def _most_by_counting(core: PlacementProblem) -> int:
    """At most so many pods fit: the smallest requests of each resource, in the free amounts of all nodes."""
    total = most = sum(role.maximum for role in core.roles)
    for index in range(len(core.resources)):
        asked = sorted((role.request[index], role.maximum) for role in core.roles if role.request[index])
        if not asked:
            continue
        free = [(group.free[index], len(group.nodes)) for group in core.classes]
        left, fit = sum(amount * nodes for amount, nodes in free), 0
        for need, count in asked:
            more = min(count, left // need)
            fit, left = fit + more, left - more * need
        fit = min(fit, sum(amount // asked[0][0] * nodes for amount, nodes in free))
        most = min(most, total - sum(count for _, count in asked) + fit)
    return most
