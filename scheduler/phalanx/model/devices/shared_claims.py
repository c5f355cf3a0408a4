"""Claims that all members of a gang use: allocated once, for nodes that can use all their devices.

Each choice of devices leaves the gang certain nodes. A choice without devices of one node comes before one
with some, since it leaves more nodes.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from phalanx.model.devices.allocator import Answer, NodeDevices, nodes_of
from phalanx.model.devices.claims import Allocation
from phalanx.model.devices.pools import Device, DeviceId, Pool, Slice
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node


class SharedAllocation(Struct, frozen=True, gc=False):
    """Allocations of the claims, in order, and the nodes from which all of them can be used."""

    allocations: tuple[Allocation, ...]
    nodes: tuple[NodeName, ...]

    @property
    def devices(self) -> frozenset[DeviceId]:
        """The devices that are used up."""
        return frozenset(
            each.device for found in self.allocations for each in found.devices if not each.admin_access
        )


def shared_allocations(
    nodes: Sequence[Node], on: Callable[[Node], NodeDevices], allocate: Callable[[NodeDevices], Answer]
) -> tuple[SharedAllocation, ...]:
    """The choices, those that leave most nodes first. None leaves a node that an earlier one left.

    `on` returns what a node can use, `allocate` an allocation of the claims from that.
    """
    found: list[SharedAllocation] = []
    covered: set[NodeName] = set()
    for node in nodes:
        if node.name not in covered:
            for choice in _choices(node, on(node), allocate):
                left = tuple(
                    each.name for each in nodes if each.name not in covered and _allows(choice, each)
                )
                found.append(SharedAllocation(choice, left))
                covered.update(left)
                break
    return tuple(sorted(found, key=lambda each: -len(each.nodes)))


def _choices(
    node: Node, place: NodeDevices, allocate: Callable[[NodeDevices], Answer]
) -> Iterator[tuple[Allocation, ...]]:
    for some in (structs.replace(place, pools=tuple(map(_without_local, place.pools))), place):
        answer = allocate(some)
        if answer.claims is not None:
            yield tuple(
                Allocation(devices, nodes_of(candidates, node))
                for devices, candidates in zip(answer.claims, answer.candidates, strict=True)
            )


def _without_local(pool: Pool) -> Pool:
    """The pool without devices that only one node can use. Those that are in use keep their counters."""
    parts = [(each, [device for device in each.devices if _is_shared(each, device)]) for each in pool.slices]
    rest = [(each, [device for device in each.devices if device not in kept]) for each, kept in parts]
    return structs.replace(
        pool,
        slices=tuple(structs.replace(each, devices=tuple(kept)) for each, kept in parts),
        other_slices=(
            *pool.other_slices,
            *(structs.replace(each, devices=tuple(others)) for each, others in rest),
        ),
    )


def _is_shared(written: Slice, device: Device) -> bool:
    choice = device.choice if written.per_device else written.choice
    return choice is not None and not choice.node


def _allows(choice: tuple[Allocation, ...], node: Node) -> bool:
    return all(each.nodes.allows(node) for each in choice)
