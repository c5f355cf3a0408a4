"""Two simple ways to choose victims, beside which the solver is measured; they share no code with it.

Both know one kind of pod. What turns out to be needless stays, the dearest first.
"""

from collections.abc import Callable, Iterable, Sequence

from phalanx.solver.preemption.problem import PreemptionProblem


class Cluster:
    """The room of a problem with one want on some of its places, while units come and go."""

    def __init__(self, problem: PreemptionProblem, places: Sequence[int]) -> None:
        self._problem = problem
        (self._want,) = problem.wants
        self._free = {place: list(problem.places[place].free) for place in places}
        self.on: dict[int, list[int]] = {place: [] for place in places}
        for index, unit in enumerate(problem.units):
            for place, _ in unit.gives:
                if place in self.on:
                    self.on[place].append(index)
        self.gone: set[int] = set()
        self.room = sum(map(self.seats, places))

    def has_all(self) -> bool:
        """Whether every pod fits."""
        return self.room >= self._want.count

    def seats(self, place: int) -> int:
        """How many pods fit on this place now."""
        asked = zip(self._free[place], self._want.request, strict=True)
        return max(0, min(have // need for have, need in asked if need))

    def take(self, units: Iterable[int]) -> None:
        """These go."""
        for unit in units:
            self.gone.add(unit)
            self._give(unit, 1)

    def put_back(self, units: Iterable[int]) -> None:
        """These stay."""
        for unit in units:
            self.gone.remove(unit)
            self._give(unit, -1)

    def without_needless(self) -> int | None:
        """What those cost who must go; None where even all of them are not enough."""
        costs = self._problem.units
        if not self.has_all():
            return None
        for unit in sorted(self.gone, key=lambda unit: (-costs[unit].cost, unit)):
            self.put_back([unit])
            if not self.has_all():
                self.take([unit])
        return sum(costs[unit].cost for unit in self.gone)

    def _give(self, unit: int, sign: int) -> None:
        for place, amounts in self._problem.units[unit].gives:
            if place in self._free:
                self.room -= self.seats(place)
                self._free[place] = [
                    have + sign * more for have, more in zip(self._free[place], amounts, strict=True)
                ]
                self.room += self.seats(place)


def cheapest_first(problem: PreemptionProblem, places: Sequence[int]) -> int | None:
    """Who costs least goes first, until all pods fit."""
    cluster = Cluster(problem, places)
    present = {unit for units in cluster.on.values() for unit in units}
    for unit in sorted(present, key=lambda unit: (problem.units[unit].cost, unit)):
        if cluster.has_all():
            break
        cluster.take([unit])
    return cluster.without_needless()


def best_ratio_first(problem: PreemptionProblem, places: Sequence[int]) -> int | None:
    """The place is cleared that costs least for each pod that fits then, anywhere; again and again."""
    cluster = Cluster(problem, places)
    offers: dict[int, tuple[float, list[int]]] = {}
    while not cluster.has_all():
        for place in places:
            if place not in offers:
                offers[place] = _offer(problem, cluster, place)
        ratio, best = min((ratio, place) for place, (ratio, _) in offers.items())
        if ratio == float("inf"):
            return None
        units = offers[best][1]
        cluster.take(units)
        touched = {place for unit in units for place, _ in problem.units[unit].gives}
        offers = {place: each for place, each in offers.items() if place not in touched}
    return cluster.without_needless()


def _offer(problem: PreemptionProblem, cluster: Cluster, place: int) -> tuple[float, list[int]]:
    """Who goes from this place so that one more pod fits there, and what that costs per pod that fits."""
    before, here = cluster.room, cluster.seats(place)
    gone: list[int] = []
    for unit in sorted(set(cluster.on[place]) - cluster.gone, key=lambda unit: problem.units[unit].cost):
        cluster.take([unit])
        gone.append(unit)
        if cluster.seats(place) > here:
            break
    more = cluster.room - before if cluster.seats(place) > here else 0
    cluster.put_back(gone)
    return (sum(problem.units[unit].cost for unit in gone) / more if more else float("inf")), gone


def best_of(
    rule: Callable[[PreemptionProblem, Sequence[int]], int | None], problem: PreemptionProblem
) -> int | None:
    """The least cost that the rule finds in any domain."""
    domains: dict[int, list[int]] = {}
    for index, place in enumerate(problem.places):
        domains.setdefault(place.domain, []).append(index)
    return min(
        (cost for places in domains.values() if (cost := rule(problem, places)) is not None), default=None
    )
