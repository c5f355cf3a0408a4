"""What sessions share of devices: results of selectors, states of devices, and counts."""

from collections.abc import Mapping
from typing import Final

from phalanx.framework.device_counts import DeviceCounts
from phalanx.framework.extended_nodes import ExtendedNodes
from phalanx.framework.member_claims import Compositions
from phalanx.framework.settled_gangs import SettledGangs
from phalanx.model.devices.claims import ClaimSpec, DeviceClass
from phalanx.model.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.devices.limits import DEVICE_COUNTERS_CACHE_MAX
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.pools import Inventory
from phalanx.model.devices.shared_pools import SharedPools
from phalanx.model.devices.slots import SlotCounter
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.snapshot import Snapshot


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
        return self._nodes.added_to(snapshot, self.state(snapshot.devices))

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
