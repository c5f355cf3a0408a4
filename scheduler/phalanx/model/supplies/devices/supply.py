"""Devices of claims, as a supply: nodes have them by what drivers publish, and claims take them."""

from collections.abc import Mapping

from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.cluster import ClusterDevices, without_allocations
from phalanx.model.supplies.devices.session.cache import DeviceCache
from phalanx.model.supplies.devices.session.needs import DEVICE_SLOT
from phalanx.model.supplies.devices.session.session_devices import SessionDevices
from phalanx.model.supplies.supply import Decided, Supply


class Devices(Supply):
    name, part = ClusterDevices.supply, ClusterDevices

    def offered(self, resource: str) -> int:
        """Nothing: sets of devices are projected."""
        return 0

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "2 sets of devices for claims"."""
        return f"{number} set{'' if number == 1 else 's'} of {DEVICE_SLOT.strip()}"

    def is_shown(self, resource: str, number: int) -> bool:
        """Always."""
        return True

    def counts_for(self, gang: Gang) -> bool:
        """If members have claims."""
        return gang.claims_devices

    def emptied(self, snapshot: Snapshot) -> ClusterDevices:
        """None of them in use."""
        return without_allocations(snapshot.part(ClusterDevices))

    def completes(self, snapshot: Snapshot) -> bool:
        """If pods request extended resources that devices may provide."""
        return bool(snapshot.part(ClusterDevices).extended)

    def completed(self, snapshot: Snapshot, decided: Decided) -> Snapshot:
        """With the extended resources that devices of nodes provide."""
        return decided.kept(DeviceCache).with_extended(snapshot)

    def join(
        self, snapshot: Snapshot, nodes: Mapping[NodeName, NodeState], decided: Decided
    ) -> SessionDevices | None:
        """The devices, if some are known: they are listed from the first pod with a claim on."""
        if not snapshot.part(ClusterDevices).are_known:
            return None
        return SessionDevices(snapshot, decided.kept(DeviceCache), nodes, decided.pods_that_fit)
