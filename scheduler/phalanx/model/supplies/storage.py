"""Volumes that exist already, and space for new ones: amounts of a node that only a session knows.

Every node offers more than pods can use. The session says what a node really has (`VolumeSupply`).
"""

from typing import Final

from phalanx.limits import ATTACHED_VOLUMES_MAX, VOLUME_SPACE_MAX
from phalanx.model.resources import format_bytes
from phalanx.model.supplies.supply import Supply


class StaticVolumes(Supply):
    """Volumes of a StorageClass that satisfy certain claims."""

    name = "static"

    def resource_of(self, storage_class: str, digest: str) -> str:
        """The resource for volumes of this class; `digest` stands for the claims."""
        return self.resource(f"{storage_class}/{digest}")

    def offered(self, resource: str) -> int:
        """More than a pod can mount."""
        return ATTACHED_VOLUMES_MAX

    def text(self, resource: str) -> str:
        """Such as "volumes of StorageClass fast"."""
        return f"volumes of StorageClass {class_of(resource)}"

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "2 volumes of StorageClass fast"."""
        return f"{number} volume{'' if number == 1 else 's'} of StorageClass {class_of(resource)}"

    def shortage(self, resource: str) -> str:
        """They are taken."""
        return f"too few {self.text(resource)} left"


class VolumeSpace(Supply):
    """Bytes that the driver of a StorageClass can provision."""

    name = "space"

    def offered(self, resource: str) -> int:
        """More than any disk has."""
        return VOLUME_SPACE_MAX

    def text(self, resource: str) -> str:
        """Such as "space of StorageClass fast"."""
        return f"space of StorageClass {self.what(resource)}"

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "20Gi space of StorageClass fast"."""
        return f"{format_bytes(number, up=up)} {self.text(resource)}"

    def shortage(self, resource: str) -> str:
        """It is taken."""
        return f"too little {self.text(resource)} left"


STATIC_VOLUMES: Final = StaticVolumes()
VOLUME_SPACE: Final = VolumeSpace()


def is_space(resource: str) -> bool:
    """Whether the resource stands for bytes of volumes that are to be provisioned."""
    return resource.startswith(f"{VolumeSpace.name}[")


def is_volume_amount(resource: str) -> bool:
    """Whether the session says what a node has of the resource."""
    return is_space(resource) or resource.startswith(f"{StaticVolumes.name}[")


def class_of(resource: str) -> str:
    """The StorageClass of such a resource."""
    if is_space(resource):
        return VOLUME_SPACE.what(resource)
    return STATIC_VOLUMES.what(resource).rpartition("/")[0]
