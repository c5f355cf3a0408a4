"""Prefers nodes by how much of them is allocated, if the configuration gives allocation a price.

The prices are the scores of kube-scheduler's plugins NodeResourcesFit (LeastAllocated, MostAllocated or
RequestedToCapacityRatio) and NodeResourcesBalancedAllocation, in reverse: a node costs as much as its score
lacks of 100. What pods request now counts, with the placements of the cycle so far, and the requests of the
pod. All pods of a gang that are placed together pay for a node what the first of them would pay.

By default both weights are 0. With a price nearly all nodes differ, and costs are computed again after each
placement. The `objective` of a queue, which chooses among nodes of equal cost, is much faster.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import isqrt
from typing import Final, Protocol

from msgspec import Struct
from phalanx.framework.plugin import NodeCost, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.allocation_prices import AllocationPrices, ShapePoint
from phalanx.model.nodes import Node
from phalanx.model.resources import Resources

BEST: Final = 100
"""The best score."""

_OF_ALL_PODS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that count for pods that request none of them too."""

_ONE: Final = 10**9
"""The fraction 1 when deviations are computed."""


class Scorer(Protocol):
    """Scores a node from 0 to BEST, as one plugin of kube-scheduler does."""

    def score(self, used: Resources, offered: Resources, requests: Resources) -> int: ...


class Allocation(Plugin):
    """Prices by use."""

    name = "allocation"
    lasting_answers = True
    Arguments = AllocationPrices

    def __init__(self, arguments: AllocationPrices) -> None:
        self._prices = arguments

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """The sum of both prices."""
        requests = pod.shape.requests
        scorers = list(_scorers(self._prices, requests))

        def cost(node: Node) -> int:
            offered, free = node.allocatable, view.free_despite_nominations(node.name)
            used = {name: amount - free.get(name, 0) for name, amount in offered.items()}
            lacks = ((BEST - each.score(used, offered, requests), weight) for weight, each in scorers)
            return sum(weight * lack // BEST for lack, weight in lacks)

        return cost if scorers else None


def _scorers(prices: AllocationPrices, requests: Resources) -> Iterator[tuple[int, Scorer]]:
    """The scorers for pods with these requests, each with its weight."""
    weights = {each.name: each.weight for each in prices.resources if _counts(each.name, requests)}
    if prices.weight and prices.strategy == "RequestedToCapacityRatio":
        yield prices.weight, ByShape(weights, prices.shape)
    elif prices.weight:
        yield prices.weight, ByFreePart(weights, prefers_full=prices.strategy == "MostAllocated")
    if prices.balanced_weight and any(requests.get(name) for name in prices.balanced_resources):
        even = tuple(name for name in prices.balanced_resources if _counts(name, requests))
        yield prices.balanced_weight, Balanced(even)


def _counts(resource: str, requests: Resources) -> bool:
    return resource in _OF_ALL_PODS or bool(requests.get(resource))


class ByFreePart(Struct, frozen=True):
    """LeastAllocated and MostAllocated (`least_allocated.go`, `most_allocated.go`)."""

    weights: dict[str, int]
    prefers_full: bool

    def score(self, used: Resources, offered: Resources, requests: Resources) -> int:
        """The mean of the free or of the used parts, by weight."""
        total = weights = 0
        for name, weight in self.weights.items():
            if capacity := offered.get(name, 0):
                wanted = min(used[name] + requests.get(name, 0), capacity)
                total += weight * (BEST * (wanted if self.prefers_full else capacity - wanted) // capacity)
                weights += weight
        return total // weights if weights else 0


class ByShape(Struct, frozen=True):
    """RequestedToCapacityRatio (`requested_to_capacity_ratio.go`)."""

    weights: dict[str, int]
    shape: tuple[ShapePoint, ...]

    def score(self, used: Resources, offered: Resources, requests: Resources) -> int:
        """The rounded mean of the scores of the resources, without those that are 0."""
        total = weights = 0
        for name, weight in self.weights.items():
            if capacity := offered.get(name, 0):
                wanted = min(used[name] + requests.get(name, 0), capacity)
                score = self._at(BEST * wanted // capacity)
                total += weight * score
                weights += weight if score > 0 else 0
        return (2 * total + weights) // (2 * weights) if weights else 0

    def _at(self, utilization: int) -> int:
        """The function at this point, rounded towards the score of the point before."""
        scale, first = BEST // 10, self.shape[0]
        if utilization <= first.utilization:
            return scale * first.score
        for before, point in pairwise(self.shape):
            if utilization <= point.utilization:
                rise = scale * (point.score - before.score) * (utilization - before.utilization)
                part = abs(rise) // (point.utilization - before.utilization)
                return scale * before.score + (part if rise >= 0 else -part)
        return scale * self.shape[-1].score


class Balanced(Struct, frozen=True):
    """NodeResourcesBalancedAllocation (`balanced_allocation.go`)."""

    resources: tuple[str, ...]

    def score(self, used: Resources, offered: Resources, requests: Resources) -> int:
        """50 to 100: 75 if the pod leaves the node as even as it was, more if it makes it more even."""
        there = [
            (used[name], requests.get(name, 0), offered[name]) for name in self.resources if offered.get(name)
        ]
        before = _evenness([min(_ONE, _ONE * now // capacity) for now, _, capacity in there])
        after = _evenness([min(_ONE, _ONE * (now + more) // capacity) for now, more, capacity in there])
        return BEST // 2 + (BEST // 2 + after - before) // 2


def _evenness(parts: list[int]) -> int:
    """BEST for equal parts, less by their standard deviation."""
    count = len(parts)
    if count < 2:
        return BEST
    deviation = isqrt(count * sum(part * part for part in parts) - sum(parts) ** 2)
    return BEST * (count * _ONE - deviation) // (count * _ONE)
