"""Shares of GPUs: several pods on one device, counted per device in thousandths.

A node that shares its GPUs offers three kinds of resources: GPU_SHARE, the thousandths of all its devices;
GPU_MEMORY, the bytes of all its devices, if the memory of a device is known; and each device as a resource of
its own, such as `gpu[3]`. Code that counts resources (ledgers, statements, free capacity) therefore counts
devices without special cases. A pod requests GPU_SHARE or GPU_MEMORY. It uses that amount of its node and its
queue, and the same part of one device. The remaining sums are not enough to decide whether a share fits,
because both forms use the same devices: call `free_devices`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from phalanx.model.names import (
    ANNOTATION_GPU_INDEX,
    ANNOTATION_GPU_MEMORY,
    ANNOTATION_GPU_SHARE,
    ANNOTATION_GPU_TAKEN,
)
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Device
from phalanx.model.resources import NONE, Need, Resources

GPU_SHARE: Final = ANNOTATION_GPU_SHARE
GPU_MEMORY: Final = ANNOTATION_GPU_MEMORY

WHOLE_DEVICE: Final = 1000
"""One device, in thousandths."""

UNKNOWN_DEVICE: Final = "gpu[?]"
"""Usage of an unknown device. It counts on every device of the node, since it may be on any of them."""

_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


def device_name(index: int) -> str:
    """The resource name of a device. No Kubernetes resource can have such a name."""
    return f"gpu[{index}]"


def is_device(resource: str) -> bool:
    """Whether the resource is a single device."""
    return resource.startswith("gpu[")


def requests_share(requests: Resources) -> bool:
    """Whether a part of a device is requested."""
    return GPU_SHARE in requests or GPU_MEMORY in requests


def shared_devices(count: int, memory: int) -> Resources:
    """Resources of a node that shares `count` devices; `memory` of each in bytes, 0 if unknown."""
    devices = {device_name(index): WHOLE_DEVICE for index in range(count)}
    memories = {GPU_MEMORY: memory * count} if memory else NONE
    return {GPU_SHARE: WHOLE_DEVICE * count, **memories, **devices}


def device_count(allocatable: Resources) -> int:
    """Number of devices that a node shares."""
    return allocatable.get(GPU_SHARE, 0) // WHOLE_DEVICE


def device_memory(allocatable: Resources) -> int:
    """Bytes of one device of a node with shared devices; 0 if unknown."""
    return allocatable.get(GPU_MEMORY, 0) // max(1, device_count(allocatable))


def share_on_node(requests: Resources, allocatable: Resources) -> int:
    """Thousandths of a device of this node that a pod uses, rounded up; above WHOLE if no device is
    enough."""
    if GPU_SHARE in requests:
        return requests[GPU_SHARE]
    memory = device_memory(allocatable)
    return -(-requests[GPU_MEMORY] * WHOLE_DEVICE // memory) if memory else WHOLE_DEVICE + 1


def free_devices(state: NodeState, free: Resources) -> tuple[int, ...]:
    """Free thousandths per device of the node; negative for an over-committed device.

    `free` are the free amounts of the node. Usage of an unknown device, or of a device that the node does not
    have, counts on each device, because it may be on any of them.
    """
    own = [free.get(device_name(index), 0) for index in range(device_count(state.node.allocatable))]
    astray = sum(amount for name, amount in free.items() if is_device(name)) - sum(own)
    return tuple([amount + astray for amount in own])


def free_share(state: NodeState, free: Resources) -> Resources:
    """Free amounts of all devices of the node together, in both forms of request."""
    left = sum(max(0, amount) for amount in free_devices(state, free))
    return {GPU_SHARE: left, GPU_MEMORY: left * device_memory(state.node.allocatable) // WHOLE_DEVICE}


def assign_devices(sizes: Sequence[int], devices: Sequence[int]) -> tuple[int, ...] | None:
    """Choose a device for each size by best fit decreasing: the device with the least free share that
    suffices.

    None if no device suffices for some size. This is exact if, of any two sizes, one is a multiple of the
    other (equal sizes included): when a size does not fit, every device has less than that size left, and
    everything assigned so far is a multiple of it, so no other assignment leaves more free capacity for it.
    """
    left = list(devices)
    chosen = [0] * len(sizes)
    for place in sorted(range(len(sizes)), key=lambda place: (-sizes[place], place)):
        enough = [index for index, amount in enumerate(left) if amount >= sizes[place]]
        if not enough:
            return None
        chosen[place] = min(enough, key=lambda index: (left[index], index))
        left[chosen[place]] -= sizes[place]
    return tuple(chosen)


def share_of(requests: Resources) -> Need | None:
    """The requested share; None for a request without one."""
    for name in (GPU_SHARE, GPU_MEMORY):
        if name in requests:
            return name, requests[name]
    return None


def incompatible_shares(shares: Iterable[Need]) -> tuple[Need, Need] | None:
    """Two shares for which best fit decreasing is not exact; None if there are no such shares.

    Compatible are equal shares, and thousandths of which one is a multiple of the other.
    """
    ordered = sorted(set(shares))
    for one, other in pairwise(ordered):
        if other[0] != GPU_SHARE or one[0] != GPU_SHARE or other[1] % one[1]:
            return one, other
    return None


def device_annotations(device: Device | None) -> Mapping[str, str]:
    """Annotations that are written on a pod together with its node."""
    if device is None:
        return _NO_ANNOTATIONS
    return {ANNOTATION_GPU_INDEX: str(device.index), ANNOTATION_GPU_TAKEN: str(device.taken)}
