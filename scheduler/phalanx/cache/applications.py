"""Applications: gangs that no object of the API defines, but the annotations of their first pods."""

from bisect import bisect_left, insort
from collections.abc import Callable

from phalanx.cache.events import ChangeLog
from phalanx.cache.table import Key
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.dialects.yunikorn import defines_task_groups, read_application
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod

_Age = tuple[bool, int, str, PodUid]
"""Whether it has ended, creation, name and UID. The first pod defines the application; those that have ended
may be of an earlier one."""


class ApplicationTable:
    """The PodGroup of each application. `changed(key, old, new, log)` is called when one is added, removed or
    changed."""

    def __init__(
        self, *, changed: Callable[[Key, PodGroup | None, PodGroup | None, ChangeLog], None]
    ) -> None:
        self._changed = changed
        self._ages: dict[Key, list[_Age]] = {}
        """Sorted."""
        self._pods: dict[PodUid, Pod] = {}
        self._groups: dict[Key, PodGroup] = {}

    def replace(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed. Pods that define no application change nothing."""
        before, after = _defined_by(old), _defined_by(new)
        if before is not None and old is not None:
            ages = self._ages[before]
            del ages[bisect_left(ages, _age(old))]
            del self._pods[old.uid]
        if after is not None and new is not None:
            insort(self._ages.setdefault(after, []), _age(new))
            self._pods[new.uid] = new
        for key in dict.fromkeys((before, after)):
            if key is not None:
                self._read(key, log)

    def get(self, key: Key) -> PodGroup | None:
        """The application of this namespace and ID."""
        return self._groups.get(key)

    def values(self) -> tuple[PodGroup, ...]:
        return tuple(self._groups.values())

    def _read(self, key: Key, log: ChangeLog) -> None:
        ages, old = self._ages[key], self._groups.get(key)
        if not ages:
            del self._ages[key]
            new = None
        else:
            first = self._pods[ages[0][3]]
            new = old if old is not None and _is_read_from(old, first) else read_application(first)
        if new == old:
            return
        if new is None:
            del self._groups[key]
        else:
            self._groups[key] = new
        self._changed(key, old, new, log)


def _defined_by(pod: Pod | None) -> Key | None:
    if pod is None or pod.group is None or not defines_task_groups(pod):
        return None
    return (pod.namespace, pod.group)


def _age(pod: Pod) -> _Age:
    return (pod.is_finished, pod.created, pod.name, pod.uid)


def _is_read_from(group: PodGroup, pod: Pod) -> bool:
    """Whether the pod says what it said before. Most events of pods change other fields."""
    return (
        (group.defined_by, group.created, group.spec.queue) == (pod.name, pod.created, pod.queue)
        and group.marks == dict(pod.group_marks)
        and (group.min_member == sum(role.min_member for role in group.roles)) == bool(pod.role)
    )
