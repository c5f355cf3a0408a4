"""Sources of volumes that name a disk. Pods of one node cannot use such a disk at will."""

from msgspec import field

from phalanx.model.api.meta import ApiStruct


class GcePersistentDisk(ApiStruct, frozen=True):
    """A disk of Google Compute Engine."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(ApiStruct, frozen=True):
    """A volume of Amazon EBS."""

    volume_id: str = field(name="volumeID", default="")


class IscsiVolume(ApiStruct, frozen=True):
    """An iSCSI target by its qualified name."""

    iqn: str = ""
    read_only: bool = False


class RbdVolume(ApiStruct, frozen=True):
    """An image of a Ceph pool, which any of its monitors gives access to."""

    monitors: tuple[str, ...] = ()
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False
