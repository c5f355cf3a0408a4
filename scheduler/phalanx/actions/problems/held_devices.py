"""Devices that are held for claims of pods which do not run yet, because gangs are moved."""

from collections.abc import Mapping

from phalanx.framework.session import Session
from phalanx.framework.shared_choices import EVERYWHERE, devices_of
from phalanx.model.devices.pools import DeviceId
from phalanx.model.names import NodeName

Held = Mapping[NodeName, tuple[DeviceId, ...]]
"""Devices by node."""


def in_order(devices: Mapping[NodeName, frozenset[DeviceId]]) -> Held:
    """As the memory of the next cycle keeps them."""
    return {node: tuple(sorted(some)) for node, some in sorted(devices.items())}


def still_held(held: Held, session: Session) -> dict[NodeName, frozenset[DeviceId]]:
    """Those that this cycle has given to no pod."""
    if not held:
        return {}
    binds = [bind for placement in session.placements for bind in placement.binds]
    allocations = [grant.allocation for bind in binds for grant in bind.grants if grant.allocation]
    granted = devices_of(allocations)
    return {
        node: frozenset(some) - granted
        for node, some in held.items()
        if node in session.nodes or node == EVERYWHERE
    }
