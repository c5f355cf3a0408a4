"""The records of gangs without a PodGroup of Phalanx, as one ConfigMap holds them.

Each namespace has one text, with the different requests of its gangs written once. Where there is not enough
space, the gangs that have started stay, and of them those that were recorded first.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.model.names import GangId
from phalanx.model.records import GangRecord, LetInRecord, PlacedMembers
from phalanx.model.resources import Resources

RECORDS_NAME: Final = "phalanx-records"
"""The name of the ConfigMap."""

Records = Mapping[GangId, GangRecord]

_NO_RECORDS: Final[Mapping[str, Records]] = {}

_ABOUT: Final = "_about"
"""The key that no namespace has."""

_FORMAT: Final = 1

_USUAL_BYTES: Final = 100
"""Of one gang in a text."""

_BRACES: Final = 2

_Members = tuple[str, str, int, int, int]
"""Role, subgroup, position of the requests, bound, reserved."""

_LetIn = tuple[int, tuple[str, ...], bool]
"""As in the record."""


class _Entry(Struct, frozen=True, array_like=True):
    """A record. The last fields are not written where they have their defaults."""

    queued_since: int
    finishing_since: int
    members: tuple[_Members, ...]
    has_launched: bool = False
    let_in: _LetIn | None = None
    evicting: int = 0


class _About(Struct, frozen=True):
    format: int


class _Namespace(Struct, frozen=True):
    requests: tuple[Mapping[str, int], ...] = ()
    gangs: Mapping[str, _Entry] = {}


_encode: Final = msgspec.json.Encoder().encode
_decode_about: Final = msgspec.json.Decoder(_About).decode
_decode_namespace: Final = msgspec.json.Decoder(_Namespace).decode

ABOUT: Final = {_ABOUT: _encode(_About(_FORMAT)).decode()}
"""The entry that says that the texts have this format, and that pods bound before it are recorded."""


def is_initialized(data: Mapping[str, str]) -> bool:
    """Whether the ConfigMap was written by a scheduler that writes this format."""
    try:
        return _decode_about(data.get(_ABOUT, "")).format == _FORMAT
    except msgspec.MsgspecError:
        return False


def read_records(data: Mapping[str, str]) -> Mapping[str, Records]:
    """The records by namespace. Another format holds none, nor does a text that cannot be read."""
    if not is_initialized(data):
        return {}
    found = {namespace: _records(text) for namespace, text in data.items() if namespace != _ABOUT}
    return {namespace: records for namespace, records in found.items() if records}


def _records(text: str) -> Records:
    try:
        read = _decode_namespace(text)
        return {GangId(gang): _record(entry, read.requests) for gang, entry in read.gangs.items()}
    except (msgspec.MsgspecError, IndexError):
        return {}


def _record(entry: _Entry, requests: tuple[Mapping[str, int], ...]) -> GangRecord:
    placed = tuple(
        PlacedMembers(role, subgroup, requests[index], bound, reserved)
        for role, subgroup, index, bound, reserved in entry.members
    )
    let_in = LetInRecord(*entry.let_in) if entry.let_in is not None else None
    return GangRecord(
        entry.queued_since, placed, entry.finishing_since, entry.has_launched, let_in, entry.evicting
    )


def written(records: Records) -> str:
    """The text of a namespace."""
    table: dict[tuple[tuple[str, int], ...], int] = {}
    gangs = {gang: _entry(record, table) for gang, record in records.items()}
    return _encode({"requests": [dict(each) for each in table], "gangs": gangs}).decode()


def _entry(record: GangRecord, table: dict[tuple[tuple[str, int], ...], int]) -> tuple[object, ...]:
    """The record as an array, see `_Entry`."""
    members = tuple(
        (each.role, each.subgroup, _position(each.requests, table), each.bound, each.reserved)
        for each in record.placed
    )
    let_in = record.let_in
    seldom: list[object] = [
        record.has_launched,
        (let_in.ends, let_in.before, let_in.is_start) if let_in is not None else None,
        record.evicting,
    ]
    while seldom and not seldom[-1]:
        seldom.pop()
    return (record.queued_since, record.finishing_since, members, *seldom)


def _position(requests: Resources, table: dict[tuple[tuple[str, int], ...], int]) -> int:
    return table.setdefault(tuple(sorted(requests.items())), len(table))


def largest_share(sizes: Iterable[int], total: int) -> int:
    """The most bytes that each namespace may have if all together may have `total`.

    Namespaces with less leave the rest to the others, equally.
    """
    ascending = sorted(sizes)
    for index, size in enumerate(ascending):
        rest = len(ascending) - index
        if size * rest > total:
            return max(total, 0) // rest
        total -= size
    return ascending[-1] if ascending else 0


def within(records: Records, size: int) -> Records:
    """The records that stay if the text may have this many bytes."""
    kept: dict[GangId, GangRecord] = {}
    table: dict[tuple[tuple[str, int], ...], int] = {}
    used = len(_encode(_Namespace()))
    for gang, record in sorted(records.items(), key=lambda each: not each[1].placed):
        before = len(table)
        used += _in_list([{gang: _entry(record, table)}], has_others=bool(kept)) - _BRACES
        used += _in_list([dict(key) for key in tuple(table)[before:]], has_others=before > 0)
        if used > size:
            break
        kept[gang] = record
    return kept


def _in_list(added: Sequence[object], *, has_others: bool) -> int:
    """The bytes of these in a JSON list; `has_others`: something stands before them."""
    return len(_encode(added)) - _BRACES + (has_others and bool(added))


class RecordDocument:
    """All records of a cluster, and the texts of the ConfigMap that holds them, at most `total` bytes.

    If there are more, the namespaces with most of them lose some.
    """

    def __init__(self, total: int, records: Mapping[str, Records] = _NO_RECORDS) -> None:
        self._total = total
        self._records = {namespace: dict(each) for namespace, each in records.items()}
        self._namespaces = {gang: name for name, each in records.items() for gang in each}
        self._texts: dict[str, str] = {}
        self._shortened: dict[str, tuple[int, str]] = {}
        """Texts that were too long, with their size."""
        self._changed: set[str] = set(self._records)

    def __contains__(self, gang: GangId) -> bool:
        return gang in self._namespaces

    def records(self) -> Records:
        return {gang: record for each in self._records.values() for gang, record in each.items()}

    def get(self, gang: GangId) -> GangRecord | None:
        namespace = self._namespaces.get(gang)
        return self._records[namespace][gang] if namespace is not None else None

    def namespace_of(self, gang: GangId) -> str | None:
        return self._namespaces.get(gang)

    def put(self, namespace: str, gang: GangId, record: GangRecord) -> None:
        self._namespaces[gang] = namespace
        self._records.setdefault(namespace, {})[gang] = record
        self._changed.add(namespace)

    def remove(self, gang: GangId) -> None:
        namespace = self._namespaces.pop(gang, None)
        if namespace is not None:
            del self._records[namespace][gang]
            self._changed.add(namespace)

    def data(self) -> Mapping[str, str]:
        for namespace in self._changed:
            self._shortened.pop(namespace, None)
            if self._records[namespace]:
                self._texts[namespace] = self._text(namespace)
            else:
                del self._records[namespace]
                self._texts.pop(namespace, None)
        self._changed = set()
        share = largest_share(map(len, self._texts.values()), self._total)
        return ABOUT | {
            namespace: text if len(text) <= share else self._shorter(namespace, share)
            for namespace, text in self._texts.items()
        }

    def _text(self, namespace: str) -> str:
        """The text of a namespace, of which no more is computed than fits alone."""
        records = self._records[namespace]
        is_small = len(records) <= self._total // _USUAL_BYTES
        return written(records if is_small else within(records, self._total))

    def _shorter(self, namespace: str, size: int) -> str:
        known = self._shortened.get(namespace)
        if known is None or known[0] != size:
            known = self._shortened[namespace] = (size, written(within(self._records[namespace], size)))
        return known[1]


Changes = Mapping[GangId, GangRecord | None]
"""Records that are new or different, and None for those that are gone."""


def changes_of_records(before: Records, after: Records) -> Changes:
    """What changes the first records to the second. Most are the same objects."""
    if before is after:
        return {}
    changed: dict[GangId, GangRecord | None] = {
        gang: record
        for gang, record in after.items()
        if (known := before.get(gang)) is not record and known != record
    }
    return changed | {gang: None for gang in before if gang not in after}


def with_changes(before: Records, changes: Changes) -> Records:
    if not changes:
        return before
    merged = {**before, **changes}
    return {gang: record for gang, record in merged.items() if record is not None}


def changes_of_data(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """What changes the records of one state of the ConfigMap to those of the next."""
    same = {namespace for namespace, text in after.items() if before.get(namespace) == text} - ABOUT.keys()
    old, new = (
        {
            gang: record
            for each in read_records(_without(data, same)).values()
            for gang, record in each.items()
        }
        for data in (before, after)
    )
    return changes_of_records(old, new)


def _without(data: Mapping[str, str], names: Container[str]) -> Mapping[str, str]:
    return {name: text for name, text in data.items() if name not in names}
