"""What a cycle changes of devices, and what it grants."""

from collections.abc import Mapping

from msgspec import Struct

from phalanx.framework.claiming_pods import Granted
from phalanx.model.devices.claims import Allocation, uses_of
from phalanx.model.devices.uses import DeviceUse
from phalanx.model.names import NodeName, PodUid

Places = dict[NodeName, frozenset[DeviceUse]]
"""Devices by node; those that several nodes can use are under EVERYWHERE."""


class DeviceChanges:
    """What a cycle has changed so far. Devices that several nodes can use are under EVERYWHERE."""

    def __init__(self) -> None:
        self.taken: dict[NodeName, frozenset[DeviceUse]] = {}
        """By node, the devices that claims got."""
        self.freed: dict[NodeName, frozenset[DeviceUse]] = {}
        """By node, the devices of pods that are assumed to have ended."""
        self.shared: dict[str, Allocation] = {}
        """By UID of the claim, what claims got that several pods use."""


class Granting(Struct, frozen=True):
    """Devices for some pods on a node: the grants, and the changes that they cause."""

    granted: Granted
    taken: Mapping[NodeName, frozenset[DeviceUse]]
    shared: Mapping[str, Allocation]

    @property
    def uses(self) -> dict[PodUid, tuple[DeviceUse, ...]]:
        """What each pod gets for claims that had no devices, in order."""
        allocations = {
            pod: [each.allocation for each in some if each.allocation is not None]
            for pod, some in self.granted.items()
        }
        return {pod: tuple(sorted(uses_of(some))) for pod, some in allocations.items()}
