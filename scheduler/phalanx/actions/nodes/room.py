"""How much room a node offers to a gang's pods: the measure by which one domain is tighter than another.

Room is counted in pods where all ask for the same. Pods of several kinds count by the part of the largest
node that one of them takes, each kind as if it had the node alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from phalanx.actions.nodes.pod_capacity import Vector, pods_that_fit

WHOLE_NODE: Final = 1_000

Weights = Mapping[Vector, int]
"""What a pod counts, by its request."""


def pod_weights(requests: Sequence[Vector], resources: Sequence[str], largest: Mapping[str, int]) -> Weights:
    """Thousandths of what the largest nodes have of the resource where that is most, at least one.

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
    """The room of a node. `at_most` are the pods of each batch that a node could take."""
    most: dict[Vector, int] = {}
    for allowed, request, count in zip(eligible, requests, at_most, strict=True):
        if allowed:
            most[request] = most.get(request, 0) + count
    return sum([weights[request] * pods_that_fit(request, free, count) for request, count in most.items()])
