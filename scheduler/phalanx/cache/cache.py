"""The cache: applies events, and returns what changed; builds snapshots.

It holds the objects of the API, and the pods that the scheduler decided to bind and that the API does not
show yet. Events of different kinds may arrive in any order, more than once, or late. The same objects always
give the same snapshot.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from phalanx.cache.claims import ClaimTables
from phalanx.cache.cluster_objects import ClusterObjects
from phalanx.cache.devices.tables import DeviceTables
from phalanx.cache.events import (
    Applied,
    Assumed,
    Awaited,
    AwaitsDevices,
    ChangeLog,
    Changes,
    Deleted,
    Event,
    Forgotten,
    NotListed,
    Recorded,
    Relisted,
)
from phalanx.cache.evictable_pods import EvictablePodTable
from phalanx.cache.gangs import GangTable
from phalanx.cache.nodes import NodeTable
from phalanx.cache.nominations import NominationTable
from phalanx.cache.placed_pods import PlacedPodIndex
from phalanx.cache.pods import PodTable
from phalanx.cache.supply_tables import SupplyTables, by_method
from phalanx.cache.table import ObjectStore, key_of, relist
from phalanx.cache.usage import ForeignUsage
from phalanx.model.api.kinds import kind_name
from phalanx.model.conversion.pod_groups import owner_of, workload_of
from phalanx.model.conversion.workload_members import Workload
from phalanx.model.decisions import Bind, GiveBack
from phalanx.model.dialects.known import WITH_OBJECTS
from phalanx.model.dialects.queues import QUEUE_DIALECTS, QueueDialect, QueueDialectName
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.nodes import Node, NodeState, NominatedPods
from phalanx.model.pods import AffinityTerm, Pod
from phalanx.model.reasons import Objection
from phalanx.model.resources import Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.spread_defaults import DefaultConstraint
from phalanx.model.supplies.devices.claims import AwaitedClaim
from phalanx.model.supplies.known import is_chosen_by_kubelet, pod_usage
from phalanx.model.supplies.part import SupplyPart
from phalanx.model.supplies.volumes.published import UnboundClaim
from phalanx.model.workloads.known import KNOWN, WorkloadKinds


class Cache:
    """The state of one cluster, for the scheduler of this name.

    Kinds that no decision depends on (leases) are accepted and dropped.
    """

    def __init__(
        self,
        *,
        scheduler_name: str,
        pod_annotations: Iterable[str] = (),
        node_annotations: Iterable[str] = (),
        nominating_schedulers: Iterable[str] | None = None,
        workload_kinds: WorkloadKinds = KNOWN,
        queue_dialects: Iterable[QueueDialectName] = (),
        default_spread: Sequence[DefaultConstraint] = (),
        with_images: bool = False,
        state_taints: tuple[str, ...] = (),
        gangs_move: bool = False,
        is_evictable: Callable[[Pod], bool] = lambda _: False,
    ) -> None:
        """`pod_annotations`, `node_annotations`: keys of the annotations to keep. All others are dropped.

        `nominating_schedulers`: those whose nominations of pods to nodes count; None for all others.
        `queue_dialects`: the other projects whose Queues count.
        `default_spread`: the topology spread constraints of pods that have none.
        `with_images`: whether images of pods and nodes are kept. `gangs_move`: whether the rules of running
        pods are, since gangs may be moved.
        `state_taints`: taints that only say that a node takes no pods now, beside those that are known.
        `is_evictable`: whether gangs may evict this pod of another scheduler.
        """
        self.scheduler_name, self.known_workloads = scheduler_name, workload_kinds
        self._version = self._cluster_version = 0
        self._pod_annotations = tuple(sorted(set(pod_annotations)))
        self._node_annotations = tuple(sorted(set(node_annotations)))
        pods: dict[PodUid, Pod] = {}
        self._nodes = NodeTable(
            self._node_annotations, self._node_changed, with_images=with_images, state_taints=state_taints
        )
        self._gangs = GangTable(scheduler_name=scheduler_name, pod=pods.get, kinds=workload_kinds)
        self._foreign = ForeignUsage(scheduler_name=scheduler_name)
        self.evictable = EvictablePodTable(scheduler_name=scheduler_name, is_selected=is_evictable)
        self._nominations = NominationTable(scheduler_name=scheduler_name, believed=nominating_schedulers)
        self._claims = ClaimTables(scheduler_name=scheduler_name, nodes=self._nodes)
        self._devices = DeviceTables(scheduler_name=scheduler_name, pod=pods.get, changed=self._claim_changed)
        self._supplies: Final[tuple[SupplyTables, ...]] = (self._claims, self._devices)
        self._supplies_with: Final = by_method(self._supplies)
        self._cluster_objects = ClusterObjects(
            namespace_changed=self._gangs.namespace_changed,
            class_changed=self._class_changed,
            queue_dialects=queue_dialects,
        )
        self._pods = PodTable(
            pods,
            changed=self._pod_changed,
            classes=self._cluster_objects.classes.by_name,
            annotation_keys=self._pod_annotations,
            kinds=workload_kinds,
            default_spread=default_spread,
            with_images=with_images,
            claim_states=self._devices.with_states,
            scheduler_name=scheduler_name,
        )
        self._placed_pods = PlacedPodIndex(
            scheduler_name=scheduler_name, pods=self._pods.values, gangs_move=gangs_move
        )

    @cached_property
    def _kinds(self) -> Mapping[str, ObjectStore[Any]]:
        tables = {kind: table for supply in self._supplies for kind, table in supply.tables.items()}
        return tables | {
            "Pod": self._pods,
            "Node": self._nodes,
            "NodeResourceTopology": self._nodes.zones,
            "HyperNode": self._nodes.hyper_nodes,
            **{dialect.kind: self._gangs.groups[dialect.name] for dialect in WITH_OBJECTS},
            **self._gangs.workloads.tables,
            "ConfigMap": self._gangs.records,
            "Queue": self._cluster_objects.queues,
            **{
                QUEUE_DIALECTS[name].kind: table for name, table in self._cluster_objects.other_queues.items()
            },
            "Topology": self._cluster_objects.topologies,
            "KaiTopology": self._cluster_objects.kai_topologies,
            "Namespace": self._cluster_objects.namespaces,
            "PriorityClass": self._cluster_objects.classes,
            "PodDisruptionBudget": self._cluster_objects.budgets,
        }

    # --- events -------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> Changes:
        return self.apply_all((event,))

    def apply_all(self, events: Iterable[Event]) -> Changes:
        """Apply several events, and return their changes together.

        A Relisted event creates thousands of objects at once. The caller should turn off the garbage
        collector meanwhile (`gc.disable()`), because it would take most of the time.
        """
        log = ChangeLog()
        for event in events:
            self._take(event, log)
        if self._nodes.are_listed:
            for supply in self._supplies_with["nodes_changed"]:
                supply.nodes_changed(self._nodes.is_offered, log)
        if log.queues_changed:
            self._gangs.queues_changed(self._cluster_objects.queue_rules(), log)
        if log.capacity_grew:
            self._version += 1
        if log.cluster_changed:
            self._cluster_version += 1
        for supply in self._supplies if log.supplies_freed else ():
            supply.count_changes(log)
        return log.changes()

    def _take(self, event: Event, log: ChangeLog) -> None:
        if isinstance(event, Applied):
            kept = self._kinds.get(kind_name(event.object))
            if kept is not None:
                kept.apply(event.object, log)
        elif isinstance(event, Deleted):
            if event.kind in self._kinds:
                key = key_of(event.kind, event.namespace, event.name)
                self._kinds[event.kind].delete(key, event.uid, log)
        elif isinstance(event, Relisted):
            self._relist(event, log)
        elif isinstance(event, NotListed):
            if event.kind in self._gangs.workloads.tables:
                self._gangs.workloads.set_listed(event.kind, event.why, log)
        elif isinstance(event, Assumed):
            self._assume(event, log)
        elif isinstance(event, AwaitsDevices):
            self._pods.set_awaits_devices(event, log)
        elif isinstance(event, Recorded):
            self._gangs.records.note(event, log)
        elif isinstance(event, Awaited):
            self._pods.await_(event, log)
        else:
            self._forget(event, log)

    def _forget(self, event: Forgotten, log: ChangeLog) -> None:
        self._pods.forget(event, log)
        for supply in self._supplies:
            supply.forget(event.pod, log)

    def _assume(self, event: Assumed, log: ChangeLog) -> None:
        self._pods.assume(event, log)
        pod = self._pods.get(event.bind.pod)
        for supply in self._supplies_with["assume"] if pod is not None and pod.assumed else ():
            supply.assume(event.bind, log)

    def _relist(self, event: Relisted, log: ChangeLog) -> None:
        if event.kind == "Pod":
            self._pods.forget_versions()
        for supply in self._supplies:
            supply.before_list(event.kind)
        if event.kind in self._kinds:
            relist(self._kinds[event.kind], event, log)
        for supply in self._supplies:
            supply.set_listed(event.kind, log)
        self._nodes.are_listed = self._nodes.are_listed or event.kind == "Node"
        if event.kind in self._gangs.workloads.tables:
            self._gangs.workloads.set_listed(event.kind, "", log)

    def _pod_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """Update the node and the gang of a changed pod."""
        pod = new or old
        assert pod is not None
        log.pod(pod.uid)
        before = _held(old)
        after = _held(new)
        if before is not None and after is not None and _only_started(before, after):
            self._nodes.start(*before, after[1], log)
        elif before != after:
            if after is not None:
                self._nodes.take(*after, log)
            if before is not None:
                self._nodes.release(*before, log)
        for supply in self._supplies_with["pod_changed"]:
            supply.pod_changed(old, new, log)
        self._foreign.replace(old, new)
        self.evictable.replace(old, new, log)
        self._nominations.replace(old, new, log)
        self._placed_pods.replace(old, new, log)
        self._gangs.replace(old, new, log)
        for supply in self._supplies_with["gang_changed"]:
            supply.gang_changed(old, new, log)

    def _node_changed(self, old: Node | None, new: Node | None, log: ChangeLog) -> None:
        self._placed_pods.node_changed(old, new, log)

    def _claim_changed(self, uid: PodUid, log: ChangeLog) -> None:
        self._pods.claims_changed(uid, log)

    def _class_changed(self, name: str, log: ChangeLog) -> None:
        self._gangs.class_changed(name, log)
        self._pods.classes_changed(log)

    # --- questions ----------------------------------------------------------------------------------------

    def snapshot(self, *, now: int, seed: int, memory: Memory) -> Snapshot:
        """The input of a cycle; `now` in milliseconds since the epoch. Unchanged parts are shared."""
        self._refresh()
        pod_affinity = self._placed_pods.view()
        return Snapshot(
            now=now,
            seed=seed,
            nodes=self._nodes.view(),
            gangs=self._gangs.view(),
            queues=self._cluster_objects.queue_tree(),
            queue_usage=self._gangs.usage(),
            foreign=self._foreign.view(),
            foreign_terminating=self._foreign.terminating(),
            evictable_pods=self.evictable.view(),
            nominated=self._nominations.view(),
            namespace_labels=self._cluster_objects.namespaces.by_name(),
            topologies=self._cluster_objects.all_topologies(
                self._nodes.nodes(), self._nodes.hyper_node_tree()
            ),
            supplies={supply.name: supply.view() for supply in self._supplies},
            capacity_version=self._version,
            cluster_version=self._cluster_version,
            supply_versions={supply.name: supply.versions for supply in self._supplies},
            memory=memory,
            pod_affinity_terms=pod_affinity.terms,
            preferred_pod_terms=pod_affinity.preferred_terms,
            placed_pods=pod_affinity.placed_pods,
            foreign_pods=pod_affinity.foreign_pods,
            pod_annotations=self._pod_annotations,
            node_annotations=self._node_annotations,
            disruption_budgets=self._cluster_objects.disruption_budgets(),
        )

    def node_snapshot(self, names: Iterable[NodeName], *, now: int = 0) -> Snapshot:
        """These nodes, and the objects that decide which pods may run there: no gangs, no memory."""
        states = {name: state for name in names if (state := self._nodes.state(name)) is not None}
        return Snapshot(
            now=now,
            seed=0,
            nodes=states,
            queues=self._cluster_objects.queue_tree(),
            namespace_labels=self._cluster_objects.namespaces.by_name(),
            supplies=self._filter_views(),
            pod_annotations=self._pod_annotations,
            node_annotations=self._node_annotations,
        )

    def filter_inputs(self) -> tuple[object, ...]:
        """What filters of nodes read beside the node: queues, namespaces and supplies.

        The parts are the same objects until one of theirs changes.
        """
        return (
            self._cluster_objects.queue_tree(),
            self._cluster_objects.namespaces.by_name(),
            *self._filter_views().values(),
        )

    def _filter_views(self) -> dict[str, SupplyPart]:
        return {supply.name: supply.filter_view() for supply in self._supplies_with["filter_view"]}

    def pod(self, uid: PodUid) -> Pod | None:
        """A pod, with its assumed node if it has one."""
        return self._pods.get(uid)

    def gang(self, gang: GangId) -> Gang | None:
        self._refresh()
        return self._gangs.get(gang)

    def gangs(self) -> Mapping[GangId, Gang]:
        self._refresh()
        return self._gangs.view()

    def queue_of(self, namespace: str, name: str) -> QueueName | None:
        """The queue of the PodGroup or pod of this name; None for an unknown one."""
        self._refresh()
        return self._gangs.queue_of_group(namespace, name) or self._gangs.queue_of_pod(
            self._pods.named(namespace, name)
        )

    def objection_without_pods(self, dialect: str, namespace: str, name: str) -> Objection | None:
        """Why pods of a PodGroup that has none yet would wait until an object changes."""
        self._refresh()
        return self._gangs.objection_without_pods(dialect, namespace, name)

    def uses_node(self, queue: QueueName, node: NodeName) -> bool:
        """Whether pods that are charged to the queue hold the node."""
        self._refresh()
        return self._gangs.uses_node(queue, node)

    def workload_kinds(self) -> tuple[str, ...]:
        """The kinds of the workloads above pods of ours, and what decides where volumes are provisioned."""
        return (*self._gangs.workloads.needed, *(kind for supply in self._supplies for kind in supply.needed))

    def workload(self, gang: GangId) -> Workload | None:
        """The object that the pods of a gang belong to, if it is known and this gang is all of it."""
        return self._gangs.workloads.of_uid(workload_of(gang))

    def owned_workloads(self, uid: str) -> frozenset[str]:
        """UIDs of the known workloads below the one with this UID."""
        return self._gangs.workloads.owned_by(uid)

    def pods_of(self, controllers: Collection[str]) -> tuple[Pod, ...]:
        """The pods of controllers with these UIDs, of all schedulers."""
        return tuple(
            pod
            for pod in self._pods.values()
            if pod.controller is not None and pod.controller.uid in controllers
        )

    def has_owner(self, gang: GangId) -> bool:
        """Whether the object is known that makes the pods of a gang of a workload or by label."""
        return self._gangs.workloads.of_uid(owner_of(gang)) is not None

    def queue_dialects(self) -> tuple[QueueDialect, ...]:
        """The other projects whose Queues count."""
        return tuple(QUEUE_DIALECTS[name] for name in self._cluster_objects.other_queues)

    def has_node(self, name: NodeName) -> bool:
        return name in self._nodes.nodes()

    def gang_ids(self) -> tuple[GangId, ...]:
        """All gangs, by age, namespace and name."""
        self._refresh()
        oldest_first = sorted(self._gangs.view().values(), key=_age)
        return tuple(gang.id for gang in oldest_first)

    def node_state(self, name: NodeName) -> NodeState | None:
        """A node with its usage and free capacity."""
        return self._nodes.state(name)

    def nominated_to(self, name: NodeName) -> tuple[NominatedPods, ...]:
        """Pods of other schedulers that are nominated to a node, by priority, the highest first."""
        return self._nominations.on(name)

    def anti_affinity_conflict(self, pod: Pod) -> str:
        """The topology key by which anti-affinity forbids the node of this pod; empty if nothing forbids
        it."""
        for key, node in self._placed_pods.avoided(pod, self._cluster_objects.namespaces.by_name()):
            here = self._nodes.state(pod.node) if pod.node is not None else None
            there = self._nodes.state(node)
            value = here.node.labels.get(key) if here is not None else None
            if value is not None and there is not None and there.node.labels.get(key) == value:
                return key
        return ""

    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, without usage. It is the same mapping until a node changes."""
        return self._nodes.nodes()

    def spread_counts(self, term: AffinityTerm) -> Iterator[tuple[NodeName, int]]:
        """Nodes with the numbers of pods that a spread constraint of an assumed pod counts."""
        return self._placed_pods.spread_counts(term)

    def supply_conflict(self, pod: Pod, node: Node) -> str:
        """Why a pod that is assumed on the node cannot get what was decided for it of supplies; empty if
        nothing forbids it."""
        for supply in self._supplies_with["conflict"]:
            text = supply.conflict(pod, node)
            if text:
                return text
        return ""

    def supply_shortage(self, pod: Pod) -> str:
        """Of which supply the node of the pod has too little since the decision; empty for none."""
        for supply in self._supplies_with["shortage"]:
            text = supply.shortage(pod)
            if text:
                return text
        return ""

    def not_ready(self, pod: PodUid) -> str:
        """Why a placed pod must not be bound yet; empty if nothing delays it."""
        for supply in self._supplies_with["not_ready"]:
            text = supply.not_ready(pod)
            if text:
                return text
        return ""

    def provided(self, pod: Pod, node: Node) -> frozenset[str]:
        """The resources that the pod requests and gets from supplies: the node has none of them."""
        return frozenset[str]().union(*(supply.provided(pod, node) for supply in self._supplies))

    def has_resource_claim(self, uid: str) -> bool:
        """Whether a claim to devices with this UID is known."""
        return self._devices.has_claim(uid)

    def leftover_claims(self, *, now: int = 0) -> tuple[GiveBack, ...]:
        """Claims to devices that are held for pods of this scheduler without a node, or that nobody can use
        (`now`: in ms since the epoch)."""
        return self._devices.leftover(now)

    def awaited_claims(self, bind: Bind) -> tuple[AwaitedClaim, ...]:
        """The claims to devices of a placed pod whose binding conditions are not true yet."""
        return self._devices.awaited(bind.pod)

    def unbound_claims(self, bind: Bind) -> tuple[UnboundClaim, ...] | None:
        """The claims of a placed pod that are not bound yet; None if the pod or its node is gone."""
        pod = self._pods.get(bind.pod)
        if pod is None or pod.deleting or pod.node != bind.node or not self.has_node(bind.node):
            return None
        return self._claims.unbound(pod) if pod.claims else ()

    def _refresh(self) -> None:
        self._gangs.refresh(
            rules=self._cluster_objects.queue_rules(), classes=self._cluster_objects.classes.by_name()
        )


def _age(gang: Gang) -> tuple[int, str, str, str]:
    return (gang.created, gang.namespace, gang.name, gang.id)


def _only_started(before: tuple[NodeName, Resources], after: tuple[NodeName, Resources]) -> bool:
    """Whether the pod holds the same resources, but now in parts that the kubelet has chosen."""
    (node, usage), (other, now) = before, after
    if node != other or usage == now:
        return False
    return all(is_chosen_by_kubelet(name) for name, _ in usage.items() ^ now.items())


def _held(pod: Pod | None) -> tuple[NodeName, Resources] | None:
    """The node on which a pod holds capacity, and how much."""
    if pod is None or pod.node is None or not pod.holds_node:
        return None
    return pod.node, pod_usage(pod)
