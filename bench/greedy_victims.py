"""Two greedy rules for choosing victims, with which the solver is compared; they share no code with it.

Both support one kind of pod. Afterwards unnecessary victims are restored, the most costly first.
"""

from collections.abc import Callable, Iterable, Sequence

from phalanx.solver.preemption.problem import PreemptionProblem


class Cluster:
    """The free capacity of some nodes of a problem with one demand, while units are evicted and restored."""

    def __init__(self, problem: PreemptionProblem, nodes: Sequence[int]) -> None:
        self._problem = problem
        (self._demand,) = problem.demands
        self._free = {node: list(problem.nodes[node].free) for node in nodes}
        self.on: dict[int, list[int]] = {node: [] for node in nodes}
        for index, unit in enumerate(problem.units):
            for node, _ in unit.frees:
                if node in self.on:
                    self.on[node].append(index)
        self.evicted: set[int] = set()
        self.capacity = sum(map(self.pods_that_fit, nodes))

    def has_all(self) -> bool:
        """Whether every pod fits."""
        return self.capacity >= self._demand.count

    def pods_that_fit(self, node: int) -> int:
        """How many pods fit on this node now."""
        amounts = zip(self._free[node], self._demand.request, strict=True)
        return max(0, min(have // need for have, need in amounts if need))

    def evict(self, units: Iterable[int]) -> None:
        """Evict these units."""
        for unit in units:
            self.evicted.add(unit)
            self._give(unit, 1)

    def restore(self, units: Iterable[int]) -> None:
        """Restore these units."""
        for unit in units:
            self.evicted.remove(unit)
            self._give(unit, -1)

    def necessary_cost(self) -> int | None:
        """The cost of the necessary victims; None when all victims are not sufficient."""
        costs = self._problem.units
        if not self.has_all():
            return None
        for unit in sorted(self.evicted, key=lambda unit: (-costs[unit].cost, unit)):
            self.restore([unit])
            if not self.has_all():
                self.evict([unit])
        return sum(costs[unit].cost for unit in self.evicted)

    def _give(self, unit: int, sign: int) -> None:
        for node, amounts in self._problem.units[unit].frees:
            if node in self._free:
                self.capacity -= self.pods_that_fit(node)
                self._free[node] = [
                    have + sign * more for have, more in zip(self._free[node], amounts, strict=True)
                ]
                self.capacity += self.pods_that_fit(node)


def cheapest_first(problem: PreemptionProblem, nodes: Sequence[int]) -> int | None:
    """Evict the cheapest unit first, until all pods fit."""
    cluster = Cluster(problem, nodes)
    present = {unit for units in cluster.on.values() for unit in units}
    for unit in sorted(present, key=lambda unit: (problem.units[unit].cost, unit)):
        if cluster.has_all():
            break
        cluster.evict([unit])
    return cluster.necessary_cost()


def best_ratio_first(problem: PreemptionProblem, nodes: Sequence[int]) -> int | None:
    """Repeatedly clear the node with the least cost per additional pod that fits."""
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
        cluster.evict(units)
        touched = {node for unit in units for node, _ in problem.units[unit].frees}
        offers = {node: each for node, each in offers.items() if node not in touched}
    return cluster.necessary_cost()


def _offer(problem: PreemptionProblem, cluster: Cluster, node: int) -> tuple[float, list[int]]:
    """The victims on this node for one more pod, and their cost per additional pod on any node."""
    before, here = cluster.capacity, cluster.pods_that_fit(node)
    evicted: list[int] = []
    for unit in sorted(set(cluster.on[node]) - cluster.evicted, key=lambda unit: problem.units[unit].cost):
        cluster.evict([unit])
        evicted.append(unit)
        if cluster.pods_that_fit(node) > here:
            break
    more = cluster.capacity - before if cluster.pods_that_fit(node) > here else 0
    cluster.restore(evicted)
    return (sum(problem.units[unit].cost for unit in evicted) / more if more else float("inf")), evicted


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
