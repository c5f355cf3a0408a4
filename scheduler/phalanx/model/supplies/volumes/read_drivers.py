"""Conversion of what storage drivers publish: space that is left, limits of nodes, attached volumes."""

from typing import Final

from msgspec import Struct

from phalanx.limits import ATTACHED_VOLUMES_MAX
from phalanx.model.api.core import Quantity
from phalanx.model.api.storage import CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.conversion.selectors import read_label_selector
from phalanx.model.names import NodeName
from phalanx.model.supplies.volumes.published import InstalledDriver, NodeDrivers, StorageCapacity


class CapacitySource(Struct, frozen=True):
    """One CSIStorageCapacity. Without a capacity it offers nothing."""

    storage_class: str
    capacity: StorageCapacity | None


class DriverSource(Struct, frozen=True, gc=False):
    """The relevant fields of a CSIDriver."""

    publishes_capacity: bool = False
    """Whether its volumes are provisioned only where it publishes enough capacity."""
    must_be_installed: bool = False
    """Whether its volumes are only for nodes where it is installed."""


NO_DRIVER: Final = DriverSource()


def read_driver(written: CSIDriver) -> DriverSource:
    spec = written.spec
    return DriverSource(spec.storage_capacity is True, spec.prevent_pod_scheduling_if_missing is True)


def read_capacity(written: CSIStorageCapacity) -> CapacitySource:
    """Convert one CSIStorageCapacity, as `hasEnoughCapacity` of kube-scheduler 1.37 reads it.

    The largest volume goes before the capacity. An invalid selector or amount offers nothing.
    """
    wrong: list[str] = []
    amount = written.capacity if written.maximum_volume_size is None else written.maximum_volume_size
    nodes = read_label_selector(written.node_topology, "nodeTopology", wrong)
    bytes_, total = read_bytes(amount, "capacity", wrong), read_bytes(written.capacity, "capacity", wrong)
    is_usable = nodes is not None and bytes_ is not None and not wrong
    return CapacitySource(
        storage_class=written.storage_class_name,
        capacity=StorageCapacity(nodes, bytes_, total)
        if is_usable and nodes is not None and bytes_ is not None
        else None,
    )


def read_bytes(amount: Quantity | None, path: str, wrong: list[str]) -> int | None:
    """An amount of storage, if there is one. Errors are appended to `wrong`."""
    return None if amount is None else read_amounts({"storage": amount}, path, wrong)["storage"]


class Attachment(Struct, frozen=True, gc=False):
    """A volume that a driver has attached to a node, or shall attach. `volume` names a PersistentVolume."""

    driver: str
    node: NodeName
    volume: str


def read_csi_node(written: CSINode) -> NodeDrivers:
    """The drivers of a node, each once, by name. Of a driver that is listed twice the last entry counts."""
    found: dict[str, InstalledDriver] = {}
    for driver in written.spec.drivers:
        count = driver.allocatable.count if driver.allocatable is not None else None
        limit = None if count is None else max(0, min(count, ATTACHED_VOLUMES_MAX))
        found[driver.name] = InstalledDriver(driver.name, limit)
    return tuple(found[name] for name in sorted(found))


def read_attachment(written: VolumeAttachment) -> Attachment:
    """Convert one VolumeAttachment. A volume that is written inline has no name and is not counted."""
    spec = written.spec
    return Attachment(spec.attacher, NodeName(spec.node_name), spec.source.persistent_volume_name or "")
