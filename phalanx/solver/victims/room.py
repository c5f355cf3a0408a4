"""Whether the wants fit once some units are gone: exact for one want, first fit where there are several."""

from collections.abc import Iterable, Mapping, Sequence

from phalanx.solver.victims.problem import Place, Unit, Vector, VictimProblem


class Room:
    """The room of one problem while units come and go. `chosen`: who is gone now."""

    def __init__(self, problem: VictimProblem) -> None:
        self._problem = problem
        self._order = _largest_first(problem)
        self.free = [list(place.free) for place in problem.places]
        self.chosen: set[int] = set()

    def with_needed(self, unit: int) -> list[int]:
        """The unit and all that must go with it, without those that are gone."""
        found, open_ = {unit}, [unit]
        while open_:
            for other in self._problem.units[open_.pop()].needs:
                if other not in found:
                    found.add(other)
                    open_.append(other)
        return sorted(found - self.chosen)

    def remove(self, units: Iterable[int]) -> None:
        """These units go."""
        for unit in units:
            self.chosen.add(unit)
            self._move(self._problem.units[unit], 1)

    def restore(self, units: Iterable[int]) -> None:
        """These units stay after all."""
        for unit in units:
            self.chosen.discard(unit)
            self._move(self._problem.units[unit], -1)

    def capacity(self, place: int, want: int) -> int:
        """How many pods of the want fit on the place by itself now."""
        return pods_within(
            self.free[place], self._problem.wants[want].request, self._problem.places[place].takes[want]
        )

    def keeps_floors(self, more: Iterable[int] = ()) -> bool:
        """Whether no floor is broken when these are gone too."""
        gone = self.chosen.union(more)
        return all(_within(floor.room, floor.takes, gone) for floor in self._problem.floors)

    def fits(self, places: Sequence[int]) -> bool:
        """Whether all wants fit on these places, and into the allowances."""
        return self._has_allowance() and self._are_placed(places)

    def _are_placed(self, places: Sequence[int]) -> bool:
        wants = self._problem.wants
        if len(wants) == 1:
            missing = wants[0].count
            for place in places:
                missing -= self.capacity(place, 0)
                if missing <= 0:
                    return True
            return False
        missing_of = {want: wants[want].count for want in self._order}
        for place in places:
            left = list(self.free[place])
            for want in self._order:
                request, most = wants[want].request, self._problem.places[place].takes[want]
                count = min(missing_of[want], pods_within(left, request, most))
                missing_of[want] -= count
                for index, amount in enumerate(request):
                    left[index] -= amount * count
        return not any(missing_of.values())

    def _has_allowance(self) -> bool:
        for allowance in self._problem.allowances:
            back = [vector for unit, vector in allowance.gives if unit in self.chosen]
            for position, index in enumerate(allowance.resources):
                asked = sum(want.request[index] * want.count for want in self._problem.wants)
                if asked > allowance.room[position] + sum(vector[position] for vector in back):
                    return False
        return True

    def _move(self, unit: Unit, sign: int) -> None:
        for place, vector in unit.gives:
            free = self.free[place]
            for index, amount in enumerate(vector):
                free[index] += sign * amount


def pods_within(free: Sequence[int], request: Vector, most: int) -> int:
    """How many pods of this request fit, at most `most`."""
    count = most
    for have, need in zip(free, request, strict=True):
        if need > 0 and have < need * count:
            count = max(0, have // need)
    return count


def by_domain(places: Sequence[Place]) -> Mapping[int, list[int]]:
    """The places of each domain, by index."""
    found: dict[int, list[int]] = {}
    for index, place in enumerate(places):
        if any(place.takes):
            found.setdefault(place.domain, []).append(index)
    return found


def _within(room: Vector, takes: Iterable[tuple[int, Vector]], gone: set[int]) -> bool:
    total = [0] * len(room)
    for unit, vector in takes:
        if unit in gone:
            total = [have + amount for have, amount in zip(total, vector, strict=True)]
    return all(amount <= most for amount, most in zip(total, room, strict=True))


def _largest_first(problem: VictimProblem) -> list[int]:
    """Wants in the order in which first fit does best: the largest part of any resource first."""
    most = [max(1, *amounts) for amounts in zip(*(want.request for want in problem.wants), strict=True)]

    def size(want: int) -> int:
        request = problem.wants[want].request
        return max((amount * 1000 // top for amount, top in zip(request, most, strict=True)), default=0)

    return sorted(range(len(problem.wants)), key=lambda want: (-size(want), want))
