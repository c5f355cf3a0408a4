"""Greedy moves: clear one domain unit by unit, and place moved units elsewhere by first fit."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from phalanx.solver.defragmentation.problem import (
    MovePlan,
    MoveProblem,
    Placements,
    PodSet,
    move_cost,
    nodes_by_domain,
)

MOVE_DOMAINS_MAX: Final = 32
"""Domains that the heuristic tries to free for one plan, those with the smallest shortage: some milliseconds
each."""


def greedy(problem: MoveProblem) -> MovePlan | None:
    """Return the best plan over some domains of the demand and three orders of units."""
    best: MovePlan | None = None
    for nodes in _nearest(problem):
        for order in _orders(problem, nodes):
            plan = _cleared(problem, nodes, order)
            if plan is not None and (best is None or _key(plan) < _key(best)):
                best = plan
    return best


def _nearest(problem: MoveProblem) -> list[list[int]]:
    """Some domains of the demand, those with the largest free part first."""
    resources = range(len(problem.demand[0].request))
    needs = [sum(pod_set.request[index] * pod_set.count for pod_set in problem.demand) for index in resources]

    def least_part(nodes: Sequence[int]) -> int:
        """The free part of what the demand needs of its scarcest resource, in thousandths."""
        totals = [sum(max(0, problem.free[node][index]) for node in nodes) for index in resources]
        return min((1000 * have // need for have, need in zip(totals, needs, strict=True) if need), default=0)

    domains = nodes_by_domain(problem.demand, problem.domains).values()
    return sorted(domains, key=lambda nodes: -least_part(nodes))[:MOVE_DOMAINS_MAX]


def _orders(problem: MoveProblem, nodes: Sequence[int]) -> Iterator[list[int]]:
    """The units in a domain: the smallest first, those that free most per pod, and node by node."""
    inside = frozenset(nodes)
    demanded = [
        max(1, sum(amounts)) for amounts in zip(*(pod_set.request for pod_set in problem.demand), strict=True)
    ]
    freed = {
        index: sum(
            1000 * amount // most
            for node, vector in unit.frees
            if node in inside
            for amount, most in zip(vector, demanded, strict=True)
        )
        for index, unit in enumerate(problem.units)
        if any(node in inside for node, _ in unit.frees)
    }
    units = problem.units
    yield sorted(freed, key=lambda index: (units[index].pods, units[index].cost, index))
    yield sorted(freed, key=lambda index: (-freed[index] // units[index].pods, units[index].cost, index))
    yield _node_by_node(problem, nodes)


def _node_by_node(problem: MoveProblem, nodes: Sequence[int]) -> list[int]:
    """Units whose move fits one more of the largest pods, node by node, fewest pods first."""
    pod_set = max(problem.demand, key=lambda pod_set: sum(pod_set.request))
    there: dict[int, list[int]] = {node: [] for node in nodes if node in pod_set.takes}
    for index, unit in enumerate(problem.units):
        for node, _ in unit.frees:
            if node in there:
                there[node].append(index)
    found: list[tuple[int, int, int, list[int]]] = []
    for node, units in there.items():
        chosen = _minimal_evictions(problem, pod_set, node, units)
        if chosen:
            found.append((*move_cost(problem, chosen), node, chosen))
    return list(dict.fromkeys(unit for *_, chosen in sorted(found) for unit in chosen))


def _minimal_evictions(problem: MoveProblem, pod_set: PodSet, node: int, units: Sequence[int]) -> list[int]:
    """A minimal set of units whose move fits one more pod on the node; empty where none does."""
    frees = {unit: dict(problem.units[unit].frees)[node] for unit in units}

    def fits(chosen: Sequence[int], more: int) -> bool:
        freed = [sum(amounts) for amounts in zip(*(frees[unit] for unit in chosen), strict=True)]
        free = [have + freed for have, freed in zip(problem.free[node], freed, strict=True)]
        return _pods_that_fit(replace(pod_set, takes={node: more}), node, free) >= more

    already = max(0, _pods_that_fit(pod_set, node, problem.free[node]))
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


def _cleared(problem: MoveProblem, nodes: Sequence[int], order: Sequence[int]) -> MovePlan | None:
    """Move units in this order until the plan works, then drop needless ones."""
    chosen: list[int] = []
    plan: MovePlan | None = None
    for unit in order:
        if plan is not None or len(chosen) == problem.moves_max:
            break
        chosen.append(unit)
        plan = _placed(problem, nodes, chosen)
    if plan is None:
        return None
    for unit in sorted(plan.units, key=lambda index: -problem.units[index].pods):
        fewer = [other for other in plan.units if other != unit]
        plan = (_placed(problem, nodes, fewer) if fewer else None) or plan
    return plan


def _placed(problem: MoveProblem, nodes: Sequence[int], chosen: Iterable[int]) -> MovePlan | None:
    """Place everything by first fit: moved units outside of the domain if possible, the demand inside."""
    units = tuple(sorted(chosen))
    capacity = _FreeCapacity(problem, units)
    if capacity.find(problem.demand, nodes) is None:
        return None
    moved: dict[int, Placements] = {}
    for unit in sorted(units, key=lambda index: (-problem.units[index].pods, index)):
        placements = capacity.place_unit(unit, frozenset(nodes))
        if placements is None:
            return None
        moved[unit] = placements
    placements = capacity.find(problem.demand, nodes)
    if placements is None:
        return None
    pods, cost = move_cost(problem, units)
    return MovePlan(units, placements, tuple(moved[unit] for unit in units), pods, cost)


class _FreeCapacity:
    """Free amounts after these units have left, less what was placed since."""

    def __init__(self, problem: MoveProblem, ended: Iterable[int]) -> None:
        self._problem = problem
        self._free = [list(each) for each in problem.free]
        for unit in ended:
            for node, vector in problem.units[unit].frees:
                for resource, amount in enumerate(vector):
                    self._free[node][resource] += amount

    def place_unit(self, unit: int, last: frozenset[int]) -> Placements | None:
        """Place a moved unit, on the nodes `last` only where necessary, on the fullest nodes first."""
        whole = self._problem.units[unit]
        found: list[tuple[int, Placements]] = []
        for nodes in nodes_by_domain(whole.pod_sets, whole.domains).values():
            order = sorted(nodes, key=lambda node: (node in last, sum(self._free[node]), node))
            placements = self.find(whole.pod_sets, order)
            if placements is not None:
                found.append((sum(node in last for pod_set in placements for node, _ in pod_set), placements))
        if not found:
            return None
        placements = min(found, key=lambda each: each[0])[1]
        for pod_set, where in zip(whole.pod_sets, placements, strict=True):
            for node, count in where:
                self._take(pod_set, node, count)
        return placements

    def find(self, pod_sets: Sequence[PodSet], nodes: Sequence[int]) -> Placements | None:
        """Place pods on these nodes by first fit decreasing; None where that fails."""
        left: dict[int, list[int]] = {}
        placements: dict[int, list[tuple[int, int]]] = {index: [] for index in range(len(pod_sets))}
        for index in sorted(placements, key=lambda index: (-sum(pod_sets[index].request), index)):
            pod_set, missing = pod_sets[index], pod_sets[index].count
            for node in nodes:
                if not missing:
                    break
                count = min(missing, _pods_that_fit(pod_set, node, left.get(node, self._free[node])))
                if count:
                    placements[index].append((node, count))
                    missing -= count
                    capacity = left.setdefault(node, list(self._free[node]))
                    for resource, amount in enumerate(pod_set.request):
                        capacity[resource] -= amount * count
            if missing:
                return None
        return tuple(tuple(sorted(placements[index])) for index in range(len(pod_sets)))

    def _take(self, pod_set: PodSet, node: int, count: int) -> None:
        for resource, amount in enumerate(pod_set.request):
            self._free[node][resource] -= amount * count


def _pods_that_fit(pod_set: PodSet, node: int, free: Sequence[int]) -> int:
    """How many pods fit; none on an over-committed node."""
    if min(free, default=0) < 0:
        return 0
    fitting = (have // need for have, need in zip(free, pod_set.request, strict=True) if need)
    return min(pod_set.takes.get(node, 0), min(fitting, default=pod_set.count))


def _key(plan: MovePlan) -> tuple[int, int, tuple[int, ...]]:
    return plan.pods, plan.cost, plan.units
