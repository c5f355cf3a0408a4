"""Diagnoses of gangs that wait because capacity is held for missing members of other gangs."""

from collections.abc import Iterator, Sequence
from typing import Final

from phalanx.actions import formatting
from phalanx.actions.explanations.diagnoses import Diagnosis
from phalanx.actions.problems.held_devices import held_by
from phalanx.framework.changes import CapacityHold
from phalanx.framework.session import Session
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model import named_parts
from phalanx.model.charges import total_requests
from phalanx.model.reasons import Evidence, Reason
from phalanx.model.supplies.devices.session.lost_members import count_without_devices
from phalanx.model.supplies.devices.uses import DeviceUse, device_of, is_share

SHOWN_DEVICES: Final = 8
"""Devices of claims that a verdict names."""


def capacity_reserved(session: Session) -> Diagnosis:
    """Would fit if no capacity were held for missing members of other gangs."""
    gangs: dict[str, list[CapacityHold]] = {}
    for hold in session.capacity_holds:
        gangs.setdefault(str(hold.gang), []).append(hold)
    devices = [use for holds in gangs.values() for use in _devices(holds)]
    what = f"capacity, with {_named(devices)}," if devices else "capacity"
    names = formatting.listed(map(named_parts.workload, gangs))
    return Diagnosis(
        reason=Reason.CAPACITY_RESERVED,
        message=f"free {what} is reserved for missing members of {names}",
        evidence=tuple(
            Evidence(named_parts.workload(name), finding)
            for name, holds in gangs.items()
            for finding in _findings(holds, session)
        ),
        otherwise="Wait until those members run or their gang ends; "
        f"reservations expire after {CAPACITY_HOLD_MS // 60_000} minutes",
    )


def _findings(holds: Sequence[CapacityHold], session: Session) -> Iterator[str]:
    pods = [pod for hold in holds for _, held in hold.assignments for pod in held]
    amounts = formatting.amounts(total_requests(pods))
    yield f"lacks {formatting.pods(len(pods))}{f' with {amounts}' if amounts else ''}"
    devices = list(_devices(holds))
    if devices:
        yield f"{_named(devices)} held for claims of its missing members"
    without = count_without_devices(session, pods)
    if without:
        yield f"no devices are free to be held for the claims of {formatting.pods(without)}"


def _devices(holds: Sequence[CapacityHold]) -> Iterator[DeviceUse]:
    return (use for hold in holds for uses in held_by(hold).values() for use in uses)


def _named(devices: Sequence[DeviceUse]) -> str:
    """Such as "devices gpu.example.com/node-1/gpu-0, a share of gpu.example.com/node-1/gpu-1"."""
    names = [
        f"{'a share of ' if is_share(use) else ''}{named_parts.domain('/'.join(device_of(use)))}"
        for use in sorted(devices)
    ]
    shown = [
        *names[:SHOWN_DEVICES],
        *([f"{len(names) - SHOWN_DEVICES} more"] if names[SHOWN_DEVICES:] else ()),
    ]
    return f"{'device' if len(names) == 1 else 'devices'} {formatting.listed(shown)}"
