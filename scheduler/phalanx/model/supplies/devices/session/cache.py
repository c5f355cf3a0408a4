"""What sessions share of devices: results of selectors, states of devices, and counts."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.resources import add
from phalanx.model.settled_gangs import SettledGangs
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.claims import ClaimSpec, DeviceClass
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pools import Inventory
from phalanx.model.supplies.devices.session.counts import DeviceCounts
from phalanx.model.supplies.devices.session.member_claims import Compositions
from phalanx.model.supplies.devices.shared_pools import SharedPools
from phalanx.model.supplies.devices.slots import SlotCounter

DEVICE_COUNTERS_CACHE_MAX: Final = 1_000
"""Kinds of members whose counts are kept from cycle to cycle: gangs come with ever new
claims."""


class DeviceCache:
    """What sessions share: results of selectors, and counts while the classes are the same objects.

    A session keeps the counters that it has got.
    """

    def __init__(self) -> None:
        self.matcher: Final = Matcher()
        self.settled: Final = SettledGangs[Gang]()
        self.compositions: Final = Compositions()
        self.counts: Final = DeviceCounts()
        self._nodes = ExtendedNodes()
        self._classes: Mapping[str, DeviceClass] = {}
        self._counters: dict[tuple[ClaimSpec, ...], SlotCounter] = {}
        self._state: tuple[ClusterDevices, DeviceState] | None = None
        self._shared: (
            tuple[tuple[Inventory, Mapping[str, DeviceClass], tuple[Node, ...]], SharedPools] | None
        ) = None

    def state(self, devices: ClusterDevices) -> DeviceState:
        """The state of these devices; that of the last session if nothing has changed."""
        if self._state is None or self._state[0] is not devices:
            earlier = self._state[1] if self._state is not None else None
            self._state = (devices, DeviceState(devices, self.matcher, earlier))
        return self._state[1]

    def with_extended(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the extended resources that devices of nodes provide."""
        return self._nodes.added_to(snapshot, self.state(snapshot.part(ClusterDevices)))

    def shared_pools(self, state: DeviceState, nodes: tuple[Node, ...]) -> SharedPools:
        """The devices of several nodes; those of the last session if nothing has changed."""
        key = (state.inventory, state.devices.classes, nodes)
        known = self._shared
        if known is None or known[0][0] is not key[0] or known[0][1] is not key[1] or known[0][2] != nodes:
            known = self._shared = (key, state.shared_pools(nodes))
        return known[1]

    def counters(self, classes: Mapping[str, DeviceClass]) -> dict[tuple[ClaimSpec, ...], SlotCounter]:
        """The counters for these classes, by what they count."""
        if classes is not self._classes or len(self._counters) > DEVICE_COUNTERS_CACHE_MAX:
            self._classes, self._counters = classes, {}
        return self._counters


class ExtendedNodes:
    """Adds extended resources that devices provide to the nodes of snapshots, beside those that they offer
    themselves. A node that has not changed is the same object again.

    A node without a device plugin offers as much of a resource as it has devices of its class. Which of them
    are free is counted as for other claims; the amounts are for the fit of requests, and for queues.
    """

    def __init__(self) -> None:
        self._devices: ClusterDevices | None = None
        self._nodes: dict[NodeName, tuple[Node, Mapping[str, int], Node]] = {}
        self._states: dict[NodeName, tuple[NodeState, NodeState]] = {}

    def added_to(self, snapshot: Snapshot, state: DeviceState) -> Snapshot:
        """The snapshot with the amounts; itself if no pod requests such a resource. `state` is of its
        devices."""
        devices = snapshot.part(ClusterDevices)
        if not devices.extended:
            self._nodes, self._states = {}, {}
            return snapshot
        if self._devices is None or not _are_alike(self._devices, devices):
            self._states = {}
        self._devices = devices
        states = {name: self._state(name, found, state) for name, found in snapshot.nodes.items()}
        self._states = {name: (snapshot.nodes[name], made) for name, made in states.items()}
        self._nodes = {name: known for name, known in self._nodes.items() if name in states}
        return replace(snapshot, nodes=states)

    def _state(self, name: NodeName, found: NodeState, devices: DeviceState) -> NodeState:
        known = self._states.get(name)
        if known is not None and known[0] is found:
            return known[1]
        node = self._node(name, found.node, devices, is_known=known is not None)
        if node is found.node:
            return found
        return replace(found, node=node, free=add(found.free, self._nodes[name][1]))

    def _node(self, name: NodeName, node: Node, devices: DeviceState, *, is_known: bool) -> Node:
        """`is_known`: whether the devices are those of the last session."""
        known = self._nodes.get(name)
        if known is not None and known[0] is node and is_known:
            return known[2]
        amounts = devices.offered(node)
        if known is None or known[0] is not node or known[1] != amounts:
            made = node
            if amounts:
                made = replace(node, allocatable={**node.allocatable, **amounts}, from_devices=tuple(amounts))
            known = self._nodes[name] = (node, amounts, made)
        return known[2]


def _are_alike(before: ClusterDevices, now: ClusterDevices) -> bool:
    """Whether nodes offer the same."""
    return (
        before.slices is now.slices
        and before.taint_rules is now.taint_rules
        and before.classes is now.classes
        and before.extended == now.extended
    )
