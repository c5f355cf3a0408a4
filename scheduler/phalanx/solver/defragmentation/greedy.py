"""Moves by simple rules: clear one domain unit by unit, and seat whoever must go in free room elsewhere."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from phalanx.limits import MOVE_DOMAINS_MAX
from phalanx.solver.defragmentation.problem import MovePlan, MoveProblem, Placements, PodSet, grouped, price


def greedy(problem: MoveProblem) -> MovePlan | None:
    """The best of what the rules find in any domain of the demand."""
    best: MovePlan | None = None
    for places in _nearest(problem):
        for order in _orders(problem, places):
            plan = _cleared(problem, places, order)
            if plan is not None and (best is None or _key(plan) < _key(best)):
                best = plan
    return best


def _nearest(problem: MoveProblem) -> list[list[int]]:
    """Some of the domains of the demand, those first that lack least."""
    resources = range(len(problem.demand[0].request))
    needs = [sum(part.request[index] * part.count for part in problem.demand) for index in resources]

    def least_part(places: Sequence[int]) -> int:
        """How much is free there of what it needs, in thousandths: of the scarcest resource."""
        totals = [sum(max(0, problem.free[place][index]) for place in places) for index in resources]
        return min((1000 * have // need for have, need in zip(totals, needs, strict=True) if need), default=0)

    domains = grouped(problem.demand, problem.domains).values()
    return sorted(domains, key=lambda places: -least_part(places))[:MOVE_DOMAINS_MAX]


def _orders(problem: MoveProblem, places: Sequence[int]) -> Iterator[list[int]]:
    """The units there: the smallest first, those that give most room per pod, and place by place."""
    inside = frozenset(places)
    asked = [max(1, sum(amounts)) for amounts in zip(*(part.request for part in problem.demand), strict=True)]
    given = {
        index: sum(
            1000 * amount // most
            for place, vector in unit.gives
            if place in inside
            for amount, most in zip(vector, asked, strict=True)
        )
        for index, unit in enumerate(problem.units)
        if any(place in inside for place, _ in unit.gives)
    }
    units = problem.units
    yield sorted(given, key=lambda index: (units[index].pods, units[index].cost, index))
    yield sorted(given, key=lambda index: (-given[index] // units[index].pods, units[index].cost, index))
    yield _place_by_place(problem, places)


def _place_by_place(problem: MoveProblem, places: Sequence[int]) -> list[int]:
    """Who must go so that one more of the largest pods fits on a place; first where they are fewest."""
    part = max(problem.demand, key=lambda part: sum(part.request))
    there: dict[int, list[int]] = {place: [] for place in places if place in part.takes}
    for index, unit in enumerate(problem.units):
        for place, _ in unit.gives:
            if place in there:
                there[place].append(index)
    found: list[tuple[int, int, int, list[int]]] = []
    for place, units in there.items():
        chosen = _enough(problem, part, place, units)
        if chosen:
            found.append((*price(problem, chosen), place, chosen))
    return list(dict.fromkeys(unit for *_, chosen in sorted(found) for unit in chosen))


def _enough(problem: MoveProblem, part: PodSet, place: int, units: Sequence[int]) -> list[int]:
    """Units whose end lets one more pod fit there, none where nobody's end is enough; no needless ones."""
    gives = {unit: dict(problem.units[unit].gives)[place] for unit in units}

    def fits(chosen: Sequence[int], more: int) -> bool:
        given = [sum(amounts) for amounts in zip(*(gives[unit] for unit in chosen), strict=True)]
        free = [have + back for have, back in zip(problem.free[place], given, strict=True)]
        return _fitting(replace(part, takes={place: more}), place, free) >= more

    already = max(0, _fitting(part, place, problem.free[place]))
    chosen: list[int] = []
    for unit in sorted(
        units, key=lambda index: (problem.units[index].pods, problem.units[index].cost, index)
    ):
        chosen.append(unit)
        if fits(chosen, already + 1):
            break
    else:
        return []
    for unit in sorted(chosen, key=lambda index: -problem.units[index].pods):
        fewer = [other for other in chosen if other != unit]
        chosen = fewer if fewer and fits(fewer, already + 1) else chosen
    return chosen


def _cleared(problem: MoveProblem, places: Sequence[int], order: Sequence[int]) -> MovePlan | None:
    """As many units in this order as it takes, then without those that turn out to be needless."""
    chosen: list[int] = []
    plan: MovePlan | None = None
    for unit in order:
        if plan is not None or len(chosen) == problem.moves_max:
            break
        chosen.append(unit)
        plan = _seated(problem, places, chosen)
    if plan is None:
        return None
    for unit in sorted(plan.units, key=lambda index: -problem.units[index].pods):
        fewer = [other for other in plan.units if other != unit]
        plan = (_seated(problem, places, fewer) if fewer else None) or plan
    return plan


def _seated(problem: MoveProblem, places: Sequence[int], chosen: Iterable[int]) -> MovePlan | None:
    """Where all go by first fit: the moved ones outside the domain if they can, the demand inside."""
    units = tuple(sorted(chosen))
    room = _Room(problem, units)
    if room.find(problem.demand, places) is None:
        return None
    moved: dict[int, Placements] = {}
    for unit in sorted(units, key=lambda index: (-problem.units[index].pods, index)):
        seats = room.seat_unit(unit, frozenset(places))
        if seats is None:
            return None
        moved[unit] = seats
    seats = room.find(problem.demand, places)
    if seats is None:
        return None
    pods, cost = price(problem, units)
    return MovePlan(units, seats, tuple(moved[unit] for unit in units), pods, cost)


class _Room:
    """What is free once these units have ended, less what was seated since."""

    def __init__(self, problem: MoveProblem, ended: Iterable[int]) -> None:
        self._problem = problem
        self._free = [list(each) for each in problem.free]
        for unit in ended:
            for place, vector in problem.units[unit].gives:
                for resource, amount in enumerate(vector):
                    self._free[place][resource] += amount

    def seat_unit(self, unit: int, last: frozenset[int]) -> Placements | None:
        """Seat a unit that was moved, on the places `last` only where it must; the fullest places first."""
        whole = self._problem.units[unit]
        found: list[tuple[int, Placements]] = []
        for places in grouped(whole.parts, whole.domains).values():
            order = sorted(places, key=lambda place: (place in last, sum(self._free[place]), place))
            seats = self.find(whole.parts, order)
            if seats is not None:
                found.append((sum(place in last for part in seats for place, _ in part), seats))
        if not found:
            return None
        seats = min(found, key=lambda each: each[0])[1]
        for part, where in zip(whole.parts, seats, strict=True):
            for place, count in where:
                self._take(part, place, count)
        return seats

    def find(self, parts: Sequence[PodSet], places: Sequence[int]) -> Placements | None:
        """Seats on these places, by first fit, the largest pods first; None where that finds none."""
        left: dict[int, list[int]] = {}
        seats: dict[int, list[tuple[int, int]]] = {index: [] for index in range(len(parts))}
        for index in sorted(seats, key=lambda index: (-sum(parts[index].request), index)):
            part, missing = parts[index], parts[index].count
            for place in places:
                if not missing:
                    break
                count = min(missing, _fitting(part, place, left.get(place, self._free[place])))
                if count:
                    seats[index].append((place, count))
                    missing -= count
                    room = left.setdefault(place, list(self._free[place]))
                    for resource, amount in enumerate(part.request):
                        room[resource] -= amount * count
            if missing:
                return None
        return tuple(tuple(sorted(seats[index])) for index in range(len(parts)))

    def _take(self, part: PodSet, place: int, count: int) -> None:
        for resource, amount in enumerate(part.request):
            self._free[place][resource] -= amount * count


def _fitting(part: PodSet, place: int, free: Sequence[int]) -> int:
    """How many pods fit; none where less than nothing is free of anything."""
    if min(free, default=0) < 0:
        return 0
    fitting = (have // need for have, need in zip(free, part.request, strict=True) if need)
    return min(part.takes.get(place, 0), min(fitting, default=part.count))


def _key(plan: MovePlan) -> tuple[int, int, tuple[int, ...]]:
    return plan.pods, plan.cost, plan.units
