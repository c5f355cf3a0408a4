"""The state of the cluster in one place: every event passes through here, in one order, to every cache."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import structlog

from phalanx.cache.cache import Cache
from phalanx.cache.events import (
    Applied,
    Assumed,
    Awaited,
    AwaitsDevices,
    Changes,
    Deleted,
    Event,
    Forgotten,
    Recorded,
    Relisted,
)
from phalanx.deciders.port import Decider
from phalanx.model.api.core import Node
from phalanx.model.api.core import Pod as ApiPod
from phalanx.model.api.kinds import OF_STATUSES, kind_name
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.known import DIALECTS
from phalanx.model.dialects.queues import QueueDialect
from phalanx.model.events import ApiEvent
from phalanx.model.names import GangId, NodeName
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection
from phalanx.service.cycle_trigger import CycleTrigger
from phalanx.service.volcano_jobs import KINDS_OF_JOBS, VolcanoJobs

_log = structlog.get_logger(__name__)

_EVENTS_OF_OBJECTS: Final = (Applied, Deleted, Relisted)
_DECIDED: Final = (Assumed, Forgotten, AwaitsDevices, Recorded, Awaited)
_NODE_KINDS: Final = (Node.__name__, NodeResourceTopology.__name__)


class ClusterState:
    """The cache, and what follows the same events: decider, objects for status writers, node error log."""

    def __init__(self, *, cache: Cache, decider: Decider) -> None:
        self.cache = cache
        self.objects = PhalanxObjects()
        self.volcano_jobs = VolcanoJobs(scheduler_name=cache.scheduler_name)
        self.trigger = CycleTrigger()
        """Whether a cycle is worth running."""
        self.has_changes = asyncio.Event()
        """Set while a gang has changed and was not reported."""
        self._decider = decider
        self._node_errors = NodeErrorLog(cache)
        self._queue_notes = QueueNoteLog(cache)
        self._changed: dict[GangId, None] = {}
        self._reporting = False
        self.on_workload_kinds: Callable[[tuple[str, ...]], None] = lambda kinds: None
        """Called with kinds of workloads whose objects must be listed, or are already."""
        self.on_pods: tuple[Callable[[Event, Collection[GangId]], None], ...] = ()
        """Called after each event of the API about pods, with the gangs that it changed in the cache."""
        self.on_api_event: Callable[[ApiEvent], None] = lambda event: None
        """Called after each event from the API, when the cache shows it."""

    def apply(self, event: Event) -> None:
        """Apply one event, from the API or from this scheduler."""
        kind = _kind_of(event)
        if kind in self.objects.kinds:
            self.objects.apply(event)
        changes = self.cache.apply(event)
        if kind in _NODE_KINDS:
            self._node_errors.update(changes.nodes)
        if kind in self._queue_notes.kinds:
            self._queue_notes.update(event)
        if not isinstance(event, _DECIDED):
            self.on_api_event(event)
        if changes.workload_kinds:
            self.on_workload_kinds(changes.workload_kinds)
        if kind not in OF_STATUSES:
            self._decider.feed((event,))
        for gang in changes.gangs:
            self.mark_changed(gang)
        for gang in self._without_pods(event, kind, changes):
            self.mark_changed(gang)
        for call in self.on_pods if kind == ApiPod.__name__ else ():
            call(event, changes.gangs)
        if changes.may_unblock:
            self.trigger.set()
        elif changes.has_new_verdicts:
            self.trigger.set_delayed()

    def _without_pods(self, event: Event, kind: str, changes: Changes) -> list[GangId]:
        """The PodGroups of Volcano without pods for which the answer may differ now."""
        waiting: list[GangId] = []
        if kind in KINDS_OF_JOBS and isinstance(event, _EVENTS_OF_OBJECTS):
            waiting = self.volcano_jobs.apply(event)
        return self.volcano_jobs.waiting() if changes.cluster_changed else waiting

    def start_reporting(self) -> None:
        """Collect the gangs that change from now on; at first all gangs count as changed."""
        self._reporting = True
        for gang in (*self.cache.gang_ids(), *self.volcano_jobs.waiting()):
            self.mark_changed(gang)

    def mark_changed(self, gang: GangId) -> None:
        """Mark a gang whose status may have to be written; ignored until reporting starts."""
        if self._reporting:
            self._changed[gang] = None
            self.has_changes.set()

    def has_owner(self, gang: GangId) -> bool:
        """Whether the object that makes the pods of a gang, or its PodGroup, exists and is known."""
        return self.cache.has_owner(gang) or self.objects.has_pod_group(gang)

    def take_changed(self) -> tuple[GangId, ...]:
        """Return the gangs that changed since the last call, in the order of their first change."""
        changed, self._changed = tuple(self._changed), {}
        self.has_changes.clear()
        return changed


G = TypeVar("G", bound=KubeObject)


class _PodGroups(Generic[G]):
    """The PodGroups of one dialect, by name and by UID."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], G] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def with_uid(self, uid: str) -> G | None:
        key = self._keys.get(uid)
        return self._groups[key] if key is not None else None

    def with_name(self, namespace: str, name: str) -> G | None:
        return self._groups.get((namespace, name))

    def put(self, present: G) -> None:
        key = (present.metadata.namespace, present.metadata.name)
        self.delete(key)
        self._groups[key] = present
        self._keys[present.metadata.uid] = key

    def keep(self, names: Collection[tuple[str, str]]) -> None:
        self._groups = {name: group for name, group in self._groups.items() if name in names}
        self._keys = {group.metadata.uid: name for name, group in self._groups.items()}

    def delete(self, key: tuple[str, str]) -> None:
        known = self._groups.pop(key, None)
        if known is not None:
            self._keys.pop(known.metadata.uid, None)


class PhalanxObjects:
    """Objects whose status is written, as the API returned them, for comparison by status writers.

    They are PodGroups and Queues. The cache keeps only what decisions need, without the status.
    """

    def __init__(self) -> None:
        self._groups = _PodGroups[PodGroup]()
        self._of_dialects = {
            dialect.kind: _PodGroups[KubeObject]()
            for dialect in DIALECTS.values()
            if dialect.status is not None
        }
        self._by_kind: Mapping[str, _PodGroups[Any]] = {PodGroup.__name__: self._groups, **self._of_dialects}
        self._queues: dict[str, Queue] = {}
        self.kinds: Final = frozenset((*self._by_kind, Queue.__name__))
        """All kinds of these objects."""

    def apply(self, event: Event) -> None:
        """Apply one event. Other kinds are ignored."""
        if isinstance(event, Applied):
            self._put(event.object)
        elif isinstance(event, Relisted):
            self._replace_all(event)
        elif isinstance(event, Deleted):
            self._delete(event)

    def pod_group(self, gang: GangId) -> PodGroup | None:
        """Return the PodGroup with this UID, also while it has no members.

        One that was recreated under its name belongs to another gang.
        """
        return self._groups.with_uid(gang)

    def pod_group_of(self, dialect: Dialect, gang: GangId) -> KubeObject | None:
        """Return the PodGroup of another dialect with this UID; None for a dialect without a status."""
        groups = self._of_dialects.get(dialect.kind)
        return groups.with_uid(gang) if groups is not None else None

    def named_pod_group(self, dialect: Dialect, pod: Pod) -> KubeObject | None:
        """Return the PodGroup of another dialect that a pod names; None for a dialect without a status."""
        groups = self._of_dialects.get(dialect.kind)
        return groups.with_name(pod.namespace, pod.group or "") if groups is not None else None

    def has_pod_group(self, gang: GangId) -> bool:
        """Whether some PodGroup with a status has this UID."""
        return any(groups.with_uid(gang) is not None for groups in self._by_kind.values())

    def version(self, gang: GangId) -> str:
        """Return the last seen resourceVersion of the PodGroup with this UID; empty where there is none."""
        group = self.pod_group(gang)
        return group.metadata.resource_version if group is not None else ""

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def _put(self, present: KubeObject) -> None:
        groups = self._by_kind.get(type(present).__name__)
        if groups is not None:
            groups.put(present)
        elif isinstance(present, Queue):
            self._queues[present.metadata.name] = present

    def _replace_all(self, event: Relisted) -> None:
        """Replace all objects of a kind; those that exist but are unreadable stay as last seen."""
        kept = set(event.unreadable)
        if event.kind in self._by_kind:
            self._by_kind[event.kind].keep(kept)
        elif event.kind == Queue.__name__:
            self._queues = {name: queue for name, queue in self._queues.items() if ("", name) in kept}
        else:
            return
        for present in event.objects:
            self._put(present)

    def _delete(self, event: Deleted) -> None:
        if event.kind in self._by_kind:
            self._by_kind[event.kind].delete((event.namespace, event.name))
        elif event.kind == Queue.__name__:
            self._queues.pop(event.name, None)


class NodeErrorLog:
    """Logs what is wrong with a node object, such as an unreadable amount, because no verdict mentions it.

    The reported nodes are remembered, so that a heartbeat does not repeat the message.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._reported: dict[NodeName, tuple[Objection, ...]] = {}

    def update(self, changed: Iterable[NodeName]) -> None:
        """Check the nodes that an event about nodes changed in the cache."""
        for name in changed:
            self._check(name)

    def _check(self, name: NodeName) -> None:
        state = self._cache.node_state(name)
        errors = state.node.problems if state is not None else ()
        if errors == self._reported.get(name, ()):
            return
        if not errors:
            del self._reported[name]
            return
        self._reported[name] = errors
        _log.warning("invalid node", kind="Node", name=name, error=errors[0].message, more=len(errors) - 1)


class QueueNoteLog:
    """Logs what fields of Queues of other projects mean here, because no status of ours is on them.

    The notes of each Queue are remembered, so that a write of its status does not repeat them.
    """

    def __init__(self, cache: Cache) -> None:
        self._dialects = {each.kind: each for each in cache.queue_dialects()}
        self.kinds: Final = frozenset(self._dialects)
        """The kinds of these Queues."""
        self._reported: dict[tuple[str, str], tuple[str, ...]] = {}

    def update(self, event: Event) -> None:
        """Check the Queues of an event."""
        if isinstance(event, Deleted):
            self._reported.pop((event.kind, event.name), None)
        if not isinstance(event, Applied | Relisted):
            return
        for item in event.objects if isinstance(event, Relisted) else (event.object,):
            dialect = self._dialects.get(type(item).__name__)
            if dialect is not None:
                self._check(dialect, item)

    def _check(self, dialect: QueueDialect, item: KubeObject) -> None:
        key, mapped = (dialect.kind, item.metadata.name), dialect.mapped(item)
        notes = (*[problem.message for problem in mapped.problems], *mapped.notes)
        if notes == self._reported.get(key, ()):
            return
        self._reported[key] = notes
        for note in notes:
            _log.warning("queue of another project", group=dialect.name.value, name=key[1], field=note)


def _kind_of(event: Event) -> str:
    """The kind of the objects of an event; empty for what this scheduler decided itself."""
    if isinstance(event, Applied):
        return kind_name(event.object)
    return "" if isinstance(event, _DECIDED) else event.kind
