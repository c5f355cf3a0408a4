"""Records of gangs: from the status of a PodGroup to the model, and back."""

from phalanx.model.api.pod_groups import PlacedStatus, RecordStatus
from phalanx.model.api.values import time_s, utc
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.records import GangRecord, PlacedMembers, in_order
from phalanx.model.resources import CPU


def read_record(written: RecordStatus | None) -> GangRecord | None:
    """The record of a status. Members that no amount or number describes are left out."""
    if written is None:
        return None
    return GangRecord(
        queued_since=_time(written.queued_since),
        placed=in_order(_members(each) for each in written.placed if each.bound > 0 or each.reserved > 0),
        finishing_since=_time(written.finishing_since),
    )


def written_record(record: GangRecord) -> RecordStatus:
    """The record as a status has it."""
    return RecordStatus(
        queued_since=_written_time(record.queued_since),
        placed=tuple(
            PlacedStatus(
                role=each.role,
                subgroup=each.subgroup,
                requests={
                    name: f"{amount}m" if name == CPU else str(amount)
                    for name, amount in each.requests.items()
                },
                bound=each.bound,
                reserved=each.reserved,
            )
            for each in record.placed
        ),
        finishing_since=_written_time(record.finishing_since),
    )


def _members(written: PlacedStatus) -> PlacedMembers:
    return PlacedMembers(
        role=written.role,
        subgroup=written.subgroup,
        requests=read_amounts(written.requests, "", []),
        bound=max(written.bound, 0),
        reserved=max(written.reserved, 0),
    )


def _time(written: str | None) -> int:
    return (time_s(written) or 0) if written is not None else 0


def _written_time(at: int) -> str | None:
    return utc(at).isoformat().replace("+00:00", "Z") if at else None
