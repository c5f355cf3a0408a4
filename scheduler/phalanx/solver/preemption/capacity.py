"""Whether the wants fit once some units are gone: exact for one want, first fit where there are several.

What is known of a place is worked out anew only when units have come or gone there.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from phalanx.solver.preemption.problem import EvictionLimit, PreemptionProblem, Vector
from phalanx.solver.preemption.scopes import Scope, whole


class CapacityTracker:
    """The room in one scope, all of the problem if none is given, while units come and go.

    `chosen`: who is gone now.
    """

    def __init__(self, problem: PreemptionProblem, scope: Scope | None = None) -> None:
        scope = scope or whole(problem)
        self._problem = problem
        self._gives = scope.gives
        self._order = _largest_first(problem)
        self.free = {place: list(problem.places[place].free) for place in scope.places}
        self.chosen: set[int] = set()
        self._needed_by: Counter[int] = Counter()
        self._stale = set(scope.places)
        self._open: dict[int, Vector] = {}
        self._seats = [0] * len(problem.wants)
        self._budgets = _Budgets(problem)

    def with_needed(self, unit: int) -> list[int]:
        """The unit and all that must go with it, without those that are gone."""
        found, open_ = {unit}, [unit]
        while open_:
            for other in self._problem.units[open_.pop()].needs:
                if other not in found:
                    found.add(other)
                    open_.append(other)
        return sorted(found - self.chosen)

    def is_needed(self, unit: int) -> bool:
        """Whether one that is gone went only because this one did."""
        return self._needed_by[unit] > 0

    def remove(self, units: Iterable[int]) -> None:
        """These units go."""
        for unit in units:
            if unit not in self.chosen:
                self.chosen.add(unit)
                self._move(unit, 1)

    def restore(self, units: Iterable[int]) -> None:
        """These units stay after all."""
        for unit in units:
            if unit in self.chosen:
                self.chosen.discard(unit)
                self._move(unit, -1)

    def missing(self) -> list[int]:
        """Per want, how many pods find no place even if there were no other want."""
        self._look_again()
        return [
            max(0, want.count - seats) for want, seats in zip(self._problem.wants, self._seats, strict=True)
        ]

    def keeps_floors(self, more: Iterable[int] = ()) -> bool:
        """Whether no floor is broken when these are gone too."""
        return self._budgets.keep_floors([unit for unit in more if unit not in self.chosen])

    def fits(self) -> bool:
        """Whether all wants fit, and into the allowances."""
        return self._budgets.has_allowance and self.has_places()

    def has_places(self) -> bool:
        """Whether all wants fit, whatever the allowances are."""
        if any(self.missing()):
            return False
        return len(self._problem.wants) == 1 or self._are_placed()

    def _are_placed(self) -> bool:
        wants = self._problem.wants
        missing_of = {want: wants[want].count for want in self._order}
        for place in sorted(self._open):
            left = list(self.free[place])
            for want in self._order:
                request, most = wants[want].request, self._problem.places[place].takes[want]
                count = min(missing_of[want], pods_that_fit(left, request, most))
                missing_of[want] -= count
                for index, amount in enumerate(request):
                    left[index] -= amount * count
            if not any(missing_of.values()):
                return True
        return not any(missing_of.values())

    def _move(self, unit: int, sign: int) -> None:
        for place, vector in self._gives.get(unit, ()):
            if place in self.free:
                free = self.free[place]
                for index, amount in enumerate(vector):
                    free[index] += sign * amount
                self._stale.add(place)
        for other in self._problem.units[unit].needs:
            self._needed_by[other] += sign
        self._budgets.move(unit, sign)

    def _look_again(self) -> None:
        for place in self._stale:
            takes = self._problem.places[place].takes
            before = self._open.pop(place, None)
            now = tuple(
                pods_that_fit(self.free[place], want.request, most)
                for want, most in zip(self._problem.wants, takes, strict=True)
            )
            if any(now):
                self._open[place] = now
            for index, count in enumerate(now):
                self._seats[index] += count - (before[index] if before is not None else 0)
        self._stale.clear()


class _Budgets:
    """What is gone of each floor, and what has come back to each allowance."""

    def __init__(self, problem: PreemptionProblem) -> None:
        self._floors = [_Taken(each) for each in problem.floors]
        self._takes = _by_unit([each.takes for each in problem.floors])
        self._back = _by_unit([each.gives for each in problem.allowances])
        self._lacking = [
            [
                sum(want.request[index] * want.count for want in problem.wants) - room
                for index, room in zip(each.resources, each.room, strict=True)
            ]
            for each in problem.allowances
        ]

    @property
    def has_allowance(self) -> bool:
        return all(amount <= 0 for lacking in self._lacking for amount in lacking)

    def move(self, unit: int, sign: int) -> None:
        for floor, vector in self._takes.get(unit, ()):
            self._floors[floor].move(unit, vector, sign)
        for allowance, vector in self._back.get(unit, ()):
            lacking = self._lacking[allowance]
            for position, amount in enumerate(vector):
                lacking[position] -= sign * amount

    def keep_floors(self, more: Sequence[int]) -> bool:
        taken: dict[int, list[tuple[int, Vector]]] = {}
        for unit in more:
            for floor, vector in self._takes.get(unit, ()):
                taken.setdefault(floor, []).append((unit, vector))
        return all(self._floors[floor].may_take(takes) for floor, takes in taken.items())


class _Taken:
    """What is gone of one floor, in all and, where it has groups, of each of them."""

    def __init__(self, floor: EvictionLimit) -> None:
        self._room = floor.room
        self._total = [0] * len(floor.room)
        members = zip(floor.takes, floor.groups, strict=bool(floor.groups))
        self._group_of = {unit: group for (unit, _), group in members}
        self._lost: list[dict[int, int]] = [{} for _ in floor.room]

    def move(self, unit: int, vector: Vector, sign: int) -> None:
        for position, amount in enumerate(vector):
            self._total[position] += sign * amount
            if self._group_of:
                lost, group = self._lost[position], self._group_of[unit]
                lost[group] = lost.get(group, 0) + sign * amount

    def may_take(self, takes: Sequence[tuple[int, Vector]]) -> bool:
        """One that is broken already keeps nobody who takes nothing of it."""
        for position, room in enumerate(self._room):
            more = [(unit, vector[position]) for unit, vector in takes if vector[position]]
            if more and self._counted(position, more) > room:
                return False
        return True

    def _counted(self, position: int, more: Sequence[tuple[int, int]]) -> int:
        total = self._total[position] + sum(amount for _, amount in more)
        if not self._group_of or total <= self._room[position]:
            return total
        lost = dict(self._lost[position])
        for unit, amount in more:
            group = self._group_of[unit]
            lost[group] = lost.get(group, 0) + amount
        return total - max(lost.values())


def pods_that_fit(free: Sequence[int], request: Vector, most: int) -> int:
    """How many pods of this request fit, at most `most`."""
    count = most
    for have, need in zip(free, request, strict=True):
        if need > 0 and have < need * count:
            count = max(0, have // need)
    return count


def _by_unit(all_parts: Sequence[Sequence[tuple[int, Vector]]]) -> dict[int, list[tuple[int, Vector]]]:
    """Per unit, where it has a part, by index, and which."""
    found: dict[int, list[tuple[int, Vector]]] = {}
    for index, parts in enumerate(all_parts):
        for unit, vector in parts:
            found.setdefault(unit, []).append((index, vector))
    return found


def _largest_first(problem: PreemptionProblem) -> list[int]:
    """Wants in the order in which first fit does best: the largest part of any resource first."""
    most = [max(1, *amounts) for amounts in zip(*(want.request for want in problem.wants), strict=True)]

    def size(want: int) -> int:
        request = problem.wants[want].request
        return max((amount * 1000 // top for amount, top in zip(request, most, strict=True)), default=0)

    return sorted(range(len(problem.wants)), key=lambda want: (-size(want), want))
