"""Attach limits: how many volumes of a CSI driver can be attached to one node (CSINode).

A limit is represented as a resource of the node, as host ports are (`phalanx.model.host_ports`). Every node
offers ATTACHED_VOLUMES_MAX volumes of each driver. A node with a limit uses the amount above its limit, and 1
for each volume that is attached to it or used by one of its pods. So the offered amount is what is left of
the limit, pods of all schedulers count, and a volume that several pods of a node use counts once. A node
without a limit uses nothing. Queues are not charged for volumes.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.limits import ATTACHED_VOLUMES_MAX
from phalanx.model.resources import Resources

_PREFIX: Final = "volumes["


class InstalledDriver(Struct, frozen=True, gc=False):
    """A CSI driver of a node. `limit`: of volumes that can be attached; None for no limit."""

    name: str
    limit: int | None = None


NodeDrivers = tuple[InstalledDriver, ...]


def attach_resource(driver: str) -> str:
    """The resource for volumes of this driver."""
    return f"{_PREFIX}{driver}]"


def is_attach_resource(resource: str) -> bool:
    """Whether the resource stands for volumes of a driver."""
    return resource.startswith(_PREFIX)


def driver_of(resource: str) -> str:
    """The driver of such a resource."""
    return resource.removeprefix(_PREFIX).removesuffix("]")


def attach_requests(volumes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """What a pod with these volumes (driver, handle) uses, by resource. Each volume counts once."""
    used: dict[str, int] = {}
    for driver, _ in dict.fromkeys(volumes):
        name = attach_resource(driver)
        used[name] = used.get(name, 0) + 1
    return used


def attach_usage(drivers: NodeDrivers, attached: Mapping[str, int]) -> Resources:
    """What a node with these drivers uses, given the number of attached volumes by driver."""
    return {
        attach_resource(driver.name): ATTACHED_VOLUMES_MAX - driver.limit + attached.get(driver.name, 0)
        for driver in drivers
        if driver.limit is not None
    }
