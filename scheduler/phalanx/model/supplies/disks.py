"""Disks that volumes of pods name without a claim, as VolumeRestrictions of kube-scheduler 1.37 has them.

Two pods of a node cannot use the same disk, unless both only read it; one of Amazon EBS not even then. Images
of Ceph are the same if pods name a common monitor, so each monitor counts. A claim to such a disk does not
count, as in kube-scheduler. The volumes of one pod do not conflict with each other.

Every node offers DISK_READERS_MAX of each disk; a pod that only reads it uses 1, any other pod all.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from phalanx.limits import HOST_PORTS_MAX
from phalanx.model.api import core
from phalanx.model.supplies.supply import Supply

DISK_READERS_MAX: Final = 1 << 20
"""Pods of one node that can read the same disk. It is more than any node holds."""


class Disks(Supply):
    """The disks of nodes."""

    name = "disk"

    def reads(self, pod: core.Pod) -> Hashable:
        """The disks."""
        return tuple(_disks(pod.spec.volumes)) if pod.spec.volumes else None

    def requests(self, pod: core.Pod, wrong: list[str]) -> dict[str, int]:
        """Volumes of the pod that name a disk."""
        used: dict[str, int] = {}
        for disk, is_read_only in _disks(pod.spec.volumes):
            resource = self.resource(disk)
            used[resource] = max(used.get(resource, 0), 1 if is_read_only else DISK_READERS_MAX)
        if len(used) > HOST_PORTS_MAX:
            wrong.append(f"spec.volumes: name {len(used)} disks, expected at most {HOST_PORTS_MAX}")
        return used

    def offered(self, resource: str) -> int:
        """As many as may read it."""
        return DISK_READERS_MAX


def _disks(volumes: Iterable[core.Volume]) -> Iterator[tuple[str, bool]]:
    """Names of disks, and whether they are only read."""
    for volume in volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            yield f"GCE {gce.pd_name}", gce.read_only
        if (aws := volume.aws_elastic_block_store) is not None:
            yield f"EBS {aws.volume_id}", False
        if (iscsi := volume.iscsi) is not None:
            yield f"iSCSI {iscsi.iqn}", iscsi.read_only
        if (rbd := volume.rbd) is not None:
            for monitor in dict.fromkeys(rbd.monitors):
                yield f"RBD {monitor}/{rbd.pool}/{rbd.image}", rbd.read_only
