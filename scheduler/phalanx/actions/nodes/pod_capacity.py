"""How many pods fit a node, and which part of its free amounts matters to them.

Capping free amounts at what the pods can use puts more nodes into one class. The pod capacity of a node
measures the tightness of domains; it is not capped. It is a number of pods if all request the same. Otherwise
a pod counts by its dominant share of the largest node, and each kind of pod counts as if it had the node
alone.
"""

from collections.abc import Callable, Sequence
from typing import Final

from phalanx.model.resources import Resources

Vector = tuple[int, ...]

NodeCapacityFor = Callable[[tuple[bool, ...], Resources], tuple[Vector, int] | None]
"""Eligibility per batch and free amounts -> relevant amounts and pod capacity; None if no pod fits."""

PODS_ON_NODE_MAX: Final = 1 << 20
"""Pods that count on one node at most; no kubelet runs that many."""


def node_capacity(
    resources: Sequence[str], requests: Sequence[Vector], at_most: Vector, weights: Sequence[int]
) -> NodeCapacityFor:
    """A function that caps the free amounts of a node at what the pods can use, and states its pod capacity.

    `requests` are aligned with `resources`; `at_most` bounds the pods of each request on one node; `weights`
    are those of `pod_weights`.
    """
    if len(requests) == 1:
        return _of_one_batch(resources, requests[0], at_most[0], weights[0])
    return _of_batches(resources, requests, at_most, weights)


def _of_one_batch(resources: Sequence[str], request: Vector, at_most: int, weight: int) -> NodeCapacityFor:
    """Exactly the amounts that the fitting pods use."""
    needs = tuple((name, need) for name, need in zip(resources, request, strict=True) if need > 0)
    used_by = [tuple([count * need for need in request]) for count in range(at_most + 1)]

    def capacity(eligible: tuple[bool, ...], free: Resources) -> tuple[Vector, int] | None:
        count = PODS_ON_NODE_MAX
        for name, need in needs:
            fit = free.get(name, 0) // need
            if fit < count:
                count = fit
        if count <= 0 or not eligible[0]:
            return None
        return used_by[min(at_most, count)], weight * count

    return capacity


def _of_batches(
    resources: Sequence[str], requests: Sequence[Vector], at_most: Vector, weights: Sequence[int]
) -> NodeCapacityFor:
    """Each amount, capped at the total that the fitting pods of each batch alone use."""

    def capacity(eligible: tuple[bool, ...], free: Resources) -> tuple[Vector, int] | None:
        amounts = tuple([free.get(name, 0) for name in resources])
        counts = [
            pods_that_fit(request, amounts, PODS_ON_NODE_MAX) if allowed else 0
            for request, allowed in zip(requests, eligible, strict=True)
        ]
        if not any(counts):
            return None
        used = used_together(requests, list(map(min, counts, at_most)))
        kinds = {
            request: weight * count
            for request, weight, count in zip(requests, weights, counts, strict=True)
            if count
        }
        return capped(amounts, used), sum(kinds.values())

    return capacity


def used_together(requests: Sequence[Vector], counts: Sequence[int]) -> Vector:
    """The total of these numbers of pods, per resource."""
    used = [[count * need for need in request] for request, count in zip(requests, counts, strict=True)]
    return tuple([sum(column) for column in zip(*used, strict=True)])


def capped(amounts: Sequence[int], caps: Sequence[int]) -> Vector:
    """Each amount, at least 0 and at most its cap."""
    return tuple([max(0, min(amount, cap)) for amount, cap in zip(amounts, caps, strict=True)])


def pods_that_fit(request: Vector, free: Vector, most: int) -> int:
    """The number of pods with this request that fit, at most `most`."""
    counts = [amount // need for need, amount in zip(request, free, strict=True) if need > 0]
    return max(0, min([most, *counts]))


WHOLE_NODE: Final = 1_000


def pod_weights(
    kinds: Sequence[Vector], requests: Sequence[Resources], largest: Resources
) -> tuple[int, ...]:
    """The weight of one pod of each batch in the pod capacity of nodes: 1 if all batches are of one kind.

    Otherwise it is the dominant share of the largest node that the pod takes, in thousandths, at least 1.
    `kinds` are equal for batches of one kind; `largest` is the largest amount of each resource on any node.
    """
    if len(set(kinds)) == 1:
        return (1,) * len(kinds)
    shares = (
        [need * WHOLE_NODE // largest[name] for name, need in amounts.items() if largest.get(name, 0) > 0]
        for amounts in requests
    )
    return tuple([max(1, *own) if own else 1 for own in shares])
