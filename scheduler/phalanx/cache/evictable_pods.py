"""Pods of other schedulers that gangs may evict, each as a gang of one without a queue.

Which they are is a question of configuration (`framework/evictable_pods.py`). Pods that are being deleted
stay in the table until they are gone: the capacity that they will free belongs to whom they were evicted for.
"""

from collections.abc import Callable, Mapping

from phalanx.cache.events import ChangeLog
from phalanx.cache.usage import foreign_owner
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import NO_QUEUE, GangId
from phalanx.model.pods import Pod


class EvictablePodTable:
    """Evictable pods that hold nodes. A cluster without any pays one comparison for each change of a pod."""

    def __init__(self, *, scheduler_name: str, is_selected: Callable[[Pod], bool]) -> None:
        """`is_selected`: whether the configuration selects a pod."""
        self._scheduler_name = scheduler_name
        self._is_selected = is_selected
        self._gangs: dict[GangId, Gang] = {}
        self._view: Mapping[GangId, Gang] | None = {}

    def replace(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed. One that ran before may be what a waiting gang lacks."""
        if not self._gangs and (new is None or new.scheduler_name == self._scheduler_name):
            return
        was_known = old is not None and self._gangs.pop(GangId(old.uid), None) is not None
        if new is not None and self._is_evictable(new):
            self._gangs[GangId(new.uid)] = _alone(new)
            self._view = None
            if not was_known and old is not None and old.node is not None:
                log.mark_capacity_grew()
        elif was_known:
            self._view = None

    def view(self) -> Mapping[GangId, Gang]:
        """All of them, sorted. It is the same mapping until something changes."""
        if self._view is None:
            self._view = dict(sorted(self._gangs.items()))
        return self._view

    def get(self, gang: GangId) -> Gang | None:
        return self._gangs.get(gang)

    def _is_evictable(self, pod: Pod) -> bool:
        if not pod.holds_node or pod.scheduler_name == self._scheduler_name or not self._is_selected(pod):
            return False
        return foreign_owner(pod, self._scheduler_name) is not None


def _alone(pod: Pod) -> Gang:
    return Gang(
        id=GangId(pod.uid),
        kind=GangKind.POD,
        namespace=pod.namespace,
        name=pod.name,
        queue=NO_QUEUE,
        min_member=1,
        priority=pod.priority,
        created=pod.created,
        members=(pod,),
        started=True,
    )
