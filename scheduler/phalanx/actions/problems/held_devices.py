"""Devices that are held for claims of pods which do not run yet, because gangs are moved."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from phalanx.framework.changes import CapacityHold
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement
from phalanx.model.decisions import Placement
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Assignments, Pod
from phalanx.model.supplies.devices.session.changes import united
from phalanx.model.supplies.devices.session.grants import Places
from phalanx.model.supplies.devices.session.session_devices import (
    SessionDevices,
    claimed_devices,
    open_devices,
)
from phalanx.model.supplies.devices.session.shared_choices import EVERYWHERE, devices_of
from phalanx.model.supplies.devices.uses import NONE_TAKEN, DeviceUse, consumed_by, device_of, is_share

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


def reserve(session: Session, statement: Statement, devices: Places, *, release: bool = False) -> None:
    """Take these devices for claims that do not exist yet; `release` gives them back."""
    if devices:
        claimed_devices(session).changes.reserve(devices, statement.write, release=release)


def expect(session: Session, statement: Statement, expected: Assignments) -> Places:
    """Take devices for claims of pods that are expected there, and return those that no other pods share, by
    node. Raises SupplyLacking. Such a statement is always rolled back."""
    devices = open_devices(session)
    return {} if devices is None else devices.expect(expected, statement.write)


def hold_for_lost(session: Session, statement: Statement, assignments: Assignments) -> Places:
    """Take devices for claims of the placeholders of lost members, as far as there are some."""
    devices = claimed_devices(session)
    return devices.held(assignments, devices.hold(assignments, statement.write))


def take_as_in(
    before: Session, session: Session, statement: Statement, *, without: Iterable[CapacityHold]
) -> None:
    """Take the devices that another session has taken, without those of these holds."""
    devices = open_devices(before)
    if devices is not None:
        held = united(devices.held(hold.assignments, held_by(hold)) for hold in without)
        reserve(session, statement, devices.changes.taken_besides(held))


def held_by(hold: CapacityHold) -> Mapping[PodUid, tuple[DeviceUse, ...]]:
    """What is held for claims of members that do not exist yet."""
    return next((held for supply, held in hold.held if isinstance(supply, SessionDevices)), {})


def uses_of(session: Session, pods: Sequence[Pod]) -> frozenset[DeviceUse]:
    """What the claims of these pods have, as the cycle began."""
    devices = open_devices(session)
    return NONE_TAKEN if devices is None else devices.uses_of(pods)


def are_in_use(session: Session, held: Held) -> bool:
    """Whether claims have some of these devices, as the cycle began."""
    devices = open_devices(session) if held else None
    return devices is not None and devices.are_any_in_use(held.values())


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
