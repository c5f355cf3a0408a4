"""Shares of GPUs as a supply: parts of devices, projected to amounts that add up.

Pods with equal shares fit the devices of a node as often as the share fits each device, so the free amount is
that number times the share. If shares differ and each is a multiple of the next smaller one, pods fit exactly
if, for each size, the pods of this and larger sizes use at most the whole units of this size that are left on
the devices. So there is one amount per size; GPU_SHARE itself counts units of the smallest size. Incompatible
shares are refused earlier, except for lost members whose capacity is held: each of those counts as the
largest share, which is never too little.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model import named_parts
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Device, Pod, PodShape
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import NONE, Need, Resources, format_bytes
from phalanx.model.supplies.gpu_shares.devices import (
    GPU_MEMORY,
    GPU_SHARE,
    UNKNOWN_DEVICE,
    WHOLE_DEVICE,
    assign_devices,
    device_name,
    free_devices,
    free_share,
    incompatible_shares,
    requests_share,
    share_of,
    share_on_node,
)
from phalanx.model.supplies.supply import OpenSupply, Parts, PartsLacking, Supply

_UNITS: Final = f"{GPU_SHARE} in units of "
"""The prefix of the amounts for larger sizes."""

_LARGEST: Final = f"{GPU_SHARE} of any size"


class GpuShares(Supply):
    """The devices that nodes share."""

    name = "gpu"
    requested = (GPU_SHARE, GPU_MEMORY)

    def offered(self, resource: str) -> int:
        """Nodes list their devices."""
        return 0

    def is_shown(self, resource: str, number: int) -> bool:
        """Single devices are not: the amounts of all of them are."""
        return False

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "0.25 shared GPUs"."""
        if resource == GPU_MEMORY:
            return f"{format_bytes(number, up=up)} of GPU memory"
        if resource.startswith(_UNITS):
            size = resource.removeprefix(_UNITS)
            return f"{_devices(number)} shared GPUs in units of {_devices(int(size))}"
        return f"{_devices(number)} shared GPU{'' if number == WHOLE_DEVICE else 's'}"

    def need(self, shape: PodShape) -> Need | None:
        """The requested share."""
        return share_of(shape.requests)

    def contradiction(self, needs: Mapping[Need, str]) -> Objection | None:
        """Only compatible shares can be proven to fit together."""
        pair = incompatible_shares(needs)
        if pair is None:
            return None
        one, other = (f"{name} {amount} in pod {needs[name, amount]}" for name, amount in pair)
        return Objection(
            Reason.UNSUPPORTED_FIELD,
            f"the members request incompatible GPU shares: {one}, {other}",
            "Set one share in all members, or shares that are multiples of each other",
        )

    def usage(self, shape: PodShape, part: Device | None, *, runs: bool) -> Resources:
        """Of one device if it is known, else of any device."""
        if not requests_share(shape.requests):
            return NONE
        if part is None:
            return {UNKNOWN_DEVICE: shape.requests.get(GPU_SHARE, WHOLE_DEVICE)}
        return {device_name(part.index): part.taken}

    def open(self, nodes: Sequence[Node]) -> "OpenShares | None":
        """Opened if a node shares its devices."""
        for node in nodes:
            if GPU_SHARE in node.allocatable:
                return OpenShares(self)
        return None

    def objection(self, pod: Pod, state: NodeState, beside: Callable[[], Iterable[Pod]]) -> str | None:
        """Its device may have been taken, or its share may have grown."""
        requests, device = pod.shape.requests, pod.device
        if GPU_SHARE not in requests and GPU_MEMORY not in requests:
            return None
        if device is None or device.taken < share_on_node(requests, state.node.allocatable):
            return f"pod {pod} requests more of a GPU"
        free = free_devices(state, state.free)
        if device.index < len(free) and free[device.index] >= 0:
            return None
        node = named_parts.node(state.node.name, titled=True)
        return f"GPU {device.index} of {node} has insufficient capacity"


class OpenShares(OpenSupply):
    """The devices that nodes of a session share."""

    unit = "GPUs"

    def project(self, shapes: Sequence[PodShape]) -> "ShareProjection":
        """Units of each size."""
        asked = [share for shape in shapes if (share := share_of(shape.requests)) is not None]
        shares = sorted(set(asked))
        return ShareProjection(
            tuple({name: amount} for name, amount in shares), mixed=incompatible_shares(shares) is not None
        )

    def take(self, state: NodeState, free: Resources, pods: Sequence[Pod], parts: Parts) -> Parts:
        """By best fit."""
        left = list(free_devices(state, free))
        devices = {pod.uid: parts[pod.uid] for pod in pods if pod.uid in parts}
        for device in devices.values():
            left[device.index] -= device.taken
        is_over = any(left[device.index] < 0 for device in devices.values())
        others = [pod for pod in pods if pod.uid not in parts]
        sizes = [share_on_node(pod.shape.requests, state.node.allocatable) for pod in others]
        indices = assign_devices(sizes, left)
        if indices is None or is_over:
            raise PartsLacking(f"the GPUs of node {state.node.name} have no capacity for {len(pods)} shares")
        for pod, index, size in zip(others, indices, sizes, strict=True):
            devices[pod.uid] = Device(index=index, taken=size)
        return devices

    def lacking(self, shape: PodShape, state: NodeState, free: Resources) -> str | None:
        """Such as "no GPU with a share of 0.25 free"."""
        requests = shape.requests
        size = share_on_node(requests, state.node.allocatable)
        if any(amount >= size for amount in free_devices(state, free)):
            return None
        if GPU_SHARE in requests:
            return f"no GPU with a share of {_devices(requests[GPU_SHARE])} free"
        return f"no GPU with {format_bytes(requests[GPU_MEMORY])} of memory free"

    def is_fragmented(self, shape: PodShape, state: NodeState, free: Resources) -> bool:
        """Shares are always in one device."""
        return True

    def usable(self, state: NodeState, free: Resources) -> Resources:
        """What is free of all devices together."""
        return free_share(state, free)


class ShareProjection(Struct, frozen=True):
    """The projection of GPU shares."""

    shares: tuple[Resources, ...]
    """All distinct shares, the smallest first."""

    mixed: bool
    """Whether the shares are incompatible."""

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """The requests with the projected amounts."""
        if not requests_share(requests):
            return requests
        if self.mixed:
            return {**requests, _LARGEST: 1}
        size = requests.get(GPU_SHARE, 0)
        return {**requests, **{_unit(unit): size for unit in self._larger if unit <= size}}

    def free(self, state: NodeState, free: Resources) -> Resources:
        """These free amounts of the node, reduced to what pods can use."""
        devices = free_devices(state, free)
        sizes = [share_on_node(share, state.node.allocatable) for share in self.shares]
        if self.mixed:
            return {**free, _LARGEST: _count(devices, max(sizes))}
        larger = {_unit(size): size * _count(devices, size) for size in self._larger}
        (name, least) = next(iter(self.shares[0].items()))
        pieces = min(_count(devices, sizes[0]), max(0, free.get(name, 0)) // least)
        return {**free, name: least * pieces, **larger}

    @property
    def _larger(self) -> list[int]:
        return [share[GPU_SHARE] for share in self.shares[1:]]


def _count(devices: Sequence[int], size: int) -> int:
    """The number of whole units of this size that are free on the devices."""
    return sum(max(0, amount) // size for amount in devices)


def _unit(size: int) -> str:
    return f"{_UNITS}{size}"


def _devices(thousandths: int) -> str:
    """Such as 3 or 0.25."""
    whole, rest = divmod(thousandths, WHOLE_DEVICE)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


GPU_SHARES: Final = GpuShares()
