"""What the records of gangs say at the begin of a cycle: which members are lost, and which were reserved.

A loss is one member that this scheduler bound, that left its node, and that it neither evicted nor released.
docs/roles.md has the rule. It needs three sources: the record, the members that exist, and what this leader
saw of them in earlier cycles, without which some members count as lost that are not.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.vacancies import Counts, missing_from, remove_one, taking, untaken
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import SeenMembers
from phalanx.model.names import GangId, PodUid
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.records import NO_RECORD, GangRecord, RecordKind, placed_members
from phalanx.model.settled_gangs import SettledGangs
from phalanx.model.snapshot import Snapshot

_TAKES_PLACE = frozenset({EvictionReason.PREEMPTED, EvictionReason.GANG_INCOMPLETE})
"""Evictions after which the members are not lost. After others the gang gets its members again."""

_ANY_KIND: RecordKind = ("", "", ())
"""The largest member is taken for it."""


def loses_place(reason: str) -> bool:
    """Whether a member that is evicted for this reason is not replaced as a lost one."""
    return reason in _TAKES_PLACE


class MemberRecord(Struct, frozen=True, dict=True):
    """The record of a gang as it is now, and what follows from it."""

    gang: Gang
    record: GangRecord
    lost: Counts
    """Lost members by kind."""
    reserved: Counts
    """Reserved members that have not come, by kind."""
    seen: SeenMembers
    """What the next cycle knows of it."""

    @property
    def is_placed(self) -> bool:
        """Whether members hold their places in the gang: bound, lost or reserved ones."""
        return bool(self.record.placed)

    @cached_property
    def places(self) -> Counts:
        """The places that waiting pods may take."""
        return dict(Counter(self.lost) + Counter(self.reserved))

    @cached_property
    def has_members(self) -> bool:
        """Whether some member counts that is recorded."""
        return sum(self.record.bound.values()) > sum(self.lost.values())

    @cached_property
    def is_running(self) -> bool:
        """Whether the gang has started with recorded members, and some of these count. Others are placed
        whole: they have not started, or start again."""
        gang = self.gang
        return self.has_members and (gang.started or gang.minimum.has_started_with(gang.counted))

    def replacing(self, ready: Sequence[Pod]) -> list[Pod]:
        """Those of these waiting members that take places."""
        return taking(ready, self.gang.record_kinds, self.places)

    @cached_property
    def repairs(self) -> frozenset[PodUid]:
        """Waiting members that may be placed as replacements of lost or reserved ones.

        Those of a gang that does not run are its whole minimum or none.
        """
        ready = [pod for pod in self.gang.members if pod.is_waiting and not pod.gated]
        found = self.replacing(ready)
        if not self.is_running:
            is_enough = self.gang.minimum.has_started_with([*self.gang.counted, *found])
            found = found if is_enough else []
        return frozenset(pod.uid for pod in found)


def no_record_of(gang: Gang) -> MemberRecord:
    """That of a gang without a record."""
    return MemberRecord(gang, NO_RECORD, {}, {}, SeenMembers())


class SettledRecords(SettledGangs[tuple[SeenMembers, MemberRecord]]):
    """The records of gangs to which nothing happens, each with what was seen of its members before."""


class MemberRecords:
    """The records of all gangs of a cycle; each is computed once."""

    def __init__(
        self,
        snapshot: Snapshot,
        in_session: Callable[[Gang], Gang],
        kept: Callable[[type[SettledRecords]], SettledRecords],
    ) -> None:
        """`in_session`: the gang as the session has it, with what its waiting pods ask of devices. `kept`:
        what sessions share."""
        self._snapshot = snapshot
        self._in_session = in_session
        self._settled = kept(SettledRecords)
        self._known: dict[GangId, MemberRecord] = {}

    def of(self, gang: Gang) -> MemberRecord:
        """The record of the gang at the begin of the cycle."""
        if gang.id not in self._known:
            self._known[gang.id] = self._review(self._in_session(gang))
        return self._known[gang.id]

    def queued_since(self, gang: Gang) -> int:
        """Since when the gang is in line, in seconds since the epoch."""
        return self._snapshot.queued_since(gang)

    def _review(self, gang: Gang) -> MemberRecord:
        record = self._snapshot.record_of(gang) if gang.kind is not GangKind.POD else None
        if record is None:
            return no_record_of(gang)
        seen = self._snapshot.memory.seen_members.get(gang.id)
        if seen is None:
            record, seen = self._without_moved(gang, _without_evicted(gang, record)), SeenMembers()
        before, known = self._settled.get(gang) or (None, None)
        if known is not None and before is seen and known.record is record:
            return known
        found = review(gang, record, seen, now=self._snapshot.now, is_elsewhere=self._is_elsewhere)
        if _is_settled(found, record, seen):
            self._settled.keep(gang, (seen, found))
        return found

    def _without_moved(self, gang: Gang, record: GangRecord) -> GangRecord:
        """The record without members that may have moved to other gangs before this leader came.

        It did not see the members. But those that are gone and those that run in other gangs of the
        namespace, where no record counts them, are the same if they request the same. Each counts once.
        """
        bound = record.bound
        lost = missing_from(bound, [kind for kind, uids in gang.placed_uids for _ in uids])
        for kind, count in sorted(lost.items()):
            elsewhere = (gang.namespace, kind[2])
            moved = min(count, self._uncounted.get(elsewhere, 0)) if count > 0 else 0
            if moved:
                bound[kind] -= moved
                self._uncounted[elsewhere] -= moved
        return (
            record
            if bound == record.bound
            else replace(record, placed=placed_members(bound, record.reserved))
        )

    @cached_property
    def _uncounted(self) -> dict[tuple[str, tuple[tuple[str, int], ...]], int]:
        """By namespace and requests, the members of gangs that are on nodes and that no record counts.

        Those of a gang without a record are older than its PodGroup, or came in another way than by a move.
        """
        found: Counter[tuple[str, tuple[tuple[str, int], ...]]] = Counter()
        for gang in self._snapshot.gangs.values():
            if gang.kind is GangKind.POD:
                continue
            record = self._snapshot.record_of(gang)
            here: Counter[tuple[tuple[str, int], ...]] = Counter()
            for kind, uids in gang.placed_uids:
                here[kind[2]] += sum(
                    record is not None or gang.by_uid[uid].created < gang.created for uid in uids
                )
            for kind, count in (record or NO_RECORD).bound.items():
                here[kind[2]] -= count
            found.update({(gang.namespace, amounts): count for amounts, count in here.items() if count > 0})
        return found

    def _is_elsewhere(self, uid: PodUid) -> bool:
        return uid in self._on_nodes

    @cached_property
    def _on_nodes(self) -> frozenset[PodUid]:
        gangs = self._snapshot.gangs.values()
        return frozenset(pod.uid for gang in gangs for pod in gang.counted)


def _without_evicted(gang: Gang, record: GangRecord) -> GangRecord:
    """The record without members that an earlier leader has evicted, of which it did not see that they left.

    Those that are still being deleted tell it themselves. If no member is left, nothing is lost.
    """
    if not record.evicting:
        return record
    lost = missing_from(record.bound, [kind for kind, uids in gang.placed_uids for _ in uids])
    leaving = [gang.record_kinds[pod.uid] for pod in gang.members if _is_evicted(pod)]
    for kind in leaving:
        remove_one(lost, kind)
    left = dict(lost)
    for _ in range(record.evicting - len(leaving)):
        remove_one(left, _ANY_KIND)
    if left == lost:
        return record
    bound = {
        kind: count - lost.get(kind, 0) + left.get(kind, 0) if gang.active else 0
        for kind, count in record.bound.items()
    }
    return replace(record, placed=placed_members(bound, record.reserved if gang.active else {}))


def _is_evicted(pod: Pod) -> bool:
    """Whether a member is leaving its node for others."""
    return not pod.counts_for_gang and pod.node is not None and loses_place(pod.disruption)


def _is_settled(found: MemberRecord, record: GangRecord, seen: SeenMembers) -> bool:
    """Whether the same follows as long as the gang stays the same: nothing is lost, so no time passes for it.

    `record`, `seen`: what it was found from.
    """
    is_same = found.record is record and found.seen is seen
    return is_same and not (found.lost or seen.awaited or found.gang.has_deleting)


def review(
    gang: Gang, record: GangRecord, seen: SeenMembers, *, now: int, is_elsewhere: Callable[[PodUid], bool]
) -> MemberRecord:
    """The record after all that has happened since the last cycle. `is_elsewhere`: whether a pod that is no
    member any more is on a node."""
    bound, dropped = _still_bound(gang, record, seen, is_elsewhere)
    reserved = record.reserved if any(bound.values()) else {}
    lost = missing_from(bound, [kind for kind, uids in gang.placed_uids for _ in uids])
    succeeded = [gang.record_kinds[pod.uid] for pod in gang.members if pod.phase is PodPhase.SUCCEEDED]
    if succeeded and lost:
        record = _finishing(gang, record, now)
        lost = lost if gang.awaits_members else missing_from(lost, succeeded)
    awaited = _without_lapsed(bound, lost, seen, now)
    waiting = [gang.record_kinds[pod.uid] for pod in gang.members if lost and pod.is_waiting]
    awaited = _awaited_since(untaken(waiting, lost), awaited, now)
    placed = placed_members(bound, reserved)
    seen_now = SeenMembers(
        placed=gang.placed_uids,
        evicted=tuple(uid for uid in seen.evicted if uid in gang.by_uid and uid not in dropped),
        dropped=tuple(sorted(uid for uid in dropped if _is_there_without_node(gang, uid))),
        awaited=tuple(awaited.items()),
    )
    return MemberRecord(
        gang,
        record if placed == record.placed else replace(record, placed=placed),
        {kind: count for kind, count in lost.items() if count > 0},
        reserved,
        seen if seen_now == seen else seen_now,
    )


def _still_bound(
    gang: Gang, record: GangRecord, seen: SeenMembers, is_elsewhere: Callable[[PodUid], bool]
) -> tuple[dict[RecordKind, int], set[PodUid]]:
    """The bound members by kind, and the pods of which it is known that they hold no place any more.

    A pod that this leader saw on a node holds none if it was evicted, or was moved to another gang. If no
    member counts, and none has ever been seen on a node, no bind has succeeded: nothing was lost. As long as
    there are more members than are recorded, those that are moved away are taken for the foreign ones.
    """
    bound, dropped = record.bound, set(seen.dropped)
    left = _members_left(gang, seen)
    waiting = {pod.uid for pod in gang.members if left and pod.is_waiting}
    has_run = any(uid not in waiting for uid, _ in left) if left else _has_run(gang, seen)
    if not gang.active and not has_run:
        return {}, dropped
    is_over = False
    foreign = _foreign(bound, seen) if left else {}
    for uid, kind in left:
        pod = gang.by_uid.get(uid)
        is_evicted = uid in seen.evicted or (pod is not None and loses_place(pod.disruption))
        if uid not in dropped and (is_evicted or (pod is None and is_elsewhere(uid))):
            may_be_recorded = is_evicted and bound.get(kind, 0) > 0
            if foreign.get(kind, 0) > 0 and not may_be_recorded:
                foreign[kind] -= 1
            else:
                remove_one(bound, kind)
            dropped.add(uid)
            is_over |= is_evicted and not gang.active
    return {} if is_over else bound, dropped


def _foreign(bound: Counts, seen: SeenMembers) -> dict[RecordKind, int]:
    """The members that this leader saw on nodes beyond those that are recorded."""
    were_there = {kind: len(uids) for kind, uids in seen.placed}
    return missing_from(were_there, [kind for kind, count in bound.items() for _ in range(count)])


def _has_run(gang: Gang, seen: SeenMembers) -> bool:
    """Whether some member was on a node, as far as the objects tell a leader that saw none there."""
    was_seen = bool(seen.placed or seen.awaited or seen.absent_since)
    return was_seen or gang.starts_over or gang.started or any(pod.node is not None for pod in gang.members)


def _is_there_without_node(gang: Gang, uid: PodUid) -> bool:
    pod = gang.by_uid.get(uid)
    return pod is not None and not pod.counts_for_gang


def _members_left(gang: Gang, seen: SeenMembers) -> list[tuple[PodUid, RecordKind]]:
    """Members that this leader saw on nodes and that are there no more; and those whose eviction an earlier
    leader decided."""
    if seen.placed == gang.placed_uids and not gang.has_deleting:
        return []
    known = {uid: kind for kind, uids in seen.placed for uid in uids}
    for pod in gang.members:
        if pod.counts_for_gang:
            known.pop(pod.uid, None)
        elif _is_evicted(pod):
            known[pod.uid] = gang.record_kinds[pod.uid]
    return sorted(known.items())


def _finishing(gang: Gang, record: GangRecord, now: int) -> GangRecord:
    """The record with the time at which the first member of the minimum succeeded: since then, those that run
    are fewer than the minimum."""
    running = [pod for pod in gang.counted if pod.phase is not PodPhase.SUCCEEDED]
    if record.finishing_since or gang.minimum.is_reached(running):
        return record
    ended = sorted((pod.ran[1], pod.uid) for pod in gang.members if pod.ran is not None)

    def is_below_minimum(number: int) -> bool:
        return not gang.minimum.is_reached([*running, *(gang.by_uid[uid] for _, uid in ended[number + 1 :])])

    if not ended:
        return replace(record, finishing_since=now // 1000)
    first = bisect_left(range(len(ended)), True, key=is_below_minimum)
    return replace(record, finishing_since=ended[first][0])


def _without_lapsed(
    bound: dict[RecordKind, int], lost: dict[RecordKind, int], seen: SeenMembers, now: int
) -> dict[RecordKind, tuple[int, ...]]:
    """Remove the losses for which no pod has come in time; return since when the others are awaited."""
    left = {}
    for kind, times in seen.awaited:
        lapsed = sum(1 for at in times if at + CAPACITY_HOLD_MS <= now)
        gone = min(lapsed, lost.get(kind, 0))
        if gone:
            bound[kind], lost[kind] = bound[kind] - gone, lost[kind] - gone
        left[kind] = times[lapsed:]
    return left


def _awaited_since(
    uncovered: Counts, before: Mapping[RecordKind, tuple[int, ...]], now: int
) -> dict[RecordKind, tuple[int, ...]]:
    """For losses that no waiting pod takes, since when each waits for one (ms), the oldest first."""
    found = {}
    for kind, count in sorted(uncovered.items()):
        times = before.get(kind, ())
        found[kind] = (*times[max(0, len(times) - count) :], *[now] * (count - len(times)))
    return found
