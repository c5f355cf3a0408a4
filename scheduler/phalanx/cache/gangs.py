"""Gangs: groups pods by their gang key, and rebuilds the gangs whose objects changed."""

from collections.abc import Callable, Mapping

from msgspec import structs

from phalanx.cache.events import ChangeLog
from phalanx.cache.gang_changes import (
    APPLICATION,
    claims,
    eviction_relevant,
    has_same_gang_fields,
    is_application,
    moved_what_it_holds,
    other_keys,
    queue_of,
    without_status,
)
from phalanx.cache.gang_objects import GangObjects
from phalanx.cache.gang_view import GangView
from phalanx.cache.group_trees import IN_TREES, Move
from phalanx.cache.records import RecordTable
from phalanx.cache.table import Key
from phalanx.cache.usage import QueueUsage
from phalanx.cache.workloads import WorkloadTable
from phalanx.model.conversion.cluster_objects import PriorityLevel
from phalanx.model.conversion.gang_queues import gang_queue, objection_without_pods
from phalanx.model.conversion.pod_groups import (
    GangKey,
    PodGroup,
    free_application,
    gang_id,
    gang_key,
    is_foreign,
)
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.workload_members import Workload, without_progress
from phalanx.model.dialects.native import NATIVE
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import API_GROUP, GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Controller, Pod
from phalanx.model.reasons import Objection
from phalanx.model.resources import Resources
from phalanx.model.workloads.known import WorkloadKinds


class GangTable:
    """Pods by gang key, and the gangs of each key. Call `refresh` before any query.

    A started gang stays started while it has active members. The gang that was built last records this.
    """

    def __init__(
        self, *, scheduler_name: str, pod: Callable[[PodUid], Pod | None], kinds: WorkloadKinds
    ) -> None:
        """`pod(uid)` is the pod of this UID, of any scheduler."""
        self._pod = pod
        self.workloads = WorkloadTable(
            scheduler_name=scheduler_name,
            moved=self._owner_moved,
            changed=self._workload_changed,
            pod=pod,
            kinds=kinds,
        )
        self.records = RecordTable(self._record_changed)
        self._objects = GangObjects(
            scheduler_name=scheduler_name,
            workloads=self.workloads,
            changed=self._group_changed,
            record=self.records.get,
        )
        self.groups = self._objects.groups
        self._trees, self._applications = self._objects.trees, self._objects.applications
        self._scheduler_name = scheduler_name
        self._pods: dict[GangKey, dict[PodUid, Pod]] = {}
        self._also_named: dict[GangKey, dict[PodUid, GangKey]] = {}
        """Keys of PodGroups that pods name in addition to their own, with the keys of these pods."""
        self._parts: dict[GangKey, dict[GangKey, None]] = {}
        """The gangs of a workload that is divided into several, by the key of the workload."""
        self._stale: dict[GangKey, None] = {}
        self._gangs: dict[GangKey, tuple[Gang, ...]] = {}
        self._known = GangView()
        self._usage = QueueUsage(scheduler_name=scheduler_name)
        self._rules = QueueRules({}, {})
        """The rules by which the gangs were built."""

    # --- events -------------------------------------------------------------------------------------------

    def replace(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed. Foreign pods are not in any gang."""
        self.workloads.pod_changed(old, new, log)
        before = after = self._key_of(old, log) if old is not None else None
        if old is None or new is None or not has_same_gang_fields(old, new):
            after = self._key_of(new, log)
            self._count_owners(old, new)
        changes_gang = old is not None and new is not None and before != after
        if old is not None and new is not None and moved_what_it_holds(old, new, changes_gang):
            log.mark_capacity_grew()
        elif changes_gang or self._may_help(old, new, before, after):
            log.mark_may_unblock()
        elif new is not None and after is not None and self._changes_verdict(old, new, after):
            log.mark_new_verdicts()
        if old is not None and before is not None and before != after:
            self._leave(old, before, log)
            self._touch(before, log, pod=old)
        if new is not None and after is not None:
            self._join(new, after)
            self._touch(after, log, pod=new)
        if (old is not None and old.other_groups) or (new is not None and new.other_groups):
            self._name_others(old, new, after)
        if APPLICATION in (before and before.dialect, after and after.dialect):
            ours = (old if before is not None else None, new if after is not None else None)
            self._applications.replace(*ours, log)

    def _name_others(self, old: Pod | None, new: Pod | None, key: GangKey | None) -> None:
        """Index a pod by the PodGroups that it names in addition to its own."""
        if old is not None:
            for other in other_keys(old):
                named = self._also_named.get(other, {})
                named.pop(old.uid, None)
                if not named:
                    self._also_named.pop(other, None)
        if new is not None and key is not None:
            for other in other_keys(new):
                self._also_named.setdefault(other, {})[new.uid] = key

    def namespace_changed(self, namespace: str, log: ChangeLog) -> None:
        """The labels of the namespace may name the queue of its gangs, and queues may select by them."""
        for key in self._pods:
            if key.namespace == namespace:
                self._touch(key, log)

    def queues_changed(self, rules: QueueRules, log: ChangeLog) -> None:
        """Queues may accept other namespaces now, or allow their gangs more or less."""
        for key, gangs in self._gangs.items():
            if key not in self._stale and any(self._is_changed_by(rules, gang, key) for gang in gangs):
                self._touch(key, log)

    def _is_changed_by(self, rules: QueueRules, gang: Gang, key: GangKey) -> bool:
        group = self._objects.known(key)
        if group is not None and gang.kind is GangKind.POD and group.is_gang:
            group = None  # the pod is not a member
        found = gang_queue(gang.members, group, rules, scheduler_name=self._scheduler_name)
        if (found.charged, found.refused) != (gang.queue, gang.refused_queue):
            return True
        return group is not None and rules.bounds(gang.queue) != self._rules.bounds(gang.queue)

    def class_changed(self, name: str, log: ChangeLog) -> None:
        """The priority of gangs changed whose PodGroup names this PriorityClass."""
        found = [(dialect, table.values()) for dialect, table in self.groups.items()]
        for dialect, groups in (*found, (APPLICATION, self._applications.values())):
            for group in groups:
                if group.priority_class == name:
                    key = GangKey(GangKind.POD_GROUP, group.namespace, group.name, dialect)
                    for gang in self._trees.keys_of(key) if dialect in IN_TREES else (key,):
                        self._touch(gang, log)

    def _group_changed(
        self, dialect: str, key: Key, old: PodGroup | None, new: PodGroup | None, log: ChangeLog
    ) -> None:
        """Our own status writes change the status and the version of a PodGroup. They unblock no gang.

        Nor does a PodGroup of another dialect without pods of this scheduler.
        """
        gang = GangKey(GangKind.POD_GROUP, *key, dialect)
        log.gangs(gang_id(gang, group) for group in (old, new))
        if self._trees.concerns(dialect, old, new):
            self._tree_changed(gang, old, new, log)
            return
        if dialect == APPLICATION and bool(claims(old)) != bool(claims(new)):
            self._move_free_pods(gang, log)
        if claims(old) != claims(new):
            for other in dict.fromkeys(self._also_named.get(gang, {}).values()):
                self._touch(other, log)
                log.mark_may_unblock()
        if gang not in self._pods and dialect != API_GROUP:
            return
        if not (claims(old) and claims(new)):
            log.gangs(map(GangId, self._pods.get(gang, ())))
        if gang in self._pods:
            self._stale[gang] = None
        if gang in self._pods and (
            queue_of(old) != queue_of(new) or eviction_relevant(old) != eviction_relevant(new)
        ):
            log.mark_capacity_grew()
        elif old is None or new is None or without_status(old) != without_status(new):
            log.mark_may_unblock()

    def _tree_changed(
        self, changed: GangKey, old: PodGroup | None, new: PodGroup | None, log: ChangeLog
    ) -> None:
        """A group with a parent, or a composite group, was added, changed or removed."""
        change = self._trees.change(changed, old, new)
        for move in change.moves:
            self._move_pods(move, log)
            if move.before != move.after or claims(old) != claims(new):
                for other in dict.fromkeys(self._also_named.get(move.pod_group, {}).values()):
                    self._touch(other, log)
                    log.mark_may_unblock()
        gangs = [gang for gang in change.gangs if gang in self._pods]
        for gang in change.gangs:
            self._touch(gang, log)
        if not gangs or (old is not None and new is not None and without_status(old) == without_status(new)):
            return
        if queue_of(old) != queue_of(new) or eviction_relevant(old) != eviction_relevant(new):
            log.mark_capacity_grew()
        log.mark_may_unblock()

    def _move_pods(self, move: Move, log: ChangeLog) -> None:
        if move.before == move.after:
            return
        name = move.pod_group.name
        pods = [pod for pod in self._pods.get(move.before, {}).values() if pod.group == name]
        log.gangs(GangId(pod.uid) for pod in pods)
        for pod in pods:
            self._leave(pod, move.before, log)
            self._join(pod, move.after)
            if pod.other_groups:
                self._name_others(pod, pod, move.after)
        if pods:
            self._touch(move.before, log)

    def _move_free_pods(self, application: GangKey, log: ChangeLog) -> None:
        """Pods without a task group join an application, or they leave it when it is no gang any more."""
        for uid in tuple(self._also_named.get(application, ())):
            pod = self._pod(uid)
            if pod is None or free_application(pod) != application:
                continue
            alone = self._key_of(structs.replace(pod, other_groups=()), log)
            after = self._key_of(pod, log)
            assert alone is not None
            assert after is not None
            before = alone if after == application else application
            self._leave(pod, before, log)
            self._join(pod, after)
            self._also_named[application][uid] = after
            self._touch(before, log)
            self._touch(after, log)
            log.mark_may_unblock()

    def _owner_moved(self, controller: str, old: GangKey | None, new: GangKey | None, log: ChangeLog) -> None:
        """The pods of this controller belong to another workload than it seemed, or to none."""
        befores = list(self._pods) if old is None else self._gangs_of(old)
        for before in befores:
            candidates = self._pods.get(before, {}).values()
            pods = [pod for pod in candidates if pod.controller and pod.controller.uid == controller]
            if is_application(before):
                pods = []  # their owners do not count
            for pod in pods:
                after = self._part_of(pod, new)
                self._leave(pod, before, log)
                self._join(pod, after)
                self._touch(after, log)
            if pods:
                self._touch(before, log)
                log.mark_may_unblock()

    def _workload_changed(
        self, workload: GangKey, old: Workload | None, new: Workload | None, log: ChangeLog
    ) -> None:
        """A workload above pods of this gang changed. Numbers that grow while pods end unblock no gang."""
        keys = [key for key in self._gangs_of(workload) if key in self._pods]
        if not keys:
            return
        for key in keys:
            self._touch(key, log)
        if old is None or new is None:
            log.mark_may_unblock()
        elif old.group.spec.queue != new.group.spec.queue:
            log.mark_capacity_grew()
        elif without_progress(old) != without_progress(new):
            log.mark_may_unblock()

    def _record_changed(self, gang: GangId, log: ChangeLog) -> None:
        key = self._known.key_of(gang)
        if key is not None:
            self._touch(key, log)

    def _gangs_of(self, workload: GangKey) -> list[GangKey]:
        """The gangs into which a workload is divided; it is one otherwise."""
        return [workload, *self._parts.get(workload, ())]

    def _count_owners(self, old: Pod | None, new: Pod | None) -> None:
        """The new pod first: the last pod of a controller would end its chain."""
        after, before = self._followed(new), self._followed(old)
        if before == after and old is not None and new is not None and old.namespace == new.namespace:
            return
        for pod, controller, count in ((new, after, 1), (old, before, -1)):
            if pod is not None and controller is not None:
                self.workloads.count(pod.namespace, controller, count)

    def _followed(self, pod: Pod | None) -> Controller | None:
        """The controller of a pod whose gang depends on it."""
        if pod is None or pod.controller is None or pod.group is not None:
            return None
        if is_foreign(pod, self._scheduler_name):
            return None
        return pod.controller if gang_key(pod).kind is GangKind.WORKLOAD else None

    def _may_help(
        self, old: Pod | None, new: Pod | None, before: GangKey | None, after: GangKey | None
    ) -> bool:
        """Whether a waiting pod of ours is new or changed, or a pod left its gang, which has the key
        `before`.

        The PodScheduled condition that the scheduler writes itself does not count, nor does a nomination.
        """
        if new is not None and new.node is None and new.is_waiting:
            if new.scheduler_name != self._scheduler_name or after is None:
                return False
            if old is None:
                return not self._is_short(new, after)
            return structs.replace(old, scheduled=new.scheduled, nominated=new.nominated) != new
        return old is not None and old.is_waiting and before is not None and before.kind is not GangKind.POD

    def _changes_verdict(self, old: Pod | None, new: Pod, key: GangKey) -> bool:
        """Whether a pod came that waits, or a gang that has not started lost a member that keeps its node for
        now: a cycle notes since when the gang is incomplete, and releases it later.
        """
        if old is None:
            return new.is_waiting
        return old.counts_for_gang and not new.counts_for_gang and not self._has_started(key)

    def _has_started(self, key: GangKey) -> bool:
        if key.kind is GangKind.POD:
            return True
        gangs = self._gangs.get(key)
        return gangs is not None and any(gang.started for gang in gangs)

    def _is_short(self, new: Pod, key: GangKey) -> bool:
        """Whether the gang of this new pod still has too few members to start."""
        if self._has_started(key):
            return False
        count = len(self._pods.get(key, ())) + 1
        if key.kind is GangKind.LABEL:
            return count < (new.min_member or 1)
        group = self._objects.known(key)
        if group is None:
            return True
        is_enough = count >= (new.min_member or group.min_member)
        return not (group.started or group.spec.reserves or is_enough)

    def _key_of(self, pod: Pod | None, log: ChangeLog) -> GangKey | None:
        if pod is None or is_foreign(pod, self._scheduler_name):
            return None
        key = gang_key(pod)
        if key.dialect == NATIVE.name:
            key = self._trees.key_of(key)
        if key.kind is GangKind.WORKLOAD and pod.controller is not None:
            key = self._part_of(pod, self.workloads.key_of(pod.namespace, pod.controller, log))
        application = free_application(pod) if pod.other_groups else None
        if application is not None and claims(self._objects.group(application)):
            return application
        return key

    def _part_of(self, pod: Pod, workload: GangKey | None) -> GangKey:
        """The gang of a pod in a workload, which may be divided into several; without one of the pod."""
        if workload is None:
            return GangKey(GangKind.POD, pod.namespace, pod.uid)
        kind = self.workloads.kinds.by_name.get(workload.dialect)
        if kind is None or not kind.part_label:
            return workload
        return workload._replace(part=dict(pod.all_labels).get(kind.part_label, ""))

    def _join(self, pod: Pod, key: GangKey) -> None:
        self._pods.setdefault(key, {})[pod.uid] = pod
        if key.part:
            self._parts.setdefault(key._replace(part=""), {})[key] = None

    def _leave(self, pod: Pod, key: GangKey, log: ChangeLog) -> None:
        """The last pod may leave a cycle's data about its gang behind, which the next cycle removes.

        For a PodGroup of Phalanx its deletion triggers this cycle.
        """
        rest = self._pods[key]
        del rest[pod.uid]
        if not rest:
            del self._pods[key]
            if key.part:
                parts = self._parts[key._replace(part="")]
                del parts[key]
                if not parts:
                    del self._parts[key._replace(part="")]
            if key.dialect != API_GROUP and key in self._gangs:
                log.mark_new_verdicts()

    def _touch(self, key: GangKey, log: ChangeLog, *, pod: Pod | None = None) -> None:
        """Build the gangs of this key again, unless no pod is left and none were built.

        `pod`: the pod that changed, if no other gang of the key can have changed.
        """
        if key in self._pods or key in self._gangs:
            self._stale[key] = None
        else:
            self._stale.pop(key, None)
        group = self._objects.written(key)
        if group is None or group.is_gang:
            log.gang(gang_id(key, group))
        elif pod is not None:
            log.gang(GangId(pod.uid))
        else:
            log.gangs(map(GangId, self._pods.get(key, ())))

    # --- questions ----------------------------------------------------------------------------------------

    def refresh(self, *, rules: QueueRules, classes: Mapping[str, PriorityLevel]) -> None:
        """Rebuild the gangs whose objects changed."""
        self._rules = rules
        for key in self._stale:
            old = self._gangs.pop(key, ())
            new = self._read(key, old, classes) if key in self._pods else ()
            self._known.exchange(key, old, new)
            self._usage.replace(key, new)
            if new:
                self._gangs[key] = new
        self._stale = {}
        self._known.trim()

    def _read(
        self, key: GangKey, before: tuple[Gang, ...], classes: Mapping[str, PriorityLevel]
    ) -> tuple[Gang, ...]:
        return self._objects.read(key, tuple(self._pods[key].values()), before, self._rules, classes)

    def get(self, gang: GangId) -> Gang | None:
        return self._known.get(gang)

    def view(self) -> Mapping[GangId, Gang]:
        """All gangs, sorted by ID. It is the same mapping until something changes."""
        return self._known.view()

    def usage(self) -> Mapping[QueueName, Mapping[NodeName, Resources]]:
        return self._usage.view()

    def queue_of_group(self, namespace: str, name: str) -> QueueName | None:
        """The queue of the gang of a PodGroup; None without such a gang."""
        dialects = (*self.groups, APPLICATION)
        keys = [GangKey(GangKind.POD_GROUP, namespace, name, dialect) for dialect in dialects]
        keys = [self._trees.key_of(key) if key.dialect == NATIVE.name else key for key in keys]
        gangs = [gang for key in keys for gang in self._gangs.get(key, ())]
        return next((gang.queue for gang in gangs if gang.kind is GangKind.POD_GROUP), None)

    def objection_without_pods(self, dialect: str, namespace: str, name: str) -> Objection | None:
        """Why pods of a PodGroup that has none would wait; None also if it does not exist."""
        group = self.groups[dialect].get((namespace, name))
        return objection_without_pods(group, self._rules) if group is not None else None

    def queue_of_pod(self, pod: Pod | None) -> QueueName | None:
        """The queue of the gang of a pod; None for a pod without a gang."""
        key = self._key_of(pod, ChangeLog())
        if pod is None or key is None:
            return None
        gangs = self._gangs.get(key, ())
        return next((gang.queue for gang in gangs if any(each.uid == pod.uid for each in gang.members)), None)

    def uses_node(self, queue: QueueName, node: NodeName) -> bool:
        """Whether pods that are charged to the queue hold the node."""
        return self._usage.uses(queue, node)
