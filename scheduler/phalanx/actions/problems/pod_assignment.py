"""Which pod of a role gets which of the places that the role was given: along the network, in order of rank.

Where a workload has parts, such as leaders with workers of their own, the largest role goes first, and each
pod of another role then gets a place as near as can be to the first pod of its part. Domains are nested, so
the pairs that can lie on one node are made first, then those of one rack, and so on outward: no other way has
more pairs as close.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from phalanx.framework.nodes.topology import Path
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod

Place = tuple[str, ...]
"""The domains around a node, the widest first, and the node."""


class Role(Struct, frozen=True):
    """Pods in the order of their ranks, and along the network a node for each, once per place."""

    pods: Sequence[Pod]
    nodes: Sequence[NodeName]


def in_rank_order(roles: Sequence[Role], paths: Mapping[NodeName, Path]) -> list[list[Pod]]:
    """Per role its pods in the order of its places. There may be fewer places than pods."""
    taken = [list(role.pods[: len(role.nodes)]) for role in roles]
    if len(roles) < 2 or len({pod.part for pods in taken for pod in pods} - {None}) < 2:
        return taken
    leading = max(range(len(roles)), key=lambda index: len(taken[index]))
    first: dict[int | None, Place] = {}
    for pod, node in zip(taken[leading], roles[leading].nodes, strict=True):
        if pod.part is not None:
            first.setdefault(pod.part, _place(node, paths))
    return [
        pods if index == leading else _near_their_parts(pods, role.nodes, first, paths)
        for index, (role, pods) in enumerate(zip(roles, taken, strict=True))
    ]


def _place(node: NodeName, paths: Mapping[NodeName, Path]) -> Place:
    return (*paths.get(node, ()), node)


def _near_their_parts(
    pods: Sequence[Pod],
    nodes: Sequence[NodeName],
    wished: Mapping[int | None, Place],
    paths: Mapping[NodeName, Path],
) -> list[Pod]:
    """The pods in the order of these nodes."""
    places = [_place(node, paths) for node in nodes]
    waiting, seated = dict(enumerate(pods)), dict[int, Pod]()
    for depth in range(max(map(len, places), default=0), -1, -1):
        free: dict[Place, deque[int]] = {}
        for number, place in enumerate(places):
            if number not in seated and len(place) >= depth:
                free.setdefault(place[:depth], deque()).append(number)
        for rank, pod in list(waiting.items()):
            near = free.get(wished.get(pod.part, ())[:depth])
            if near:
                seated[near.popleft()] = waiting.pop(rank)
    return [seated[number] for number in range(len(places))]
