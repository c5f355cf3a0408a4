"""Victims by two simple rules, each with a second look: cheapest first, and most room for the cost.

Whatever the second look finds to be needless stays. The better of both is the start of the exact search, and
the answer where that comes to no end.
"""

from collections.abc import Sequence

from phalanx.solver.victims.problem import Choice, VictimProblem
from phalanx.solver.victims.room import Room


def greedy(problem: VictimProblem, places: Sequence[int]) -> Choice | None:
    """The cheaper choice of both rules within these places; None where neither finds one."""
    found = [
        choice
        for choice in (cheapest_first(problem, places), most_for_the_cost(problem, places))
        if choice is not None
    ]
    return min(found, key=lambda choice: (choice.cost, choice.units), default=None)


def cheapest_first(problem: VictimProblem, places: Sequence[int]) -> Choice | None:
    """Whoever costs least goes first, until all fits."""
    room, inside = Room(problem), set(places)
    touching = [unit for unit in range(len(problem.units)) if _touches(problem, unit, inside)]
    for unit in sorted(touching, key=lambda unit: (problem.units[unit].cost, unit)):
        if room.fits(places):
            break
        more = room.with_needed(unit)
        if room.keeps_floors(more):
            room.remove(more)
    return _second_look(problem, room, places)


def most_for_the_cost(problem: VictimProblem, places: Sequence[int]) -> Choice | None:
    """The place where one more pod costs least is cleared for it, again and again."""
    room = Room(problem)
    on = _units_on(problem, places)
    prices: dict[int, tuple[int, list[int]] | None] = {}
    while not room.fits(places):
        for place in places:
            if place not in prices:
                prices[place] = _price_of_one_more(problem, room, place, on.get(place, []))
        offers = [(offer[0], place) for place, offer in prices.items() if offer is not None]
        if not offers:
            break
        _, best = min(offers)
        offer = prices[best]
        assert offer is not None
        room.remove(offer[1])
        touched = {place for unit in offer[1] for place, _ in problem.units[unit].gives}
        for place in list(prices):
            if problem.floors or place in touched or _shares_units(prices[place], offer[1]):
                del prices[place]
    return _second_look(problem, room, places)


def _shares_units(offer: tuple[int, list[int]] | None, gone: Sequence[int]) -> bool:
    """Whether some of those who would go for it are gone: they must go with units on several places."""
    return offer is not None and not set(gone).isdisjoint(offer[1])


def _price_of_one_more(
    problem: VictimProblem, room: Room, place: int, units: Sequence[int]
) -> tuple[int, list[int]] | None:
    """What it costs per pod to fit more of the first want that can, and who goes; None where nobody can."""
    for want in range(len(problem.wants)):
        before = room.capacity(place, want)
        gone: list[int] = []
        waiting = [unit for unit in units if unit not in room.chosen]
        while room.capacity(place, want) <= before and waiting:
            unit = waiting.pop(0)
            more = room.with_needed(unit)
            if room.keeps_floors(more):
                room.remove(more)
                gone += more
        gain = room.capacity(place, want) - before
        if gain > 0:
            gone = _without_needless(problem, room, gone, place, want)
        room.restore(gone)
        if gain > 0:
            cost = sum(problem.units[unit].cost for unit in gone)
            return -(-cost // gain), gone
    return None


def _without_needless(
    problem: VictimProblem, room: Room, gone: Sequence[int], place: int, want: int
) -> list[int]:
    """Of those just removed, they stay removed without whom fewer pods would fit on the place."""
    kept = list(gone)
    count = room.capacity(place, want)
    for unit in sorted(gone, key=lambda unit: (-problem.units[unit].cost, unit)):
        if any(unit in problem.units[other].needs for other in kept):
            continue
        room.restore([unit])
        if room.capacity(place, want) < count:
            room.remove([unit])
        else:
            kept.remove(unit)
    return kept


def _second_look(problem: VictimProblem, room: Room, places: Sequence[int]) -> Choice | None:
    """Those stay without whom it fits as well, the dearest first."""
    if not room.fits(places):
        return None
    for unit in sorted(room.chosen, key=lambda unit: (-problem.units[unit].cost, unit)):
        is_needed = any(unit in problem.units[other].needs for other in room.chosen)
        if is_needed:
            continue
        room.restore([unit])
        if not room.fits(places):
            room.remove([unit])
    chosen = tuple(sorted(room.chosen))
    return Choice(units=chosen, cost=problem.cost_of(chosen), bound=0)


def _units_on(problem: VictimProblem, places: Sequence[int]) -> dict[int, list[int]]:
    """Who gives room on each place, the cheapest for what it gives in all first."""
    inside, found = set(places), dict[int, list[int]]()
    for unit in sorted(range(len(problem.units)), key=lambda unit: (problem.units[unit].cost, unit)):
        for place, _ in problem.units[unit].gives:
            if place in inside:
                found.setdefault(place, []).append(unit)
    return found


def _touches(problem: VictimProblem, unit: int, inside: set[int]) -> bool:
    """Whether it frees room there, or pays into an allowance."""
    pays = any(payer == unit for allowance in problem.allowances for payer, _ in allowance.gives)
    return pays or any(place in inside for place, _ in problem.units[unit].gives)
