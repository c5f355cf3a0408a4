"""Devices that several nodes can use: which nodes, and which devices match a request.

What nodes have of such devices does not add up. So the scheduler also bounds what sets of nodes have
together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices.allocator import Candidate, candidates, is_local, match_of
from phalanx.model.supplies.devices.claims import DeviceClasses, Request
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pools import Device, DeviceId, Inventory, NodeChoice, PoolId
from phalanx.model.supplies.devices.shares import Shares

Ids = tuple[DeviceId, ...]


class Matching(Struct, frozen=True):
    """The devices that match requests: those of several nodes with these nodes, and those of one node.

    `in_shares`: those of them that are allocated in shares.
    """

    shared: tuple[tuple[frozenset[NodeName], Ids], ...] = ()
    local: Mapping[NodeName, Ids] = {}
    in_shares: Mapping[DeviceId, Device] = {}


class DeviceGroup(Struct, frozen=True):
    """Devices that the same nodes can use, and one of these nodes."""

    nodes: frozenset[NodeName]
    node: Node
    devices: tuple[Candidate, ...]


NO_MATCH: Final = Matching()
_EMPTY: Final = Shares((), are_amounts_asked=False)
"""No share is in use; nothing is taken of it."""


class SharedPools:
    """The devices of several nodes. It may be used while slices, classes and nodes are the same."""

    def __init__(
        self, inventory: Inventory, nodes: Sequence[Node], classes: DeviceClasses, matcher: Matcher
    ) -> None:
        self._inventory = inventory
        self._nodes = nodes
        self._classes = classes
        self._matcher = matcher
        self._known: dict[tuple[Request, ...], Matching] = {}
        self.groups: Final = tuple(self._found()) if inventory.shared_pools else ()
        """The devices, those together that the same nodes can use."""

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def of(self, requests: tuple[Request, ...]) -> Matching:
        """The devices that match one of these requests; none if no device of several nodes does."""
        if not self.groups:
            return NO_MATCH
        known = self._known.get(requests)
        if known is None:
            known = self._known[requests] = self._of(requests)
        return known

    def _of(self, requests: tuple[Request, ...]) -> Matching:
        shared: list[tuple[frozenset[NodeName], Ids]] = []
        in_shares: dict[DeviceId, Device] = {}
        for each in self.groups:
            ids = self._ids(requests, each.node, each.devices, in_shares)
            if ids:
                shared.append((each.nodes, ids))
        if not shared:
            return NO_MATCH
        local: dict[NodeName, Ids] = {}
        for node in self._nodes:
            usable = filter(is_local, candidates(self._inventory.pools(node)))
            ids = self._ids(requests, node, usable, in_shares)
            if ids:
                local[node.name] = ids
        return Matching(tuple(shared), local, in_shares)

    def _ids(
        self,
        requests: tuple[Request, ...],
        node: Node,
        some: Iterable[Candidate],
        in_shares: dict[DeviceId, Device],
    ) -> Ids:
        """Those of the devices that match one of the requests."""
        found = [each for each in some if self._matches(requests, node, each)]
        in_shares.update((each.id, each.device) for each in found if each.device.allows_shares)
        return tuple(each.id for each in found)

    def _matches(self, requests: tuple[Request, ...], node: Node, each: Candidate) -> bool:
        return any(
            request.device_class in self._classes
            and request.tolerates(each.device.taints)
            and match_of(self._matcher, self._classes, node, request, each) is True
            and _EMPTY.most(request, each.id, each.device, 1)
            for request in requests
        )

    def _found(self) -> Iterator[DeviceGroup]:
        by_nodes: dict[frozenset[NodeName], tuple[Node, dict[DeviceId, Candidate]]] = {}
        for choice, pool in self._choices():
            nodes = [node for node in self._nodes if choice.allows(node)]
            names = frozenset(node.name for node in nodes)
            if not nodes:
                continue
            _, devices = by_nodes.setdefault(names, (nodes[0], {}))
            for each in candidates([one for one in self._inventory.pools(nodes[0]) if one.id == pool]):
                if each.slice.choice_of(each.device) == choice:
                    devices[each.id] = each
        for names, (node, found) in by_nodes.items():
            yield DeviceGroup(names, node, tuple(found.values()))

    def _choices(self) -> Iterator[tuple[NodeChoice, PoolId]]:
        """The different choices of several nodes, each with a pool that has it."""
        found: dict[tuple[NodeChoice, PoolId], None] = {}
        for each in self._inventory.shared_slices:
            choices = [device.choice for device in each.devices] if each.per_device else [each.choice]
            for choice in choices:
                if choice is not None and not choice.node:
                    found[choice, each.pool_id] = None
        return iter(found)
