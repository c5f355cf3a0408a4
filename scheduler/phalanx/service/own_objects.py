"""PodGroups and Queues as the API has them, status included: what a status writer compares with.

The cache keeps what decisions need of them, which is not their status.
"""

from phalanx.cache.events import Applied, Deleted, Event, Relisted
from phalanx.model.api.kinds import KubeObject
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId


class PhalanxObjects:
    """Fed with the same events as the cache."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], PodGroup] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        self._queues: dict[str, Queue] = {}

    def take(self, event: Event) -> None:
        """One event of any kind."""
        if isinstance(event, Applied):
            self._put(event.object)
        elif isinstance(event, Relisted):
            self._replace_all(event)
        elif isinstance(event, Deleted):
            self._delete(event)

    def pod_group(self, gang: Gang) -> PodGroup | None:
        """The PodGroup of a gang that has one; one recreated under its name is another gang's."""
        written = self._groups.get((gang.namespace, gang.name))
        return written if written is not None and written.metadata.uid == gang.id else None

    def pod_group_of(self, gang: GangId) -> PodGroup | None:
        """The PodGroup with this UID, also while it has no members."""
        key = self._keys.get(gang)
        written = self._groups.get(key) if key is not None else None
        return written if written is not None and written.metadata.uid == gang else None

    def version(self, gang: GangId) -> str:
        """The resourceVersion of the PodGroup with this UID as last seen; empty where there is none."""
        written = self.pod_group_of(gang)
        return written.metadata.resource_version if written is not None else ""

    def queue(self, name: str) -> Queue | None:
        """The Queue of this name, if there is such an object."""
        return self._queues.get(name)

    def _put(self, written: KubeObject) -> None:
        if isinstance(written, PodGroup):
            key = (written.metadata.namespace, written.metadata.name)
            self._forget_uid(key)
            self._groups[key] = written
            self._keys[written.metadata.uid] = key
        elif isinstance(written, Queue):
            self._queues[written.metadata.name] = written

    def _replace_all(self, event: Relisted) -> None:
        """What exists and could not be read stays as it was last seen."""
        kept = set(event.unreadable)
        if event.kind == PodGroup.__name__:
            self._groups = {name: group for name, group in self._groups.items() if name in kept}
            self._keys = {group.metadata.uid: name for name, group in self._groups.items()}
        elif event.kind == Queue.__name__:
            self._queues = {name: queue for name, queue in self._queues.items() if ("", name) in kept}
        else:
            return
        for written in event.objects:
            self._put(written)

    def _delete(self, event: Deleted) -> None:
        if event.kind == PodGroup.__name__:
            self._forget_uid((event.namespace, event.name))
            self._groups.pop((event.namespace, event.name), None)
        elif event.kind == Queue.__name__:
            self._queues.pop(event.name, None)

    def _forget_uid(self, key: tuple[str, str]) -> None:
        known = self._groups.get(key)
        if known is not None:
            self._keys.pop(known.metadata.uid, None)
