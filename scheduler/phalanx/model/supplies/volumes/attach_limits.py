"""Attach limits: how many volumes of a CSI driver can be attached to one node (CSINode).

Every node offers ATTACHED_VOLUMES_MAX volumes of each driver. A node with a limit uses the amount above its
limit, and 1 for each volume that is attached to it or used by one of its pods. So the offered amount is what
is left of the limit, and a volume that several pods of a node use counts once. A node without a limit uses
nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from phalanx.limits import ATTACHED_VOLUMES_MAX
from phalanx.model.resources import Resources
from phalanx.model.supplies.supply import Supply
from phalanx.model.supplies.volumes.published import ClusterVolumes, NodeDrivers


class AttachLimits(Supply):
    """The volumes that can be attached to a node, by driver. Sessions say what pods use of them."""

    name, part = ClusterVolumes.supply, ClusterVolumes

    def offered(self, resource: str) -> int:
        """More than any limit."""
        return ATTACHED_VOLUMES_MAX

    def text(self, resource: str) -> str:
        """Such as "volumes of disk.example.com"."""
        return f"volumes of {self.what(resource)}"

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """Such as "2 volumes of disk.example.com"."""
        return f"{number} {self.text(resource)}"

    def used(self, volumes: Iterable[tuple[str, str]]) -> dict[str, int]:
        """What a pod with these volumes (driver, handle) uses, by resource. Each volume counts once."""
        used: dict[str, int] = {}
        for driver, _ in dict.fromkeys(volumes):
            name = self.resource(driver)
            used[name] = used.get(name, 0) + 1
        return used

    def used_on(self, drivers: NodeDrivers, attached: Mapping[str, int]) -> Resources:
        """What a node with these drivers uses, given the number of attached volumes by driver."""
        return {
            self.resource(driver.name): ATTACHED_VOLUMES_MAX - driver.limit + attached.get(driver.name, 0)
            for driver in drivers
            if driver.limit is not None
        }


ATTACH_LIMITS: Final = AttachLimits()
