"""Conversion of what a node says about its CSI drivers, and of volumes that are attached to nodes."""

from msgspec import Struct

from phalanx.limits import ATTACHED_VOLUMES_MAX
from phalanx.model.api.storage import CSINode, VolumeAttachment
from phalanx.model.names import NodeName
from phalanx.model.supplies.attach_limits import InstalledDriver, NodeDrivers


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
