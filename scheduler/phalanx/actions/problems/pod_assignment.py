"""Assign the pods of a demand to the nodes of a solution, in the order of their ranks along the network.

If a workload has parts, such as leaders with workers of their own, the largest role is assigned first, and
each pod of another role then goes as near as possible to the first pod of its part. Domains are nested, so a
greedy match from the narrowest level outward is optimal: pairs on one node first, then in one rack, etc.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.rules.problem import Assignment

Slot = tuple[str, ...]
"""The domains of a node, the widest first, and the node."""


class Role(Struct, frozen=True):
    """Pods in the order of their ranks, and for each a node, in the order of the network."""

    pods: Sequence[Pod]
    nodes: Sequence[NodeName]


def assign_pods(session: Session, demand: Demand, assignments: Sequence[Assignment]) -> Assignments:
    """Assign pods by rank to nodes in network order, so that pods of adjacent ranks are close."""
    topology = session.topologies.of(demand.gang) if len(assignments) > 1 else None
    paths = session.topologies.paths(topology) if topology is not None else {}
    ordered = sorted(assignments, key=lambda found: (found.role, paths.get(found.node, ()), found.node))
    nodes: list[list[NodeName]] = [[] for _ in demand.batches]
    for found in ordered:
        nodes[found.role] += [found.node] * found.count
    roles = [Role(batch.pods, chosen) for batch, chosen in zip(demand.batches, nodes, strict=True)]
    pods = [iter(ranked) for ranked in in_rank_order(roles, paths)]
    return [(found.node, tuple(islice(pods[found.role], found.count))) for found in ordered]


def in_rank_order(roles: Sequence[Role], paths: Mapping[NodeName, Path]) -> list[list[Pod]]:
    """For each role its pods in the order of its nodes. There may be fewer nodes than pods."""
    taken = [list(role.pods[: len(role.nodes)]) for role in roles]
    if len(roles) < 2 or len({pod.group_index for pods in taken for pod in pods} - {None}) < 2:
        return taken
    leading = max(range(len(roles)), key=lambda index: len(taken[index]))
    first: dict[int | None, Slot] = {}
    for pod, node in zip(taken[leading], roles[leading].nodes, strict=True):
        if pod.group_index is not None:
            first.setdefault(pod.group_index, _slot(node, paths))
    return [
        pods if index == leading else _near_their_parts(pods, role.nodes, first, paths)
        for index, (role, pods) in enumerate(zip(roles, taken, strict=True))
    ]


def _slot(node: NodeName, paths: Mapping[NodeName, Path]) -> Slot:
    return (*paths.get(node, ()), node)


def _near_their_parts(
    pods: Sequence[Pod],
    nodes: Sequence[NodeName],
    preferred: Mapping[int | None, Slot],
    paths: Mapping[NodeName, Path],
) -> list[Pod]:
    """The pods in the order of these nodes, each near the slot that its part prefers."""
    slots = [_slot(node, paths) for node in nodes]
    waiting, assigned = dict(enumerate(pods)), dict[int, Pod]()
    for depth in range(max(map(len, slots), default=0), -1, -1):
        free: dict[Slot, deque[int]] = {}
        for number, slot in enumerate(slots):
            if number not in assigned and len(slot) >= depth:
                free.setdefault(slot[:depth], deque()).append(number)
        for rank, pod in list(waiting.items()):
            near = free.get(preferred.get(pod.group_index, ())[:depth])
            if near:
                assigned[near.popleft()] = waiting.pop(rank)
    return [assigned[number] for number in range(len(slots))]
