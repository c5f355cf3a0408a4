"""Objects by which storage drivers say what they can provision and attach, and where."""

from typing import Final

from phalanx.model.api.core import Quantity
from phalanx.model.api.kind import Kind, Watched
from phalanx.model.api.meta import ApiStruct, Int32, KubeObject, LabelSelector


class CSIDriverSpec(ApiStruct, frozen=True):
    """Rules of the driver.

    `storage_capacity`: it publishes CSIStorageCapacity objects that must be respected.
    `prevent_pod_scheduling_if_missing`: its volumes are only for nodes where it is installed.
    """

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeObject, frozen=True):
    """A driver; the provisioner of a StorageClass has the same name."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeObject, frozen=True):
    """What is left for volumes of a class on some nodes. Without `node_topology` no node has access."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeNodeResources(ApiStruct, frozen=True):
    """How many volumes of a driver can be attached to a node."""

    count: Int32 | None = None


class CSINodeDriver(ApiStruct, frozen=True):
    """A driver that is installed on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    """The drivers that are installed on a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject, frozen=True):
    """What a node says about its drivers. It has the name of the node."""

    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(ApiStruct, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    """The driver (attacher), the node, and the volume."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(KubeObject, frozen=True):
    """A volume that is attached to a node, or shall be."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


KINDS: Final = (
    Kind(CSIDriver, "storage.k8s.io/v1", "csidrivers", namespaced=False, watched=Watched.FOR_STORAGE),
    Kind(CSINode, "storage.k8s.io/v1", "csinodes", namespaced=False, watched=Watched.FOR_STORAGE),
    Kind(
        CSIStorageCapacity,
        "storage.k8s.io/v1",
        "csistoragecapacities",
        namespaced=True,
        watched=Watched.FOR_STORAGE,
    ),
    Kind(
        VolumeAttachment,
        "storage.k8s.io/v1",
        "volumeattachments",
        namespaced=False,
        watched=Watched.FOR_STORAGE,
    ),
)
