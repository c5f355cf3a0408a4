"""How many pods fit a node, and which part of its free amounts matters to them.

Capping free amounts at what the pods can use puts more nodes into one class. The capacity in pods measures
the tightness of domains. It is a number of pods if all request the same. Otherwise a pod counts by its
dominant share of the largest node, and each kind of pod counts as if it had the node alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from phalanx.model.resources import Resources

Vector = tuple[int, ...]

RelevantAmounts = Callable[[tuple[bool, ...], Resources], Vector | None]
"""Eligibility per batch and free amounts -> relevant amounts; None if no pod fits."""


def relevant_amounts(
    resources: Sequence[str], requests: Sequence[Vector], at_most: Vector
) -> RelevantAmounts:
    """A function that caps the free amounts of a node at what the pods can use.

    `requests` are aligned with `resources`; `at_most` bounds the pods of each request on one node.
    """
    if len(requests) == 1:
        return _of_one_batch(resources, requests[0], at_most[0])
    return _of_batches(resources, requests, at_most)


def _of_one_batch(resources: Sequence[str], request: Vector, at_most: int) -> RelevantAmounts:
    """Exactly the amounts that the fitting pods use."""
    needs = tuple((name, need) for name, need in zip(resources, request, strict=True) if need > 0)
    used_by = [tuple([count * need for need in request]) for count in range(at_most + 1)]

    def relevant(eligible: tuple[bool, ...], free: Resources) -> Vector | None:
        count = at_most
        for name, need in needs:
            fit = free.get(name, 0) // need
            if fit < count:
                count = fit
        return used_by[count] if count > 0 and eligible[0] else None

    return relevant


def _of_batches(resources: Sequence[str], requests: Sequence[Vector], at_most: Vector) -> RelevantAmounts:
    """Each amount, capped at the total that the fitting pods of each batch alone use."""

    def relevant(eligible: tuple[bool, ...], free: Resources) -> Vector | None:
        amounts = tuple([free.get(name, 0) for name in resources])
        counts = [
            pods_that_fit(request, amounts, most) if allowed else 0
            for request, most, allowed in zip(requests, at_most, eligible, strict=True)
        ]
        return capped(amounts, used_together(requests, counts)) if any(counts) else None

    return relevant


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

Weights = Mapping[Vector, int]
"""The weight of a pod by its request."""


def pod_weights(requests: Sequence[Vector], resources: Sequence[str], largest: Mapping[str, int]) -> Weights:
    """The dominant share of the largest node that each request takes, in thousandths, at least 1.

    `requests` are aligned with `resources`, of which no node has more than `largest`.
    """
    kinds = dict.fromkeys(requests)
    if len(kinds) == 1:
        return dict.fromkeys(kinds, 1)
    most = [max(1, largest.get(name, 1)) for name in resources]
    shares = {
        request: max(need * WHOLE_NODE // top for need, top in zip(request, most, strict=True))
        for request in kinds
    }
    return {request: max(1, share) for request, share in shares.items()}


def capacity_in_pods(
    free: Vector,
    eligible: Sequence[bool],
    requests: Sequence[Vector],
    at_most: Sequence[int],
    weights: Weights,
) -> int:
    """The weighted number of pods that fit a node, at most `at_most` of each batch."""
    most: dict[Vector, int] = {}
    for allowed, request, count in zip(eligible, requests, at_most, strict=True):
        if allowed:
            most[request] = most.get(request, 0) + count
    return sum([weights[request] * pods_that_fit(request, free, count) for request, count in most.items()])
