"""What it costs to clear each place while units go: the prices of the rule `most_for_the_cost`."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct

from phalanx.solver.preemption.capacity import CapacityTracker, pods_that_fit
from phalanx.solver.preemption.problem import PreemptionProblem, Vector
from phalanx.solver.preemption.scopes import Scope

SCALE: Final = 1 << 20
"""Prices are cost per pod in units so small that rounding makes no difference."""


class _Clearing(Struct, frozen=True):
    """Who goes from one place so that `gain` more pods of a want fit there."""

    units: frozenset[int]
    want: int
    gain: int


class Market:
    """Per place, what clears it, and the price of that: cost per pod that fits then, anywhere.

    A price may be out of date when it is the lowest; then it is worked out anew. `is_eager`: one that may
    have fallen is worked out anew at once.
    """

    def __init__(
        self, problem: PreemptionProblem, scope: Scope, room: CapacityTracker, *, is_eager: bool
    ) -> None:
        self._is_eager = is_eager
        self._problem, self._scope, self._room = problem, scope, room
        self._on = {
            place: sorted(gives, key=lambda give: (problem.units[give[0]].cost, give[0]))
            for place, gives in scope.on_place().items()
        }
        self._missing = room.missing()
        self._clearings: dict[int, _Clearing] = {}
        self._by_first: dict[int, set[int]] = {}
        self._by_unit: dict[int, set[int]] = {}
        for place in scope.places:
            self._clear(place)
        self._prices: list[tuple[int, int]] = []
        for place in self._clearings:
            self._offer(place)
        heapify(self._prices)

    def best(self) -> list[int] | None:
        """Who goes next; None where nothing helps."""
        self._look_at_what_is_missing()
        while self._prices:
            price, place = heappop(self._prices)
            clearing = self._clearings.get(place)
            if clearing is None:
                continue
            if not self._is_possible(clearing):
                self._clear(place)
                self._offer(place)
                continue
            now = self._price(clearing)
            if now is None:
                continue
            if now <= price:
                return sorted(clearing.units)
            heappush(self._prices, (now, place))
        return None

    def look_again(self, gone: Sequence[int]) -> None:
        """These went: where they were, less is to be cleared."""
        touched = sorted({place for unit in gone for place, _ in self._scope.gives.get(unit, ())})
        for place in touched:
            self._clear(place)
        also = self._that_clear_too(touched) if self._is_eager else ()
        for place in sorted({*touched, *also}):
            self._offer(place)

    def _that_clear_too(self, places: Sequence[int]) -> Iterator[int]:
        """Places whose clearing clears one of these as well: their price may be lower than before."""
        for place in places:
            clearing = self._clearings.get(place)
            if clearing is not None:
                for other in self._by_unit.get(min(clearing.units), ()):
                    if clearing.units <= self._clearings[other].units:
                        yield other

    def _look_at_what_is_missing(self) -> None:
        """Once a want has its room, places are cleared for the others."""
        missing = self._room.missing()
        if [count > 0 for count in missing] != [count > 0 for count in self._missing]:
            self._missing = missing
            for place in self._scope.places:
                self._clear(place)
                self._offer(place)
        self._missing = missing

    def _is_possible(self, clearing: _Clearing) -> bool:
        gone = sorted(clearing.units)
        return clearing.units.isdisjoint(self._room.chosen) and self._room.keeps_floors(gone)

    def _offer(self, place: int) -> None:
        clearing = self._clearings.get(place)
        price = self._price(clearing) if clearing is not None else None
        if price is not None:
            heappush(self._prices, (price, place))

    def _price(self, clearing: _Clearing) -> int | None:
        """None where no more of that want is missing."""
        gain = 0
        for unit in clearing.units:
            for place in self._by_first.get(unit, ()):
                other = self._clearings[place]
                if other.want == clearing.want and other.units <= clearing.units:
                    gain += other.gain
        gain = min(gain, self._missing[clearing.want] if any(self._missing) else gain)
        cost = sum(self._problem.units[unit].cost for unit in clearing.units)
        return cost * SCALE // gain if gain else None

    def _clear(self, place: int) -> None:
        old = self._clearings.pop(place, None)
        if old is not None:
            self._by_first[min(old.units)].discard(place)
            for unit in old.units:
                self._by_unit[unit].discard(place)
        new = self._cheapest(place)
        if new is not None:
            self._clearings[place] = new
            self._by_first.setdefault(min(new.units), set()).add(place)
            for unit in new.units:
                self._by_unit.setdefault(unit, set()).add(place)

    def _cheapest(self, place: int) -> _Clearing | None:
        """Who goes, the cheapest first, so that more fit there of the first want that lacks room and can."""
        present = [give for give in self._on.get(place, ()) if give[0] not in self._room.chosen]
        for want, missing in enumerate(self._missing):
            if missing or not any(self._missing):
                found = self._cleared_for(want, place, present)
                if found is not None:
                    return found
        return None

    def _cleared_for(self, want: int, place: int, present: Sequence[tuple[int, Vector]]) -> _Clearing | None:
        most = self._problem.places[place].takes[want]
        request = self._problem.wants[want].request
        free = self._room.free[place]
        before = pods_that_fit(free, request, most)
        freed = dict(present)
        gone: list[int] = []
        for unit, _ in present if before < most else ():
            more = [each for each in self._room.with_needed(unit) if each not in gone]
            if not more or not self._room.keeps_floors([*gone, *more]):
                continue
            gone += more
            free = _sum(free, [freed[each] for each in more if each in freed])
            count = pods_that_fit(free, request, most)
            if count > before:
                kept = self._without_needless(gone, freed, free, (request, before + 1))
                left = _sum(self._room.free[place], [freed[each] for each in kept if each in freed])
                return _Clearing(frozenset(kept), want, pods_that_fit(left, request, most) - before)
        return None

    def _without_needless(
        self, gone: Sequence[int], freed: Mapping[int, Vector], free: Sequence[int], asked: tuple[Vector, int]
    ) -> list[int]:
        """Of those, they go without whom not so many of the request would fit; the dearest stay first."""
        kept = list(gone)
        request, count = asked
        for unit in sorted(gone, key=lambda unit: (-self._problem.units[unit].cost, unit)):
            if any(unit in self._problem.units[other].needs for other in kept):
                continue
            without = [
                have - amount for have, amount in zip(free, freed.get(unit, (0,) * len(free)), strict=True)
            ]
            if pods_that_fit(without, request, count) >= count:
                kept.remove(unit)
                free = without
        return kept


def _sum(free: Sequence[int], vectors: Sequence[Vector]) -> list[int]:
    return [sum(amounts) for amounts in zip(free, *vectors, strict=True)]
