"""How many devices nodes have, by the resource that queues count them as."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.charges import charged_as
from phalanx.model.supplies.devices.claims import DeviceClass
from phalanx.model.supplies.devices.cluster import DeviceState
from phalanx.model.supplies.devices.pools import DeviceId, Inventory
from phalanx.model.supplies.devices.shared_pools import SharedPools

_Key = tuple[Inventory, Mapping[str, DeviceClass], tuple[str, ...], Mapping[str, str]]


class OfSeveral(Struct, frozen=True):
    """Devices that the same nodes can use: by resource, how often each counts on a node that does not list
    the resource itself."""

    nodes: frozenset[NodeName]
    times: Mapping[str, Mapping[DeviceId, int]]


class DeviceCounts:
    """Counts that are kept from session to session while slices, classes and nodes are the same."""

    def __init__(self) -> None:
        self._of: _Key | None = None
        self._classes: dict[str, tuple[str, ...]] = {}
        self._nodes: dict[NodeName, tuple[Node, Resources]] = {}
        self._several: tuple[SharedPools, tuple[OfSeveral, ...]] | None = None

    def on(self, nodes: Iterable[Node], names: tuple[str, ...], state: DeviceState) -> Iterator[Resources]:
        """For each node the devices that only it can use, of resources that it does not list itself."""
        self._use(names, state)
        for node in nodes:
            found = self._nodes.get(node.name)
            if found is None or found[0] is not node:
                found = self._nodes[node.name] = (node, state.counted(node, self._classes))
            yield found[1]

    def of_several(
        self, names: tuple[str, ...], state: DeviceState, pools: SharedPools
    ) -> tuple[OfSeveral, ...]:
        """The devices that several nodes can use. `pools` are of these slices."""
        self._use(names, state)
        if self._several is None or self._several[0] is not pools:
            self._several = (pools, tuple(self._of_groups(state, pools)))
        return self._several[1]

    def _of_groups(self, state: DeviceState, pools: SharedPools) -> Iterator[OfSeveral]:
        for group in pools.groups:
            times = {
                name: {
                    each.id: count
                    for each in group.devices
                    if (count := state.times(name, classes, each, group.node))
                }
                for name, classes in self._classes.items()
            }
            if found := {name: devices for name, devices in times.items() if devices}:
                yield OfSeveral(group.nodes, found)

    def _use(self, names: tuple[str, ...], state: DeviceState) -> None:
        """Forget counts of other slices, classes or resources."""
        known, classes, extended = self._of, state.devices.classes, state.devices.extended
        is_same = known is not None and known[0] is state.inventory and known[1] is classes
        if known is not None and is_same and known[2:] == (names, extended):
            return
        self._of, self._nodes, self._several = (state.inventory, classes, names, extended), {}, None
        by_name: dict[str, list[str]] = {}
        for each in classes:
            by_name.setdefault(charged_as(each, classes), []).append(each)
        self._classes = {name: tuple(by_name.get(name, ())) for name in names}


class SessionCounts:
    """The counts of one session."""

    def __init__(self, counts: DeviceCounts, state: DeviceState, pools: Callable[[], SharedPools]) -> None:
        """`pools`: the devices that several nodes of the session can use."""
        self._counts: Final = counts
        self._state: Final = state
        self._pools: Final = pools

    def on(self, nodes: Iterable[Node], names: tuple[str, ...]) -> Iterator[Resources]:
        """For each node the devices that only it can use, of resources that it does not list itself."""
        return self._counts.on(nodes, names, self._state)

    def of_several(self, names: tuple[str, ...]) -> Sequence[OfSeveral]:
        """The devices that several nodes can use."""
        if not names or not self._state.inventory.shared_pools:
            return ()
        return self._counts.of_several(names, self._state, self._pools())
