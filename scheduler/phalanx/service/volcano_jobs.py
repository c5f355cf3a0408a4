"""Volcano Jobs of this scheduler: which of their PodGroups wait for the phase Inqueue.

The controller of Volcano creates the pods of a Job once its PodGroup has this phase. A PodGroup without pods
names no scheduler, so its controller decides: a Job that names this scheduler. All other PodGroups without
pods are left alone.
"""

from typing import Final

from phalanx.model.api.meta import KubeObject
from phalanx.model.api.volcano import VolcanoJob, VolcanoPodGroup
from phalanx.model.conversion.metadata import controller_of
from phalanx.model.dialects.volcano import PENDING
from phalanx.model.events import Applied, Deleted, Relisted
from phalanx.model.names import GangId

_JOB: Final = VolcanoJob.__name__
_GROUP: Final = VolcanoPodGroup.__name__

KINDS_OF_JOBS: Final = (_JOB, _GROUP)
"""The kinds that are followed."""

Key = tuple[str, str]


class VolcanoJobs:
    """Follows Jobs and PodGroups of Volcano, which may arrive in any order."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._jobs: dict[Key, str] = {}
        """UIDs of the Jobs that name this scheduler."""

        self._ours: dict[str, Key] = {}
        self._pending: dict[Key, tuple[GangId, str]] = {}
        """PodGroups that are pending, with the UID of their controller, whatever that is."""

        self._of_owner: dict[str, dict[GangId, None]] = {}
        self._owners: dict[GangId, str] = {}

    def waiting(self) -> list[GangId]:
        """The pending PodGroups of Jobs of this scheduler."""
        return [gang for owner in self._ours for gang in self._of_owner.get(owner, ())]

    def is_waiting(self, gang: GangId) -> bool:
        return self._owners.get(gang, "") in self._ours

    def apply(self, event: Applied | Deleted | Relisted) -> list[GangId]:
        """Apply an event of these kinds. Returns the PodGroups that wait because their Job has come."""
        if isinstance(event, Applied):
            return self._put(event.object)
        if isinstance(event, Deleted):
            self._drop(event.kind, (event.namespace, event.name))
            return []
        known = {_JOB: tuple(self._jobs), _GROUP: tuple(self._pending)}
        if event.kind not in known:
            return []
        for key in known[event.kind]:
            if key not in event.unreadable:
                self._drop(event.kind, key)
        return [gang for present in event.objects for gang in self._put(present)]

    def _put(self, present: KubeObject) -> list[GangId]:
        key = (present.metadata.namespace, present.metadata.name)
        if isinstance(present, VolcanoJob):
            self._drop(_JOB, key)
            return self._put_job(present, key)
        if isinstance(present, VolcanoPodGroup):
            self._drop(_GROUP, key)
            self._put_group(present, key)
        return []

    def _put_job(self, job: VolcanoJob, key: Key) -> list[GangId]:
        if job.spec.scheduler_name != self._scheduler_name:
            return []
        uid = job.metadata.uid
        self._jobs[key], self._ours[uid] = uid, key
        return list(self._of_owner.get(uid, ()))

    def _put_group(self, group: VolcanoPodGroup, key: Key) -> None:
        gang, owner = GangId(group.metadata.uid), controller_of(group.metadata.owner_references)
        if owner is not None and group.status.phase in ("", PENDING):
            self._pending[key], self._owners[gang] = (gang, owner.uid), owner.uid
            self._of_owner.setdefault(owner.uid, {})[gang] = None

    def _drop(self, kind: str, key: Key) -> None:
        if kind == _JOB and key in self._jobs:
            del self._ours[self._jobs.pop(key)]
        elif kind == _GROUP and key in self._pending:
            gang, owner = self._pending.pop(key)
            del self._owners[gang], self._of_owner[owner][gang]
            if not self._of_owner[owner]:
                del self._of_owner[owner]
