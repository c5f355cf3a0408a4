"""Shares of GPUs: several pods on one device, counted per device, in thousandths of it.

A node that shares its GPUs offers GPU_SHARE, the thousandths of all its devices together, GPU_MEMORY, their
bytes, where the memory of a device is known, and each device as a resource of its own, such as `gpu[3]`. So
whatever counts resources (ledgers, statements, what is free) counts devices too. A pod asks for GPU_SHARE or
GPU_MEMORY; it takes that of its node and its queue, and as much of one device. What is left of the sums says
little: the other form takes from the same devices. Ask `free_devices`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from phalanx.model.names import (
    ANNOTATION_GPU_INDEX,
    ANNOTATION_GPU_MEMORY,
    ANNOTATION_GPU_SHARE,
    ANNOTATION_GPU_TAKEN,
    PodUid,
)
from phalanx.model.nodes import NodeState
from phalanx.model.numa import as_running_resource
from phalanx.model.pods import Device, Pod, PodPhase, PodShape
from phalanx.model.resources import NONE, Resources, add

GPU_SHARE: Final = ANNOTATION_GPU_SHARE
GPU_MEMORY: Final = ANNOTATION_GPU_MEMORY

WHOLE_DEVICE: Final = 1000
"""A device, in thousandths."""

UNKNOWN_DEVICE: Final = "gpu[?]"
"""Use of a device that nobody names: it counts on each device of the node, since it may be on any."""

Share = tuple[str, int]
"""GPU_SHARE or GPU_MEMORY, and how much of it."""

Devices = Mapping[PodUid, Device]
"""Which device each pod with a share gets."""

NO_DEVICES: Final[Devices] = {}
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


def device_name(index: int) -> str:
    """The name as a resource; no Kubernetes resource can have such a name."""
    return f"gpu[{index}]"


def is_device(resource: str) -> bool:
    """Whether the resource is a single device."""
    return resource.startswith("gpu[")


def requests_share(requests: Resources) -> bool:
    """Whether this is a request for a part of a device."""
    return GPU_SHARE in requests or GPU_MEMORY in requests


def shared_devices(count: int, memory: int) -> Resources:
    """What a node offers that shares so many devices; `memory` of each in bytes, 0 when it is not known."""
    devices = {device_name(index): WHOLE_DEVICE for index in range(count)}
    memories = {GPU_MEMORY: memory * count} if memory else NONE
    return {GPU_SHARE: WHOLE_DEVICE * count, **memories, **devices}


def device_count(allocatable: Resources) -> int:
    """How many devices a node shares."""
    return allocatable.get(GPU_SHARE, 0) // WHOLE_DEVICE


def device_memory(allocatable: Resources) -> int:
    """Bytes of one device of a node that shares some; 0 when they are not known."""
    return allocatable.get(GPU_MEMORY, 0) // max(1, device_count(allocatable))


def share_on_node(requests: Resources, allocatable: Resources) -> int:
    """Thousandths of a device of this node that a pod takes, rounded up; above WHOLE where none is enough."""
    if GPU_SHARE in requests:
        return requests[GPU_SHARE]
    memory = device_memory(allocatable)
    return -(-requests[GPU_MEMORY] * WHOLE_DEVICE // memory) if memory else WHOLE_DEVICE + 1


def free_devices(state: NodeState, free: Resources) -> tuple[int, ...]:
    """Per device of the node, the thousandths that are left; negative where it is over-committed.

    `free` are the node's free amounts. Use of a device that the node does not have, or that nobody names,
    counts on each of its devices: which of them it is on is not known.
    """
    own = [free.get(device_name(index), 0) for index in range(device_count(state.node.allocatable))]
    astray = sum(amount for name, amount in free.items() if is_device(name)) - sum(own)
    return tuple([amount + astray for amount in own])


def free_share(state: NodeState, free: Resources) -> Resources:
    """What all devices of the node together have left, in both forms in which it can be asked for."""
    left = sum(max(0, amount) for amount in free_devices(state, free))
    return {GPU_SHARE: left, GPU_MEMORY: left * device_memory(state.node.allocatable) // WHOLE_DEVICE}


def shape_usage(shape: PodShape, device: Device | None, *, runs: bool = False) -> Resources:
    """What a pod of this shape takes of its node: on a device, where that is known, else on any.

    And of the node's NUMA zones, in which it has its place once it `runs`.
    """
    requests = shape.requests
    if shape.numa:
        requests = {**requests, (as_running_resource(shape.numa) if runs else shape.numa): 1}
    if not requests_share(requests):
        return requests
    taken = device.taken if device is not None else requests.get(GPU_SHARE, WHOLE_DEVICE)
    name = device_name(device.index) if device is not None else UNKNOWN_DEVICE
    return {**requests, name: taken}


def pod_usage(pod: Pod) -> Resources:
    """What a pod on a node takes of it: its requests, its part of a device, its place in NUMA zones."""
    return shape_usage(pod.shape, pod.device, runs=pod.phase is not PodPhase.PENDING)


def total_usage(pods: Iterable[Pod], devices: Devices) -> Resources:
    """What these pods, of which none runs yet, take of a node together, on these devices."""
    total: Resources = {}
    for pod in pods:
        total = add(total, shape_usage(pod.shape, devices.get(pod.uid)))
    return total


def assign_devices(sizes: Sequence[int], devices: Sequence[int]) -> tuple[int, ...] | None:
    """A device for each size: the largest first, each where the least is left that is enough.

    None when one finds no place. Where of two sizes one is a multiple of the other, and of one size anyway,
    this finds a way when there is one: a size fails only when each device has less than that left, and what
    was put there is a multiple of it, so no other way leaves more room for it.
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


def share_of(requests: Resources) -> Share | None:
    """The share that is asked for; None for a request without one."""
    for name in (GPU_SHARE, GPU_MEMORY):
        if name in requests:
            return name, requests[name]
    return None


def incompatible_shares(shares: Iterable[Share]) -> tuple[Share, Share] | None:
    """Two shares of which it is not known at once whether they fit side by side; None where all go together.

    These do: equal ones, and thousandths of which one is a multiple of the other.
    """
    ordered = sorted(set(shares))
    for one, other in pairwise(ordered):
        if other[0] != GPU_SHARE or one[0] != GPU_SHARE or other[1] % one[1]:
            return one, other
    return None


def device_annotations(device: Device | None) -> Mapping[str, str]:
    """What is written on a pod together with its node."""
    if device is None:
        return _NO_ANNOTATIONS
    return {ANNOTATION_GPU_INDEX: str(device.index), ANNOTATION_GPU_TAKEN: str(device.taken)}
