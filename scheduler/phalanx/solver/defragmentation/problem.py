"""Moves as data: what is wanted, what is free, and the units that may be moved."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

Vector = tuple[int, ...]
"""Amounts per resource, aligned over the whole problem."""


class PodSet(Struct, frozen=True):
    """Interchangeable pods: `count` of them must be seated, at most `takes` of them on each place, by index.

    A place that is absent takes none.
    """

    request: Vector
    count: int
    takes: Mapping[int, int]


class MoveUnit(Struct, frozen=True):
    """Pods that run and are moved together or not at all.

    `gives`: what their end frees, by index of the place. `domains`: per place, by index, the domain in which
    it lies, where one domain must hold all of the pods; None where none must. A place without one takes none.
    """

    pods: int
    cost: int
    gives: tuple[tuple[int, Vector], ...]
    parts: tuple[PodSet, ...]
    domains: Mapping[int, int] | None = None


class MoveProblem(Struct, frozen=True, dict=True):
    """Move units so that the demand is seated, in one of its domains, and every unit that was moved too.

    `free` per place may be negative, as room can be promised that is not there yet: then nothing may be
    seated on the place until it is not. At most `moves_max` units are moved, at least one is.
    """

    free: tuple[Vector, ...]
    demand: tuple[PodSet, ...]
    domains: Mapping[int, int] | None
    units: tuple[MoveUnit, ...]
    moves_max: int
    seed: int = 0

    @cached_property
    def size(self) -> int:
        """How many pairs there are of a part and a place that takes some of it."""
        parts = [*self.demand, *(part for unit in self.units for part in unit.parts)]
        return sum(len(part.takes) for part in parts)


Placements = tuple[tuple[tuple[int, int], ...], ...]
"""Per part, the places and how many of its pods each takes."""


class MovePlan(Struct, frozen=True):
    """The units that are moved, ascending, where the demand goes, and where each of those units goes."""

    units: tuple[int, ...]
    seats: Placements
    moved: tuple[Placements, ...]
    pods: int
    cost: int


class MoveResult(Struct, frozen=True):
    """The best plan found, None where there is none, or none was found.

    No plan moves fewer than `pods_bound` pods, and none that moves as few as this one costs less than
    `cost_bound`. `spent` in deterministic units.
    """

    plan: MovePlan | None
    pods_bound: int = 0
    cost_bound: int = 0
    spent: float = 0.0


def price(problem: MoveProblem, units: Sequence[int]) -> tuple[int, int]:
    """How many pods that moves, and at what cost."""
    return sum(problem.units[unit].pods for unit in units), sum(problem.units[unit].cost for unit in units)


def grouped(parts: Sequence[PodSet], domains: Mapping[int, int] | None) -> dict[int, list[int]]:
    """Per domain that may hold all parts, the places that take any of it; without domains all is one."""
    found: dict[int, list[int]] = {}
    for place in sorted({place for part in parts for place in part.takes}):
        if domains is None:
            found.setdefault(0, []).append(place)
        elif place in domains:
            found.setdefault(domains[place], []).append(place)
    return {
        domain: places
        for domain, places in sorted(found.items())
        if all(sum(part.takes.get(place, 0) for place in places) >= part.count for part in parts)
    }


def wrong(problem: MoveProblem, plan: MovePlan) -> Iterator[str]:
    """What is wrong with this plan, in words, looked at in plain Python from the problem alone."""
    if list(plan.units) != sorted(set(plan.units)) or not 1 <= len(plan.units) <= problem.moves_max:
        yield f"{plan.units} are moved"
    if (plan.pods, plan.cost) != price(problem, plan.units):
        yield "the price is another one"
    free = [list(each) for each in problem.free]
    for unit in plan.units:
        for place, vector in problem.units[unit].gives:
            free[place] = [have + more for have, more in zip(free[place], vector, strict=True)]
    whole = [(problem.demand, problem.domains, plan.seats)]
    whole += [
        (problem.units[unit].parts, problem.units[unit].domains, seats)
        for unit, seats in zip(plan.units, plan.moved, strict=True)
    ]
    for parts, domains, seats in whole:
        yield from _misplaced(parts, domains, seats)
        for part, places in zip(parts, seats, strict=True):
            for place, count in places:
                taken = [amount * count for amount in part.request]
                free[place] = [have - more for have, more in zip(free[place], taken, strict=True)]
    used = {place for _, _, seats in whole for places in seats for place, _ in places}
    yield from (f"place {place} lacks room" for place in sorted(used) if min(free[place], default=0) < 0)


def _misplaced(
    parts: Sequence[PodSet], domains: Mapping[int, int] | None, seats: Placements
) -> Iterator[str]:
    for part, places in zip(parts, seats, strict=True):
        if sum(count for _, count in places) != part.count:
            yield f"{places} for {part.count} pods"
        yield from (f"{n} pods on place {place}" for place, n in places if n > part.takes.get(place, 0))
    if domains is not None and len({domains.get(place) for places in seats for place, _ in places}) > 1:
        yield "more than one domain"
