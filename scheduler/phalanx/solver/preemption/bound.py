"""What any choice costs at least, by counting.

The cost of a unit is divided among the places on which no more fits while it stays. What all of them leave on
a place is then the least that one more pod there adds to any choice, and so many pods need the cheapest of
these. It is weak where gangs lie scattered, but it takes no search.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from phalanx.solver.preemption.capacity import pods_that_fit
from phalanx.solver.preemption.problem import PreemptionProblem, TargetNode, Vector
from phalanx.solver.preemption.scopes import Scope

SCALE: Final = 1 << 20
"""Parts of a cost, rounded down."""


def least_cost(problem: PreemptionProblem, scope: Scope) -> int:
    """The largest of such bounds over all wants, each as if there were no other."""
    on = scope.on_place()
    return max((_least_of(problem, scope, on, want) for want in range(len(problem.wants))), default=0)


def _least_of(
    problem: PreemptionProblem, scope: Scope, on: Mapping[int, Sequence[tuple[int, Vector]]], want: int
) -> int:
    missing = problem.wants[want].count
    gains: list[tuple[int, Sequence[int]]] = []
    for place in scope.places:
        now, most, needed = _needed(problem, problem.places[place], on.get(place, ()), want)
        missing -= now
        if most > now:
            gains.append((most - now, needed))
    parts: dict[int, int] = {}
    for _, needed in gains:
        for unit in needed:
            parts[unit] = parts.get(unit, 0) + 1
    prices = (
        (sum(problem.units[unit].cost * SCALE // parts[unit] for unit in needed) // gain, gain)
        for gain, needed in gains
    )
    return -(-sum(_cheapest(sorted(prices), missing)) // SCALE)


def _needed(
    problem: PreemptionProblem, place: TargetNode, gives: Sequence[tuple[int, Vector]], want: int
) -> tuple[int, int, Sequence[int]]:
    """How many fit now, how many if all were gone, and who must go for one more."""
    request, most = problem.wants[want].request, place.takes[want]
    now = pods_that_fit(place.free, request, most)
    if now == most or not gives:
        return now, now, ()
    vacant = [sum(amounts) for amounts in zip(place.free, *(vector for _, vector in gives), strict=True)]
    most = pods_that_fit(vacant, request, most)
    needed = [
        unit
        for unit, vector in gives
        if most > now
        and pods_that_fit([have - amount for have, amount in zip(vacant, vector, strict=True)], request, most)
        <= now
    ]
    return now, most, needed


def _cheapest(prices: Sequence[tuple[int, int]], missing: int) -> Iterator[int]:
    for price, gain in prices:
        if missing <= 0:
            break
        yield price * min(gain, missing)
        missing -= gain
