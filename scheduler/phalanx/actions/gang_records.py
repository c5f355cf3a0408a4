"""The records of gangs after a cycle: what it placed and evicted, and what it saw.

A placed member takes the place of a lost or a reserved one if it may, else it adds a place. A member that is
evicted for others keeps its place until it leaves its node. Members to come for which a start placed capacity
are reserved. docs/roles.md has the rule.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Stage, started_gangs
from phalanx.actions.outcome import Outcome
from phalanx.actions.reservations import overdue
from phalanx.framework.member_records import MemberRecord, loses_place
from phalanx.framework.session import Session
from phalanx.framework.vacancies import Vacancies
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.decisions import Placement
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import LetIn, SeenMembers
from phalanx.model.names import API_GROUP, GangId, PodUid
from phalanx.model.pods import Pod
from phalanx.model.records import NO_RECORD, GangRecord, RecordKind, placed_members, record_kinds


class GangRecords(Struct, frozen=True):
    """The records for the next cycle, and what it must know beside them."""

    records: Mapping[GangId, GangRecord]
    seen: Mapping[GangId, SeenMembers]

    def of_placements(self, placements: Iterable[Placement]) -> tuple[Placement, ...]:
        """The placements with the records that are to be written before their binds."""
        return tuple([replace(each, record=self.records.get(each.gang)) for each in placements])


def after(session: Session, outcome: Outcome, let_in: Mapping[GangId, LetIn]) -> GangRecords:
    """The records of all gangs that have some; those that the cycle does not look at keep theirs.

    `let_in`: the gangs that were placed before reserved starts because of their `runtime.max`.
    """
    memory, there = session.snapshot.memory, session.snapshot.gangs
    records = {gang: record for gang, record in memory.records.items() if gang in there}
    seen = {gang: each for gang, each in memory.seen_members.items() if gang in there}
    _keep_absent(session, records, seen)
    changes = _Changes(session, outcome, let_in)
    for gang in session.gangs.values():
        may_have_one = gang.id in records or gang.record is not None or gang.has_waiting
        found = changes.record_of(gang) if may_have_one and gang.kind is not GangKind.POD else None
        if found is not None:
            records[gang.id], seen[gang.id] = found
    return GangRecords(dict(sorted(records.items())), dict(sorted(seen.items())))


def _keep_absent(
    session: Session, records: dict[GangId, GangRecord], seen: dict[GangId, SeenMembers]
) -> None:
    """Keep the records of gangs that have no pods now: a controller may delete all pods and create others.

    Their members lapse like other losses. The record without them is kept as long again, so that it is
    written.
    """
    memory, now = session.snapshot.memory, session.snapshot.now
    for gang, before in memory.seen_members.items():
        record = memory.records.get(gang)
        since = before.absent_since or now
        if gang in session.snapshot.gangs or record is None or now >= since + 2 * CAPACITY_HOLD_MS:
            continue
        has_lapsed = now >= since + CAPACITY_HOLD_MS
        records[gang] = replace(record, placed=()) if has_lapsed and record.placed else record
        seen[gang] = SeenMembers(absent_since=since) if has_lapsed else replace(before, absent_since=since)


class _Changes:
    """What the cycle decided about members, by gang."""

    def __init__(self, session: Session, outcome: Outcome, let_in: Mapping[GangId, LetIn]) -> None:
        self._session, self._let_in = session, let_in
        self._placed: dict[GangId, list[PodUid]] = {}
        for placement in session.placements:
            self._placed.setdefault(placement.gang, []).extend([bind.pod for bind in placement.binds])
        self._started = started_gangs(session.placements)
        self._launched = {
            placement.demand.gang.id
            for placement, _ in outcome.steps
            if placement.demand.stage is Stage.LAUNCH
        }
        self._evicted: dict[GangId, list[PodUid]] = {}
        for each in session.evictions:
            if loses_place(each.reason):
                self._evicted.setdefault(each.gang, []).append(each.pod)

    def record_of(self, gang: Gang) -> tuple[GangRecord, SeenMembers] | None:
        """The record of a gang, and what is known of its members; None if it has none."""
        known = self._session.records.of(gang)
        placed, evicted = self._placed.get(gang.id, ()), self._evicted.get(gang.id, ())
        record = self._with_age(gang, known.record)
        seen = known.seen
        if placed:
            uids = frozenset(placed)
            pods = [pod for pod in known.gang.members if pod.uid in uids]
            record = self._with_placed(known, record, pods)
            seen = replace(seen, placed=_with(seen.placed, pods, known.gang))
        if evicted:
            seen = replace(seen, evicted=tuple(sorted({*seen.evicted, *evicted})))
        if gang.id in self._launched:
            assert record is not None, "a gang that runs has a record"
            record = replace(record, has_launched=True)
        let_in, evicting = overdue.recorded(self._let_in.get(gang.id)), len(seen.evicted)
        if record is not None and (record.let_in, record.evicting) != (let_in, evicting):
            record = replace(record, let_in=let_in, evicting=evicting)
        return None if record is None else (record, seen)

    def _with_age(self, gang: Gang, record: GangRecord) -> GangRecord | None:
        """The record with the time since which the gang is in line; None as long as its pods tell it.

        Scheduling gates leave no trace when they are removed, so that they were seen is recorded.
        """
        is_known = record is not NO_RECORD
        if record.queued_since:
            return record
        if gang.id in self._placed or (gang.is_complete and (is_known or _has_status(gang))):
            return replace(record, queued_since=max(self._session.records.queued_since(gang), 1))
        if gang.has_waiting and gang.is_gated:
            return record if is_known else GangRecord()
        return record if is_known else None

    def _with_placed(self, known: MemberRecord, record: GangRecord | None, pods: Sequence[Pod]) -> GangRecord:
        assert record is not None, "a gang that is placed is in line"
        kinds, vacancies = known.gang.record_kinds, Vacancies(known.places)
        bound, reserved = Counter(record.bound), Counter(record.reserved)
        bound.update([kinds[pod.uid] for pod in pods])
        for pod in pods if vacancies.left else ():
            vacancies.take(kinds[pod.uid])
        for kind, count in known.places.items():
            taken = count - vacancies.left.get(kind, 0)
            replaced = min(taken, known.lost.get(kind, 0))
            bound[kind] -= replaced
            reserved[kind] -= taken - replaced
        reserved.update(kind for kind in self._to_come(known.gang) if not vacancies.take(kind))
        return replace(record, placed=placed_members(bound, reserved))

    def _to_come(self, gang: Gang) -> list[RecordKind]:
        """The members that do not exist yet for which the start of the gang placed capacity."""
        if not gang.reserves or gang.id not in self._started:
            return []
        holds = [hold for hold in self._session.capacity_holds if hold.gang.id == gang.id]
        pods = [pod for hold in holds for _, some in hold.assignments for pod in some]
        return list(record_kinds(pods).values())


def _has_status(gang: Gang) -> bool:
    """Whether its record has a place in the status of its own PodGroup."""
    return gang.kind is GangKind.POD_GROUP and gang.dialect == API_GROUP and gang.has_waiting


def _with(
    placed: tuple[tuple[RecordKind, tuple[PodUid, ...]], ...], pods: Iterable[Pod], gang: Gang
) -> tuple[tuple[RecordKind, tuple[PodUid, ...]], ...]:
    """The members by kind, with these pods."""
    found = {kind: list(uids) for kind, uids in placed}
    for pod in pods:
        found.setdefault(gang.record_kinds[pod.uid], []).append(pod.uid)
    return tuple((kind, tuple(found[kind])) for kind in sorted(found))
