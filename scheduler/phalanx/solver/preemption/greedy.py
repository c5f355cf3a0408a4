"""Greedy choices of victims: cheapest first, and best ratio of cost to gain, each with a reverse deletion.

Both are classic heuristics for covering problems (Chvatal, 1979). The better choice starts the exact search,
and it is the answer where that ends without a result. The ratio rule keeps a heap with the cost of clearing
each node.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct

from phalanx.solver.preemption.capacity import CapacityTracker, pods_that_fit
from phalanx.solver.preemption.problem import PreemptionProblem, Vector, VictimSet
from phalanx.solver.preemption.scopes import Scope

SCALE: Final = 1 << 20
"""Costs per pod are in units so small that rounding makes no difference."""


class _Clearing(Struct, frozen=True):
    """Units whose eviction makes `gain` more pods of a demand fit on one node."""

    units: frozenset[int]
    demand: int
    gain: int


class ClearingCosts:
    """Per node, the cheapest way to clear it, with the cost per pod that then fits anywhere.

    A cost on the heap may be outdated; it is computed again when it is the least. `is_eager`: costs that may
    have fallen are computed again at once.
    """

    def __init__(
        self, problem: PreemptionProblem, scope: Scope, capacity: CapacityTracker, *, is_eager: bool
    ) -> None:
        self._is_eager = is_eager
        self._problem, self._scope, self._capacity = problem, scope, capacity
        self._frees_on = {
            node: sorted(frees, key=lambda give: (problem.units[give[0]].cost, give[0]))
            for node, frees in scope.by_node().items()
        }
        self._missing = capacity.missing()
        self._clearings: dict[int, _Clearing] = {}
        self._by_first: dict[int, set[int]] = {}
        self._by_unit: dict[int, set[int]] = {}
        for node in scope.nodes:
            self._clear(node)
        self._heap: list[tuple[int, int]] = []
        for node in self._clearings:
            self._push(node)
        heapify(self._heap)

    def best(self) -> list[int] | None:
        """Return the units to evict next; None if no eviction helps."""
        self._refresh_missing()
        while self._heap:
            cost_per_pod, node = heappop(self._heap)
            clearing = self._clearings.get(node)
            if clearing is None:
                continue
            if not self._is_possible(clearing):
                self._clear(node)
                self._push(node)
                continue
            now = self._cost_per_pod(clearing)
            if now is None:
                continue
            if now <= cost_per_pod:
                return sorted(clearing.units)
            heappush(self._heap, (now, node))
        return None

    def update(self, evicted: Sequence[int]) -> None:
        """Adjust the costs after these evictions."""
        touched = sorted({node for unit in evicted for node, _ in self._scope.frees.get(unit, ())})
        for node in touched:
            self._clear(node)
        also = self._also_cleared_by(touched) if self._is_eager else ()
        for node in sorted({*touched, *also}):
            self._push(node)

    def _also_cleared_by(self, nodes: Sequence[int]) -> Iterator[int]:
        """Nodes whose clearing includes that of one of these: their cost may have fallen."""
        for node in nodes:
            clearing = self._clearings.get(node)
            if clearing is not None:
                for other in self._by_unit.get(min(clearing.units), ()):
                    if clearing.units <= self._clearings[other].units:
                        yield other

    def _refresh_missing(self) -> None:
        """Once a demand fits, nodes are cleared for the others."""
        missing = self._capacity.missing()
        if [count > 0 for count in missing] != [count > 0 for count in self._missing]:
            self._missing = missing
            for node in self._scope.nodes:
                self._clear(node)
                self._push(node)
        self._missing = missing

    def _is_possible(self, clearing: _Clearing) -> bool:
        evicted = sorted(clearing.units)
        return clearing.units.isdisjoint(self._capacity.chosen) and self._capacity.keeps_limits(evicted)

    def _push(self, node: int) -> None:
        clearing = self._clearings.get(node)
        cost_per_pod = self._cost_per_pod(clearing) if clearing is not None else None
        if cost_per_pod is not None:
            heappush(self._heap, (cost_per_pod, node))

    def _cost_per_pod(self, clearing: _Clearing) -> int | None:
        """None where no more pods of that demand are missing."""
        gain = 0
        for unit in clearing.units:
            for node in self._by_first.get(unit, ()):
                other = self._clearings[node]
                if other.demand == clearing.demand and other.units <= clearing.units:
                    gain += other.gain
        gain = min(gain, self._missing[clearing.demand] if any(self._missing) else gain)
        cost = sum(self._problem.units[unit].cost for unit in clearing.units)
        return cost * SCALE // gain if gain else None

    def _clear(self, node: int) -> None:
        old = self._clearings.pop(node, None)
        if old is not None:
            self._by_first[min(old.units)].discard(node)
            for unit in old.units:
                self._by_unit[unit].discard(node)
        new = self._cheapest(node)
        if new is not None:
            self._clearings[node] = new
            self._by_first.setdefault(min(new.units), set()).add(node)
            for unit in new.units:
                self._by_unit.setdefault(unit, set()).add(node)

    def _cheapest(self, node: int) -> _Clearing | None:
        """Units, the cheapest first, whose eviction fits more pods of the first missing demand."""
        present = [give for give in self._frees_on.get(node, ()) if give[0] not in self._capacity.chosen]
        for demand, missing in enumerate(self._missing):
            if missing or not any(self._missing):
                found = self._cleared_for(demand, node, present)
                if found is not None:
                    return found
        return None

    def _cleared_for(self, demand: int, node: int, present: Sequence[tuple[int, Vector]]) -> _Clearing | None:
        most = self._problem.nodes[node].max_pods[demand]
        request = self._problem.demands[demand].request
        free = self._capacity.free[node]
        before = pods_that_fit(free, request, most)
        freed = dict(present)
        evicted: list[int] = []
        for unit, _ in present if before < most else ():
            more = [other for other in self._capacity.with_required(unit) if other not in evicted]
            if not more or not self._capacity.keeps_limits([*evicted, *more]):
                continue
            evicted += more
            free = _sum(free, [freed[other] for other in more if other in freed])
            count = pods_that_fit(free, request, most)
            if count > before:
                kept = self._without_needless(evicted, freed, free, (request, before + 1))
                left = _sum(
                    self._capacity.free[node],
                    [freed[assignment] for assignment in kept if assignment in freed],
                )
                return _Clearing(frozenset(kept), demand, pods_that_fit(left, request, most) - before)
        return None

    def _without_needless(
        self,
        evicted: Sequence[int],
        freed: Mapping[int, Vector],
        free: Sequence[int],
        asked: tuple[Vector, int],
    ) -> list[int]:
        """Drop units that are not needed for so many pods, the most expensive first."""
        kept = list(evicted)
        request, count = asked
        for unit in sorted(evicted, key=lambda unit: (-self._problem.units[unit].cost, unit)):
            if any(unit in self._problem.units[other].requires for other in kept):
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


def greedy(problem: PreemptionProblem, scope: Scope) -> VictimSet | None:
    """Return the cheaper choice of both rules within the scope; None where neither finds one."""
    found = [
        choice
        for choice in (cheapest_first(problem, scope), most_for_the_cost(problem, scope))
        if choice is not None
    ]
    return min(found, key=lambda choice: (choice.cost, choice.units), default=None)


def cheapest_first(problem: PreemptionProblem, scope: Scope) -> VictimSet | None:
    """Evict the cheapest units until all demands fit."""
    capacity = CapacityTracker(problem, scope)
    _evict_the_cheapest(problem, scope, capacity)
    return _without_needless(problem, capacity)


def most_for_the_cost(problem: PreemptionProblem, scope: Scope, *, is_eager: bool = True) -> VictimSet | None:
    """Clear the node with the least cost per pod that fits, again and again.

    Then the cheapest units are evicted until the quotas suffice. `is_eager` is better on average, not always.
    """
    capacity = CapacityTracker(problem, scope)
    clearing_costs = ClearingCosts(problem, scope, capacity, is_eager=is_eager)
    while not capacity.fits_without_quota():
        evicted = clearing_costs.best()
        if evicted is None:
            break
        capacity.evict(evicted)
        clearing_costs.update(evicted)
    _evict_the_cheapest(problem, scope, capacity)
    return _without_needless(problem, capacity)


def _evict_the_cheapest(problem: PreemptionProblem, scope: Scope, capacity: CapacityTracker) -> None:
    """Evict until all demands fit or no unit is left."""
    for unit in sorted(scope.frees, key=lambda unit: (problem.units[unit].cost, unit)):
        if capacity.fits():
            break
        more = capacity.with_required(unit)
        if capacity.keeps_limits(more):
            capacity.evict(more)


def _without_needless(problem: PreemptionProblem, capacity: CapacityTracker) -> VictimSet | None:
    """Reverse deletion: restore units that are not needed, the most expensive first."""
    if not capacity.fits():
        return None
    for unit in sorted(capacity.chosen, key=lambda unit: (-problem.units[unit].cost, unit)):
        if capacity.is_required(unit):
            continue
        capacity.restore([unit])
        if not capacity.fits():
            capacity.evict([unit])
    chosen = tuple(sorted(capacity.chosen))
    return VictimSet(units=chosen, cost=problem.cost_of(chosen), bound=0)
