"""Conversion of volumes that name a disk, as VolumeRestrictions of kube-scheduler 1.37 compares them.

Two pods of a node cannot use the same disk, unless both only read it; one of Amazon EBS not even then. Images
of Ceph are the same if pods name a common monitor, so each monitor counts. A claim to such a disk does not
count, as in kube-scheduler.
"""

from collections.abc import Iterable, Iterator

from phalanx.model.api import core
from phalanx.model.host_ports import disk_requests


def read_disks(volumes: Iterable[core.Volume]) -> tuple[tuple[str, int], ...]:
    """What a pod with these volumes uses of the disks of its node, sorted by name."""
    return disk_requests(disk for volume in volumes for disk in _disks(volume))


def _disks(volume: core.Volume) -> Iterator[tuple[str, bool]]:
    """Names of disks, and whether they are only read."""
    gce, aws, iscsi, rbd = (
        volume.gce_persistent_disk,
        volume.aws_elastic_block_store,
        volume.iscsi,
        volume.rbd,
    )
    if gce is not None:
        yield f"GCE {gce.pd_name}", gce.read_only
    if aws is not None:
        yield f"EBS {aws.volume_id}", False
    if iscsi is not None:
        yield f"iSCSI {iscsi.iqn}", iscsi.read_only
    if rbd is not None:
        for monitor in dict.fromkeys(rbd.monitors):
            yield f"RBD {monitor}/{rbd.pool}/{rbd.image}", rbd.read_only
