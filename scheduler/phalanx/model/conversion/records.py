"""Records of gangs: from the status of a PodGroup to the model, and back."""

from msgspec.structs import replace

from phalanx.model.api.pod_groups import LetInStatus, PlacedStatus, RecordStatus
from phalanx.model.api.values import time_s, utc
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.records import GangRecord, LetInRecord, PlacedMembers, in_order
from phalanx.model.resources import CPU


def read_record(written: RecordStatus | None) -> GangRecord | None:
    """The record of a status. Members that no amount or number describes are left out."""
    if written is None:
        return None
    return GangRecord(
        queued_since=_time(written.queued_since),
        placed=in_order(_members(each) for each in written.placed if each.bound > 0 or each.reserved > 0),
        finishing_since=_time(written.finishing_since),
        has_launched=bool(written.launched),
        let_in=_let_in(written.let_in),
    )


def joined(in_status: GangRecord | None, in_config_map: GangRecord | None) -> GangRecord | None:
    """The record of a gang. That members are being evicted is in the ConfigMap in any case."""
    if in_status is None or in_config_map is None:
        return in_status or in_config_map
    return replace(in_status, evicting=in_config_map.evicting)


def written_record(record: GangRecord) -> RecordStatus:
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
        launched=record.has_launched or None,
        let_in=_written_let_in(record.let_in),
    )


def _let_in(written: LetInStatus | None) -> LetInRecord | None:
    ends = _time(written.ends) if written is not None else 0
    if written is None or not ends or not written.before:
        return None
    return LetInRecord(ends, written.before, is_start=not written.surplus_only)


def _written_let_in(record: LetInRecord | None) -> LetInStatus | None:
    ends = _written_time(record.ends) if record is not None else None
    if record is None or ends is None:
        return None
    return LetInStatus(ends=ends, before=record.before, surplus_only=not record.is_start)


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
