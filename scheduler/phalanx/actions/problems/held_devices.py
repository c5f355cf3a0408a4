"""Devices that are held for claims of pods which do not run yet, because gangs are moved."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from phalanx.framework.session import Session
from phalanx.model.decisions import Placement
from phalanx.model.names import NodeName
from phalanx.model.supplies.devices.session.shared_choices import EVERYWHERE, devices_of
from phalanx.model.supplies.devices.uses import DeviceUse, consumed_by, device_of, is_share

Held = Mapping[NodeName, tuple[DeviceUse, ...]]
"""Devices by node."""


def in_order(devices: Mapping[NodeName, frozenset[DeviceUse]]) -> Held:
    """As the memory of the next cycle keeps them."""
    return {node: tuple(sorted(some)) for node, some in sorted(devices.items())}


def still_held(
    held: Held, session: Session, renewed: Iterable[DeviceUse] = ()
) -> dict[NodeName, frozenset[DeviceUse]]:
    """Those that this cycle has given to no pod.

    Shares are held for claims that end with their pods. `renewed`: what the new claims of the next pods have
    got in their place.
    """
    if not held:
        return {}
    granted = granted_to(session.placements)
    got = Counter(_kind(each) for each in renewed if is_share(each))
    return {
        node: _without(frozenset(some) - granted, got)
        for node, some in held.items()
        if node in session.nodes or node == EVERYWHERE
    }


def granted_to(placements: Iterable[Placement]) -> frozenset[DeviceUse]:
    """What the pods of these placements get."""
    grants = [grant for each in placements for bind in each.binds for grant in bind.grants]
    return devices_of([each.allocation for each in grants if each.allocation])


def _without(uses: frozenset[DeviceUse], got: Counter[Hashable]) -> frozenset[DeviceUse]:
    """Without as many shares of each device and amount as these."""
    if not got:
        return uses
    left = set(uses)
    for each in sorted(uses):
        if is_share(each) and got[_kind(each)]:
            got[_kind(each)] -= 1
            left.discard(each)
    return frozenset(left)


def _kind(share: DeviceUse) -> Hashable:
    return device_of(share), tuple(sorted(consumed_by(share)))
