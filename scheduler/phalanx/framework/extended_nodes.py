"""Nodes with the extended resources that their devices provide, beside those that they offer themselves.

A node without a device plugin offers as much of a resource as it has devices of its class. Which of them are
free is counted as for other claims; the amounts are for the fit of requests, and for queues.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from phalanx.model.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.resources import add
from phalanx.model.snapshot import Snapshot


class ExtendedNodes:
    """Adds the amounts to the nodes of snapshots. A node that has not changed is the same object again."""

    def __init__(self) -> None:
        self._devices: ClusterDevices | None = None
        self._nodes: dict[NodeName, tuple[Node, Mapping[str, int], Node]] = {}
        self._states: dict[NodeName, tuple[NodeState, NodeState]] = {}

    def added_to(self, snapshot: Snapshot, state: DeviceState) -> Snapshot:
        """The snapshot with the amounts; itself if no pod requests such a resource. `state` is of its
        devices."""
        devices = snapshot.devices
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
