"""Shares of GPUs as amounts that add up, since the solver knows nodes and amounts, but no devices.

Pods that ask for one share fit on the devices of a node exactly as often as it goes into each of them: what
is free is that many times the share. Where shares differ and each is a multiple of the next smaller one, they
fit exactly when, for each size, the pods of this size and of larger ones use no more than all whole pieces of
this size that are left on the devices (see `dealt` for why that is enough). So there is one amount per size:
GPU_SHARE itself counts in pieces of the smallest.

Shares that do not go together are refused before they come here, but for the lost members of a gang for which
room is kept: each of those counts as the largest, which is never too little.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from phalanx.framework.session import Session
from phalanx.model.gpu_shares import (
    GPU_SHARE,
    free_devices,
    incompatible_shares,
    requests_share,
    share_of,
    share_on_node,
)
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

PIECES: Final = f"{GPU_SHARE} in pieces of "
"""Begins the names of the amounts for larger sizes."""

LARGEST: Final = f"{GPU_SHARE} of any size"


class ShareProjection(Struct, frozen=True):
    """`shares`: all different requests for shares, smallest first. `mixed`: they do not go together."""

    shares: tuple[Resources, ...]
    mixed: bool

    def request(self, requests: Resources) -> Resources:
        """What a pod asks for, with the amounts that are made for shares."""
        if not requests_share(requests):
            return requests
        if self.mixed:
            return {**requests, LARGEST: 1}
        size = requests.get(GPU_SHARE, 0)
        return {**requests, **{_pieces(each): size for each in self._larger if each <= size}}

    def free(self, session: Session, node: NodeName) -> Resources:
        """What is free on the node now, in amounts of which pods can use all."""
        state, free = session.nodes[node], session.free(node)
        devices = free_devices(state, free)
        sizes = [share_on_node(each, state.node.allocatable) for each in self.shares]
        if self.mixed:
            return {**free, LARGEST: _count(devices, max(sizes))}
        larger = {_pieces(size): size * _count(devices, size) for size in self._larger}
        (name, least) = next(iter(self.shares[0].items()))
        pieces = min(_count(devices, sizes[0]), max(0, free.get(name, 0)) // least)
        return {**free, name: least * pieces, **larger}

    @property
    def _larger(self) -> list[int]:
        return [each[GPU_SHARE] for each in self.shares[1:]]


def share_projection(pods: Sequence[Pod]) -> ShareProjection | None:
    """None where nobody asks for a share."""
    asked = [pod.shape.requests for pod in pods]
    shares = sorted({share for each in asked if (share := share_of(each)) is not None})
    if not shares:
        return None
    return ShareProjection(
        tuple({name: amount} for name, amount in shares), mixed=incompatible_shares(shares) is not None
    )


def _count(devices: Sequence[int], size: int) -> int:
    """How many pieces of this size are left on the devices."""
    return sum(max(0, amount) // size for amount in devices)


def _pieces(size: int) -> str:
    return f"{PIECES}{size}"
