"""The objects that define gangs: PodGroups of all dialects, applications, trees of groups, and workloads."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from phalanx.cache.applications import ApplicationTable
from phalanx.cache.events import ChangeLog
from phalanx.cache.gang_changes import APPLICATION, as_surplus, is_application, of_earlier_runs, other_keys
from phalanx.cache.group_trees import IN_TREES, GroupTrees
from phalanx.cache.table import Key, Table
from phalanx.cache.workloads import WorkloadTable
from phalanx.model.conversion.cluster_objects import PriorityLevel
from phalanx.model.conversion.gangs import GangContext, read_gangs
from phalanx.model.conversion.pod_groups import GangKey, PodGroup, gang_id
from phalanx.model.conversion.queue_rules import QueueRules
from phalanx.model.conversion.workload_members import group_of_pods, is_undecided
from phalanx.model.dialects.composite import COMPOSITE, as_part
from phalanx.model.dialects.known import WITH_OBJECTS
from phalanx.model.dialects.native import NATIVE
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.records import GangRecord

RecordOf = Callable[[GangId], GangRecord | None]
Changed = Callable[[str, Key, PodGroup | None, PodGroup | None, ChangeLog], None]


class GangObjects:
    """The objects, and the gangs that they make of pods.

    `changed(dialect, key, old, new, log)` is called when a PodGroup is added, changed or removed.
    """

    def __init__(
        self, *, scheduler_name: str, workloads: WorkloadTable, changed: Changed, record: RecordOf
    ) -> None:
        """`record(gang)`: what is stored of a gang outside of its PodGroup."""
        self._scheduler_name = scheduler_name
        self._record = record
        self._workloads = workloads
        self.groups: Mapping[str, Table[Any, PodGroup]] = {
            dialect.name: Table(read=dialect.read, changed=partial(changed, dialect.name))
            for dialect in WITH_OBJECTS
        }
        """PodGroups by dialect."""
        self.applications = ApplicationTable(changed=partial(changed, APPLICATION))
        self._tables: Mapping[str, Table[Any, PodGroup] | ApplicationTable] = {
            **self.groups,
            APPLICATION: self.applications,
        }
        self.trees = GroupTrees(self.groups[NATIVE.name], self.groups[COMPOSITE.name])

    def known(self, key: GangKey) -> PodGroup | None:
        """What is known of the gang of a key without its pods."""
        if key.kind is not GangKind.WORKLOAD:
            return self.group(key)
        workload = self._workloads.get(key)
        return workload.group if workload is not None else None

    def group(self, key: GangKey) -> PodGroup | None:
        """The PodGroup of a key with what others in its tree say about it."""
        if key.kind is not GangKind.POD_GROUP:
            return None
        if key.dialect in IN_TREES:
            return self.trees.get(key)
        return self._tables[key.dialect].get((key.namespace, key.name))

    def written(self, key: GangKey) -> PodGroup | None:
        """The object of a key alone, without what others say about it."""
        if key.kind is not GangKind.POD_GROUP:
            return None
        return self._tables[key.dialect].get((key.namespace, key.name))

    def read(
        self,
        key: GangKey,
        pods: Sequence[Pod],
        before: tuple[Gang, ...],
        rules: QueueRules,
        classes: Mapping[str, PriorityLevel],
    ) -> tuple[Gang, ...]:
        """The gangs of these pods, all of one key. `before`: those of the key so far."""
        group = self.group(key)
        context = GangContext(
            scheduler_name=self._scheduler_name,
            group=group,
            rules=rules,
            classes=classes,
            before={gang.id: gang for gang in before},
            record=self._record(gang_id(key, group)),
            others={
                other: group
                for pod in pods
                if pod.other_groups
                for other in other_keys(pod)
                if (group := self.group(other)) is not None
            },
        )
        if key.kind is GangKind.WORKLOAD:
            context = self._with_workload(context, key, pods)
        if key.dialect == COMPOSITE.name and context.group is not None:
            pods = tuple(as_part(pod, context.group) for pod in pods)
        if is_application(key):
            return _read_application(key, pods, context)
        return read_gangs(key, pods, context)

    def _with_workload(self, context: GangContext, key: GangKey, pods: Sequence[Pod]) -> GangContext:
        workload = self._workloads.get(key)
        if workload is not None:
            foreign = self._workloads.foreign_roles(key, pods) if is_undecided(workload, pods) else ()
            ended = self._workloads.ended_roles(key, pods)
            group = group_of_pods(workload, pods, self._workloads.of_uid, foreign=foreign, ended=ended)
            return structs.replace(context, group=group)
        controller = pods[0].controller
        assert controller is not None
        root = self._workloads.root(key.namespace, controller)
        return structs.replace(context, unknown=(root.name, self._workloads.missing(key.namespace, root)))


def _read_application(key: GangKey, pods: Sequence[Pod], context: GangContext) -> tuple[Gang, ...]:
    """Its gang, and gangs of one of the pods of earlier applications of this ID."""
    ended = {pod.uid: pod for pod in of_earlier_runs(pods)}
    alone = structs.replace(context, group=None, others={})
    members = [as_surplus(pod) if pod.group is None else pod for pod in pods if pod.uid not in ended]
    return (
        *read_gangs(key, members, context),
        *(
            gang
            for pod in ended.values()
            for gang in read_gangs(GangKey(GangKind.POD, pod.namespace, pod.uid), (pod,), alone)
        ),
    )
