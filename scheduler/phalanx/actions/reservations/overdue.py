"""Gangs that run longer than their `runtime.max`, because of which they were placed before reserved starts.

Their status says so, and a while later the gangs with the reserved starts may evict them. docs/queues.md has
the rule.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from phalanx.framework.session import Session
from phalanx.limits import RUN_TIME_NOTICE_MS
from phalanx.model.gangs import Gang
from phalanx.model.memory import LetIn
from phalanx.model.names import GangId
from phalanx.model.records import LetInRecord, digest_of
from phalanx.model.snapshot import Snapshot

LET_IN_BEFORE_MAX: Final = 16
"""Gangs with reserved starts that the record of a gang names which was placed before them."""


class _Unit(Protocol):
    @property
    def gang(self) -> Gang: ...
    @property
    def whole(self) -> bool: ...


U = TypeVar("U", bound=_Unit)


def exist_for(gang: GangId, session: Session) -> bool:
    """Whether some gang may be evicted for the reserved start of this one."""
    let_in = session.memory.let_in
    return any(gang in each.before and _evicted_from(each) <= session.now for each in let_in.values())


def yielding(units: Iterable[U], waiting: Gang, session: Session) -> Iterator[U]:
    """The units that may be evicted now for the reserved start of a waiting gang."""
    for unit in units:
        entry = session.memory.let_in.get(unit.gang.id)
        may_go = entry is not None and waiting.id in entry.before and _evicted_from(entry) <= session.now
        if entry is not None and may_go and (entry.is_start or not unit.whole):
            yield unit


def _evicted_from(entry: LetIn) -> int:
    return (entry.noticed or entry.ends) + RUN_TIME_NOTICE_MS


def remembered(session: Session, new: Mapping[GangId, LetIn]) -> dict[GangId, LetIn]:
    """What the next cycle has to know of such gangs, as long as a gang waits that they delay."""
    found: dict[GangId, LetIn] = {}
    for name, entry in {**session.memory.let_in, **_joined(session.memory.let_in, new)}.items():
        gang = session.gangs.get(name)
        before = tuple(each for each in entry.before if _waits(session.gangs.get(each)))
        if gang is not None and before and (gang.nodes or session.assigned_nodes(gang)):
            noticed = entry.noticed or (session.now if entry.ends <= session.now else 0)
            found[name] = replace(entry, before=before, noticed=noticed)
    return dict(sorted(found.items()))


def recorded(entry: LetIn | None) -> LetInRecord | None:
    """What the next leader has to know of such a gang. It gives notice again."""
    if entry is None:
        return None
    before = tuple(map(digest_of, entry.before[:LET_IN_BEFORE_MAX]))
    return LetInRecord(-(-entry.ends // 1000), before, is_start=entry.is_start)


def restored(snapshot: Snapshot) -> Snapshot:
    """The snapshot of the first cycle of a leader, with what the records say of such gangs."""
    if snapshot.memory.cycle:
        return snapshot
    records = [(gang, gang.record.let_in) for gang in snapshot.gangs.values() if gang.record is not None]
    found = [(gang, record) for gang, record in records if record is not None]
    if not found:
        return snapshot
    digests = {digest_of(gang): gang for gang, each in snapshot.gangs.items() if _waits(each)}
    let_in = {
        gang.id: LetIn(
            ends=record.ends * 1000,
            before=tuple([digests[each] for each in record.before if each in digests]),
            is_start=record.is_start,
        )
        for gang, record in found
    }
    return replace(snapshot, memory=replace(snapshot.memory, let_in=let_in | dict(snapshot.memory.let_in)))


def _joined(known: Mapping[GangId, LetIn], new: Mapping[GangId, LetIn]) -> Mapping[GangId, LetIn]:
    """The new ones; surplus members add to what is known of their gang."""
    return {
        name: entry
        if name not in known or entry.is_start
        else replace(known[name], before=tuple(dict.fromkeys((*known[name].before, *entry.before))))
        for name, entry in new.items()
    }


def _waits(gang: Gang | None) -> bool:
    return gang is not None and gang.has_waiting and not gang.active and not gang.started


def wake_times(let_in: Mapping[GangId, LetIn], now: int) -> Iterator[int]:
    """The times at which the status of such gangs changes, and from which on they may be evicted."""
    for entry in let_in.values():
        yield from (at for at in (entry.ends, _evicted_from(entry)) if at > now)
