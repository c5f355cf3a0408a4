"""Store the records of gangs as cycles decide them: in the status of PodGroups, all others in one ConfigMap.

The reporter writes the former with the other fields of the status. What no PodGroup of Phalanx can hold is
written by the store.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from phalanx.cache.events import Recorded
from phalanx.kube.binding import Resume
from phalanx.kube.errors import is_refused
from phalanx.kube.record_store import RecordStore
from phalanx.kube.writing import WriteContext
from phalanx.model.api.pod_groups import PodGroupStatus, RecordStatus
from phalanx.model.conversion.records import written_record
from phalanx.model.decisions import CycleResult, Placement
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import API_GROUP, GangId
from phalanx.model.records import GangRecord, placed_members
from phalanx.model.stored_records import Records, changes_of_records
from phalanx.service.cluster_state import ClusterState
from phalanx.service.limits import RECORDS_OF_ABSENT_KEPT_S


def record_of_bound(gang: Gang) -> GangRecord | None:
    """The record of a gang that was started before there were records: its members with nodes are bound."""
    if gang.record is not None or not _keeps_record(gang):
        return None
    placed = [pod for pod in gang.counted if not pod.assumed]
    bound = Counter(gang.record_kinds[pod.uid] for pod in placed)
    return GangRecord(max(gang.complete_since, 1), placed_members(bound, {})) if placed else None


def _keeps_record(gang: Gang) -> bool:
    """Whether the record of the gang is stored. A single pod without a group costs no write."""
    return gang.kind is GangKind.POD_GROUP or len(gang.members) > 1 or gang.min_member > 1


def has_own_status(gang: Gang | None) -> bool:
    """Whether the gang has a PodGroup of Phalanx, whose status shows its placement and its record."""
    return gang is not None and gang.kind is GangKind.POD_GROUP and gang.dialect == API_GROUP


class GangRecords:
    """Call `load` before the first cycle, then `run`."""

    def __init__(self, context: WriteContext, *, state: ClusterState, namespace: str) -> None:
        """`namespace` is the scheduler's own."""
        self._state = state
        self._clock = context.clock
        self._store = RecordStore(
            context, namespace=namespace, on_stored=lambda stored: state.apply(Recorded(stored))
        )
        self.run = self._store.run
        self.flush = self._store.flush
        self._decided: Records = {}
        self._unchecked: set[GangId] = set()
        """What the ConfigMap holds until a status does, and what it held at first, as far as no cycle has
        decided about it."""
        self._kept_until = 0.0
        self._absent: set[GangId] = set()
        """Gangs without pods for long, whose pods may be created again."""
        self._absent_until = 0.0

    async def load(self) -> None:
        """Read the ConfigMap. Where there is none yet, all pods that are bound now count as bound by us."""
        loaded = await self._store.load()
        found = dict(loaded.records)
        if loaded.is_first:
            for gang in self._state.cache.gangs().values():
                record = record_of_bound(gang)
                if record is not None:
                    self._store.put(gang.namespace, gang.id, record)
                    found[gang.id] = record
        self._unchecked = set(found)
        self._kept_until = self._clock.monotonic() + RECORDS_OF_ABSENT_KEPT_S
        self._state.apply(Recorded(found))

    def cycle_finished(self, result: CycleResult) -> None:
        """Take over the records of a cycle, before any decision of it is sent."""
        records = result.memory.records
        for gang, record in changes_of_records(self._decided, records).items():
            self._store_one(gang, record)
        self._decided = records
        self._check_loaded()
        self._check_absent()

    def in_status(self, gang: GangId, status: PodGroupStatus, *, before: PodGroupStatus) -> PodGroupStatus:
        """The status of a PodGroup with the record of the last cycle, which is the newest one.

        A cycle forgets a gang that has no pods for long; its status keeps the record.
        """
        record = self._decided.get(gang)
        kept = before.record if record is None else written_record(record)
        return msgspec.structs.replace(status, record=kept)

    def newest(self, placement: Placement) -> GangRecord | None:
        """The record of a placed gang after the last cycle, which may have placed more of its members."""
        return self._decided.get(placement.gang, placement.record)

    def when_stored(self, placement: Placement, resume: Resume) -> None:
        """Call `resume` when the record of a gang without a PodGroup is stored, or with why it is not."""
        self._store.when_stored(placement.gang, resume)

    def when_eviction_stored(self, gang: GangId, resume: Callable[[], None]) -> None:
        """Call `resume` when it is stored that members of a gang are being evicted for others.

        Also if the API server refuses to store it: evictions do not depend on the right to do so.
        """

        def stored(error: Exception | None) -> None:
            if is_refused(error) or error is None:
                resume()
            else:
                self.when_eviction_stored(gang, resume)

        self._store.when_stored(gang, stored)

    def _store_one(self, gang_id: GangId, record: GangRecord | None) -> None:
        gang = self._state.cache.gang(gang_id)
        if has_own_status(gang) or self._state.objects.pod_group(gang_id) is not None:
            self._state.mark_changed(gang_id)
            if gang is not None and record is not None and record.evicting:
                self._unchecked.add(gang_id)
                self._store.put(gang.namespace, gang_id, record)
        elif record is None:
            self._forget(gang_id)
        elif gang is not None and _keeps_record(gang):
            self._store.put(gang.namespace, gang_id, record)
        else:
            self._store.change(gang_id, record)

    def _check_loaded(self) -> None:
        """Remove what was stored and counts no more. The status of a PodGroup comes first once it has one."""
        is_over = self._clock.monotonic() >= self._kept_until
        for gang in tuple(self._unchecked):
            group = self._state.objects.pod_group(gang)
            if group is not None and self._is_needed(gang, group.status.record):
                continue
            is_known = gang in self._decided and group is None
            is_gone = group is not None or self._state.cache.gang(gang) is not None or is_over
            if is_known or is_gone:
                self._unchecked.discard(gang)
                if not is_known:
                    self._forget(gang)

    def _check_absent(self) -> None:
        """Remove what was kept of gangs whose owners are gone. From time to time, since there may be many."""
        now = self._clock.monotonic()
        if now >= self._absent_until:
            self._absent_until = now + RECORDS_OF_ABSENT_KEPT_S
            absent, self._absent = self._absent, set()
            for gang in absent - self._decided.keys():
                self._forget(gang)

    def _forget(self, gang: GangId) -> None:
        """Remove the record of a gang that no cycle knows, but its age while the object exists that makes its
        pods: a Job may be suspended for days."""
        if self._state.cache.gang(gang) is None and self._state.has_owner(gang):
            self._absent.add(gang)
            self._store.keep_age(gang)
        else:
            self._store.remove(gang)

    def _is_needed(self, gang: GangId, in_status: RecordStatus | None) -> bool:
        """Whether the status of a PodGroup does not say yet what is stored: the last cycle knows more."""
        decided = self._decided.get(gang)
        if decided is None or in_status is None:
            return in_status is None
        return decided.evicting > 0 or in_status != written_record(decided)
