"""The devices that queues divide, by the resource that they count as.

A device counts on nodes that do not list the resource themselves, once, however many nodes can use it. Nodes
show it in their allocatable amounts too if pods request the resource: these amounts do not count. A part of
the nodes, such as those of a flavor, has the devices that only its nodes can use: no device counts in two
parts. What pods of queues use on nodes out of service counts as their usage, which the capacity contains, so
that the devices that they have there do not count again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.resources import NONE, Resources, subtract, sum_of
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.devices.pools import DeviceId
from phalanx.model.supplies.devices.session.session_devices import SessionDevices, claimed_devices
from phalanx.model.supplies.supply import SessionSupply


class _Session(Protocol):
    """The parts of the session that say what devices there are."""

    snapshot: Snapshot
    nodes: Mapping[NodeName, NodeState]
    queues: QueueTree

    @property
    def supplies(self) -> tuple[SessionSupply, ...]: ...


class DeviceCapacity:
    def __init__(self, session: _Session) -> None:
        self._session = session

    @cached_property
    def _devices(self) -> SessionDevices:
        return claimed_devices(self._session)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The resources that claims to devices count as, that devices provide for pods which request them,
        and that queues are guaranteed. None if there are no classes."""
        devices = self._session.snapshot.part(ClusterDevices)
        if not devices.classes:
            return ()
        names = {*self._devices.needs.charges.names, *devices.extended}
        for queue in self._session.queues:
            names.update(queue.guarantee, *(flavor.guarantee for flavor in queue.flavors))
        return tuple(sorted(names))

    def beside_allocatable(
        self, part: Mapping[NodeName, NodeState], open_nodes: Sequence[NodeName]
    ) -> Resources:
        """What the capacity of a part of the nodes is more than their allocatable amounts with the usage of
        queues; negative where nodes show more than there is. `open_nodes`: those of them in service."""
        if not self.names:
            return NONE
        charged = self._devices.needs.charges.by_node
        nodes = [part[name].node for name in open_nodes]
        more = sum_of((*self._devices.counts.on(nodes, self.names), self._of_several(part, nodes)))
        shown = ({name: node.allocatable[name] for name in node.from_devices} for node in nodes)
        used = (charged[name] for name in open_nodes if name in charged) if charged else ()
        return subtract(more, sum_of((*shown, *used)))

    def nodes_with(self, resource: str) -> Iterator[NodeState]:
        """The nodes that list the resource, or can use devices that count as it."""
        states = self._session.nodes.values()
        if resource not in self.names:
            yield from (state for state in states if state.node.allocatable.get(resource))
            return
        counts = self._devices.counts.on((state.node for state in states), self.names)
        several = frozenset[NodeName]().union(
            *(each.nodes for each in self._devices.counts.of_several(self.names) if resource in each.times)
        )
        for state, found in zip(states, counts, strict=True):
            node = state.node
            if node.allocatable.get(resource) or found.get(resource) or node.name in several:
                yield state

    def _of_several(self, part: Mapping[NodeName, NodeState], open_nodes: Sequence[Node]) -> Resources:
        """The devices that several nodes can use, none of them outside the part."""
        several = self._devices.counts.of_several(self.names)
        held = self._held_beside(part, open_nodes) if several else Counter()
        total: Counter[str] = Counter()
        users: dict[str, frozenset[NodeName]] = {}
        for each in several:
            for name, times in each.times.items() if each.nodes <= part.keys() else ():
                if name not in users:
                    users[name] = frozenset(node.name for node in open_nodes if not node.lists(name))
                if not users[name].isdisjoint(each.nodes):
                    total[name] += sum(max(0, most - held[name, device]) for device, most in times.items())
        return total

    def _held_beside(
        self, part: Mapping[NodeName, NodeState], open_nodes: Iterable[Node]
    ) -> Counter[tuple[str, DeviceId]]:
        """How often pods of queues have a device on other nodes of the part, by the resource it counts as."""
        closed = part.keys() - {node.name for node in open_nodes}
        charges = self._devices.needs.charges
        return Counter(charges.devices_of(closed)) if closed else Counter()
