"""NUMA zones of a fake node: assignment to containers or pods, as by a kubelet's topology manager.

It is independent of the scheduler's own code, as `pod_requests.py` is. Of the topology manager's policies
only single-numa-node rejects pods here. A container or pod gets the first zone with enough free capacity.
"""

from collections.abc import Sequence
from typing import Final

from phalanx.model.resources import (
    CPU,
    MEMORY,
    Resources,
    add,
    capacity_amount,
    fits,
    request_amount,
    subtract,
)

from phalanx_simulator.embedded.store import Object

TOPOLOGIES: Final = "noderesourcetopologies.topology.node.k8s.io"
"""The resource with a node's zones; its objects have the names of nodes."""

REJECTED: Final = (
    "TopologyAffinityError",
    "Pod was rejected: Resources cannot be allocated with Topology locality",
)
"""Reason and message of a pod for which no zone has enough free capacity."""

Taken = tuple[tuple[str, Resources], ...]
"""Pairs of a zone's name and the resources used in it."""


def find_zones(pod: Object, topology: Object | None, in_use: Sequence[Taken]) -> Taken | None:
    """The zones for a pod, given those that admitted pods use; None if it is rejected."""
    settings = {attribute["name"]: attribute["value"] for attribute in (topology or {}).get("attributes", [])}
    if topology is None or settings.get("topologyManagerPolicy") != "single-numa-node":
        return ()
    left = {zone["name"]: _allocatable(zone) for zone in topology["zones"] if zone["type"] == "Node"}
    listed = {name for zone in left.values() for name in zone}
    for name, amounts in (zone_amounts for taken in in_use for zone_amounts in taken):
        left[name] = subtract(left.get(name, {}), amounts)
    found: list[tuple[str, Resources]] = []
    for wanted in _wanted(pod, by_container=settings.get("topologyManagerScope") != "pod"):
        amounts = {name: amount for name, amount in wanted.items() if name in listed}
        zone = next((name for name, free in left.items() if fits(amounts, free)), None)
        if zone is None:
            return None
        left[zone] = subtract(left[zone], amounts)
        found.append((zone, amounts))
    return tuple(found)


def _allocatable(zone: Object) -> Resources:
    return {
        resource["name"]: capacity_amount(resource["name"], resource["allocatable"])
        for resource in zone["resources"]
    }


def _wanted(pod: Object, *, by_container: bool) -> list[Resources]:
    main, init = pod["spec"]["containers"], pod["spec"].get("initContainers") or []
    guaranteed = all(_is_guaranteed(container) for container in (*main, *init))
    aligned = [_aligned(container, guaranteed=guaranteed) for container in (*init, *main)]
    if by_container:
        return aligned
    total: Resources = {}
    for amounts in aligned[len(init) :]:
        total = add(total, amounts)
    for amounts in aligned[: len(init)]:
        total = {name: max(total.get(name, 0), amounts.get(name, 0)) for name in {**total, **amounts}}
    return [total]


def _aligned(container: Object, *, guaranteed: bool) -> Resources:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    amounts = {name: request_amount(name, quantity) for name, quantity in asked.items()}
    return {
        name: amount
        for name, amount in amounts.items()
        if "/" in name or (guaranteed and (name != CPU or amount % 1000 == 0))
    }


def _is_guaranteed(container: Object) -> bool:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    asked = {**limits, **(resources.get("requests") or {})}
    return all(
        name in limits and request_amount(name, limits[name]) == request_amount(name, asked[name])
        for name in (CPU, MEMORY)
    )
