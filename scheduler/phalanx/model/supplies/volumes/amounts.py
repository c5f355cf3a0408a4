"""Volumes that exist already, and space for new ones: amounts of a node that only a session knows.

Every node offers more than pods can use. The session says what a node really has (`OpenVolumes`).
"""

from collections.abc import Mapping

from phalanx.limits import ATTACHED_VOLUMES_MAX, VOLUME_SPACE_MAX
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.resources import format_bytes
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.supply import Decided, Supply
from phalanx.model.supplies.volumes.published import ClusterVolumes
from phalanx.model.supplies.volumes.resources import SPACE, STATIC, class_of, is_space
from phalanx.model.supplies.volumes.session import OpenVolumes


class VolumeAmounts(Supply):
    """Volumes of a StorageClass that satisfy certain claims, and bytes that its driver can provision."""

    name, prefixes = STATIC, (SPACE,)

    def offered(self, resource: str) -> int:
        """More than a pod can mount, and than any disk has."""
        return VOLUME_SPACE_MAX if is_space(resource) else ATTACHED_VOLUMES_MAX

    def text(self, resource: str) -> str:
        """Such as "volumes of StorageClass fast"."""
        return f"{SPACE if is_space(resource) else 'volumes'} of StorageClass {class_of(resource)}"

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "2 volumes of StorageClass fast" or "20Gi space of StorageClass fast"."""
        if is_space(resource):
            return f"{format_bytes(number, up=up)} {self.text(resource)}"
        return f"{number} volume{'' if number == 1 else 's'} of StorageClass {class_of(resource)}"

    def shortage(self, resource: str) -> str:
        """They are taken."""
        return f"too {'little' if is_space(resource) else 'few'} {self.text(resource)} left"

    def join(
        self, snapshot: Snapshot, nodes: Mapping[NodeName, NodeState], decided: Decided
    ) -> OpenVolumes | None:
        """Joins if there are claims."""
        return OpenVolumes(snapshot, nodes, decided) if snapshot.part(ClusterVolumes).claims else None
