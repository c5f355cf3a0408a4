"""Objects by which storage drivers say what they can provision, and where."""

from phalanx.model.api.core import Quantity
from phalanx.model.api.meta import ApiStruct, LabelSelector, ObjectMeta


class CSIDriverSpec(ApiStruct, frozen=True):
    """Whether the driver publishes CSIStorageCapacity objects that must be respected."""

    storage_capacity: bool | None = None


class CSIDriver(ApiStruct, frozen=True):
    """A driver; the provisioner of a StorageClass has the same name."""

    metadata: ObjectMeta
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiStruct, frozen=True):
    """What is left for volumes of a class on some nodes. Without `node_topology` no node has access."""

    metadata: ObjectMeta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
