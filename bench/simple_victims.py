"""Two simple ways to choose victims, beside which the solver is measured; they share no code with it.

Both know one kind of pod. What turns out to be needless stays, the most expensive first.
"""

from collections.abc import Callable, Iterable, Sequence

from phalanx.solver.preemption.problem import PreemptionProblem


class Cluster:
    """The free capacity of a problem with one demand on some of its places, while units come and go."""

    def __init__(self, problem: PreemptionProblem, nodes: Sequence[int]) -> None:
        self._problem = problem
        (self._want,) = problem.demands
        self._free = {node: list(problem.nodes[node].free) for node in nodes}
        self.on: dict[int, list[int]] = {node: [] for node in nodes}
        for index, unit in enumerate(problem.units):
            for node, _ in unit.frees:
                if node in self.on:
                    self.on[node].append(index)
        self.gone: set[int] = set()
        self.capacity = sum(map(self.pods_that_fit, nodes))

    def has_all(self) -> bool:
        """Whether every pod fits."""
        return self.capacity >= self._want.count

    def pods_that_fit(self, node: int) -> int:
        """How many pods fit on this place now."""
        asked = zip(self._free[node], self._want.request, strict=True)
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
        for node, amounts in self._problem.units[unit].frees:
            if node in self._free:
                self.capacity -= self.pods_that_fit(node)
                self._free[node] = [
                    have + sign * more for have, more in zip(self._free[node], amounts, strict=True)
                ]
                self.capacity += self.pods_that_fit(node)


def cheapest_first(problem: PreemptionProblem, nodes: Sequence[int]) -> int | None:
    """Who costs least goes first, until all pods fit."""
    cluster = Cluster(problem, nodes)
    present = {unit for units in cluster.on.values() for unit in units}
    for unit in sorted(present, key=lambda unit: (problem.units[unit].cost, unit)):
        if cluster.has_all():
            break
        cluster.take([unit])
    return cluster.without_needless()


def best_ratio_first(problem: PreemptionProblem, nodes: Sequence[int]) -> int | None:
    """The place is cleared that costs least for each pod that fits then, anywhere; again and again."""
    cluster = Cluster(problem, nodes)
    offers: dict[int, tuple[float, list[int]]] = {}
    while not cluster.has_all():
        for node in nodes:
            if node not in offers:
                offers[node] = _offer(problem, cluster, node)
        ratio, best = min((ratio, node) for node, (ratio, _) in offers.items())
        if ratio == float("inf"):
            return None
        units = offers[best][1]
        cluster.take(units)
        touched = {node for unit in units for node, _ in problem.units[unit].frees}
        offers = {node: each for node, each in offers.items() if node not in touched}
    return cluster.without_needless()


def _offer(problem: PreemptionProblem, cluster: Cluster, node: int) -> tuple[float, list[int]]:
    """Who goes from this place so that one more pod fits there, and what that costs per pod that fits."""
    before, here = cluster.capacity, cluster.pods_that_fit(node)
    gone: list[int] = []
    for unit in sorted(set(cluster.on[node]) - cluster.gone, key=lambda unit: problem.units[unit].cost):
        cluster.take([unit])
        gone.append(unit)
        if cluster.pods_that_fit(node) > here:
            break
    more = cluster.capacity - before if cluster.pods_that_fit(node) > here else 0
    cluster.put_back(gone)
    return (sum(problem.units[unit].cost for unit in gone) / more if more else float("inf")), gone


def best_of(
    rule: Callable[[PreemptionProblem, Sequence[int]], int | None], problem: PreemptionProblem
) -> int | None:
    """The least cost that the rule finds in any domain."""
    domains: dict[int, list[int]] = {}
    for index, node in enumerate(problem.nodes):
        domains.setdefault(node.domain, []).append(index)
    return min(
        (cost for nodes in domains.values() if (cost := rule(problem, nodes)) is not None), default=None
    )
