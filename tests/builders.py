"""A builder of snapshots, for tests of decisions.

    result = Scenario().nodes("a100", 4, gpu=8).gang("train", 32, gpu=1).decide()
    assert result.where("train") == {"a100": 32}

Nodes and gangs come in groups. Input mappings are shuffled before each decision, so that no test depends on
the order in which something was added. `take` applies the decisions of a result, for scenarios of several
cycles.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import replace
from phalanx.actions.demands import gang_demands
from phalanx.actions.demands.demand import Demand
from phalanx.cache.events import ChangeLog
from phalanx.cache.placed_pods import PlacedPodIndex, View
from phalanx.cycle import Engine
from phalanx.framework.config import ActionName, SchedulerConfig
from phalanx.framework.member_records import review
from phalanx.limits import AMOUNT_MAX
from phalanx.model.api.pod_groups import RESERVED, PodGroupSpec, TopologyRequest
from phalanx.model.decisions import Bind, CycleResult, Placement
from phalanx.model.gangs import Gang, GangKind, RoleSpec
from phalanx.model.memory import Memory, SeenMembers
from phalanx.model.names import NODE_GPU_SHARING, GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.nodes import Node, NodeState, NominatedPods, Numa, Taint, ZoneLayout
from phalanx.model.pods import (
    AffinityTerm,
    Controller,
    MountedClaim,
    Pod,
    PodLabels,
    PodPhase,
    PodShape,
    Requirement,
    Term,
    VolumeClaim,
    WeightedPodTerm,
)
from phalanx.model.queues import Flavor, Queue
from phalanx.model.reasons import Objection, Reason, Verdict
from phalanx.model.records import NO_RECORD, GangRecord, placed_members, record_kinds
from phalanx.model.resources import CPU, GPU, MEMORY, PODS, Resources, add, fits, subtract
from phalanx.model.snapshot import DisruptionBudget, Level, Snapshot, Topology
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx.model.supplies.gpu_shares.devices import GPU_MEMORY, GPU_SHARE, shared_devices
from phalanx.model.supplies.known import pod_usage
from phalanx.model.supplies.numa.zones import NumaRequest, numa_resource
from phalanx.model.supplies.ports import Ports
from phalanx.model.supplies.volumes.published import ClusterVolumes

K = TypeVar("K")
V = TypeVar("V")
GI = 1 << 30
CONTROLLER = Controller(kind="Job", name="job", uid="job-uid")


class Scenario:
    """A cluster and its gangs. Amounts: `gpu` and `cpu` in units, `memory` in Gi."""

    def __init__(self, *levels: str) -> None:
        """`levels`: those of the default topology, widest first; `within` of `nodes` names the domains."""
        self.levels = levels
        self._engine: Engine | None = None
        self.now = 1_000_000
        self.memory = Memory()
        self.capacity_version = 1
        self._cluster: tuple[object, int] = ((), 0)
        """The objects of the last snapshot besides gangs, and its cluster version."""
        self.claims: dict[str, VolumeClaim] = {}
        self.devices = ClusterDevices()
        self.topologies = {"": Topology("", tuple(Level(level, f"test/{level}") for level in levels))}
        self._nodes: dict[NodeName, Node] = {}
        self._foreign: dict[NodeName, Resources] = {}
        self._foreign_work: dict[str, dict[NodeName, Resources]] = {}
        self._gangs: dict[str, Gang] = {}
        self._queues: dict[QueueName, Queue] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._foreign_pods: list[Pod] = []
        self._nominated: dict[NodeName, tuple[NominatedPods, ...]] = {}
        self._budgets: list[DisruptionBudget] = []
        self.gangs_move = False
        """Whether the rules of running pods are kept; set by the configuration of each cycle."""

    def nodes(
        self,
        group: str,
        count: int = 1,
        *,
        gpu: int = 0,
        cpu: int = 64,
        memory: int = 512,
        within: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        cordoned: bool = False,
        used: Mapping[str, int] | None = None,
        conditions: Mapping[str, str] | None = None,
        turned: Mapping[str, int] | None = None,
        shared: int = 0,
        gpu_memory: int = 0,
        numa: Numa | None = None,
    ) -> Self:
        """Nodes "group-0", "group-1"… with the label `group`.

        `used`: what foreign pods use on each node. `numa`: the zones, see the function `numa`; the field
        `containers` of a gang says which resources of its pods are aligned. `shared`: the number of GPUs that
        pods share, each with `gpu_memory` in Gi.
        """
        domains = dict(zip((f"test/{level}" for level in self.levels), within.split("/"), strict=False))
        for index in range(count):
            name = NodeName(f"{group}-{index}")
            own = {"group": group, "kubernetes.io/hostname": name}
            allocatable = {GPU: gpu, CPU: cpu * 1000, MEMORY: memory * GI, PODS: 110}
            allocatable.update(shared_devices(shared, gpu_memory * GI))
            own.update({NODE_GPU_SHARING: "true"} if shared else {})
            self._nodes[name] = Node(
                name=name,
                uid=f"uid-{name}",
                labels={**own, **{key: value for key, value in domains.items() if value}, **(labels or {})},
                annotations=annotations or {},
                taints=tuple(taints),
                unschedulable=cordoned,
                allocatable={key: value for key, value in allocatable.items() if value},
                conditions=conditions or {},
                condition_changes=turned or {},
                numa=numa,
            )
            self._foreign[name] = used or {}
        return self

    def foreign(self, name: str, *nodes: str, gpu: int) -> Self:
        """A workload of another scheduler, such as "Job team/x", with `gpu` devices on each node."""
        mine = self._foreign_work.setdefault(name, {})
        for node in map(NodeName, nodes):
            self._foreign[node] = add(self._foreign[node], {GPU: gpu})
            mine[node] = add(mine.get(node, {}), {GPU: gpu})
        return self

    def foreign_pod(self, name: str, node: str, **fields: Any) -> Self:
        """A running pod of another scheduler without requests; fields as those of `_pods`."""
        (pod,) = self._pods(name, 1, {"cpu": 0, "memory": 0, **fields, "on": (node,)})
        self._foreign_pods.append(replace(pod, scheduler_name="other"))
        self._foreign[NodeName(node)] = add(self._foreign[NodeName(node)], dict(pod.shape.supplied))
        return self

    def nominated(self, name: str, node: str, *, gpu: int, priority: int = 0) -> Self:
        """A pod of another scheduler that is nominated to a node and not bound yet."""
        pod = NominatedPods(priority=priority, amounts={GPU: gpu}, count=1, names=(name,))
        self._nominated[NodeName(node)] = (*self._nominated.get(NodeName(node), ()), pod)
        return self

    def queue(self, name: str, *, flavors: Iterable[Flavor] = (), **fields: Any) -> Self:
        """A queue; `fields` as those of Queue."""
        parent = fields.pop("parent", None)
        self._queues[QueueName(name)] = Queue(
            name=QueueName(name),
            parent=QueueName(parent) if parent else None,
            flavors=tuple(flavors),
            **fields,
        )
        return self

    def namespace(self, name: str, **labels: str) -> Self:
        """A namespace with labels."""
        self._namespaces[name] = labels
        return self

    def budget(self, name: str, allowed: int = 0, **labels: str) -> Self:
        """A PodDisruptionBudget of namespace `team` for the pods with these labels."""
        selector = Term(tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items())))
        self._budgets = [each for each in self._budgets if each.name != name]
        self._budgets.append(DisruptionBudget("team", name, selector, allowed))
        self._budgets.sort(key=lambda each: each.name)
        return self

    def gang(self, name: str, count: int, *, min: int | None = None, **fields: Any) -> Self:
        """A PodGroup with `count` members of one role; other fields as those of `_pods` and Gang."""
        pods = self._pods(name, count, fields)
        request = TopologyRequest(
            required=fields.pop("required", None), preferred=fields.pop("preferred", None)
        )
        bound = sum(1 for pod in pods if pod.counts_for_gang)
        wanted = count if min is None else min
        self._gangs[name] = Gang(
            id=GangId(f"gang-{name}"),
            kind=fields.pop("kind", GangKind.POD_GROUP),
            namespace=fields.pop("namespace", "team"),
            name=name,
            queue=QueueName(fields.pop("queue", "default")),
            min_member=wanted,
            priority=fields.pop("priority", 0),
            created=fields.pop("created", len(self._gangs) + 1),
            members=tuple(pods),
            spec=_spec(PodGroupSpec(wanted, topology=fields.pop("topology", request)), fields),
            started=fields.pop("started", bound >= wanted),
            record=fields.pop("record", None),
            **fields,
        )
        return self._recorded(name)

    def _recorded(self, name: str) -> Self:
        """Record all members of a gang that has members on nodes, as if the scheduler had bound them."""
        gang = self._gangs[name]
        is_ours = gang.active or gang.started or gang.starts_over
        if gang.record is None and is_ours and gang.kind is not GangKind.POD:
            self._gangs[name] = replace(gang, record=recorded(gang))
        return self

    def foreign_members(self, gang: str) -> Self:
        """No member of the gang was bound by the scheduler."""
        return self.change(gang, record=None)

    def role(self, gang: str, count: int, *, min: int | None = None, **fields: Any) -> Self:
        """More members of a gang, of another role; `min` declares the role's own minimum."""
        old = self._gangs[gang]
        name = fields.get("role", "")
        pods = self._pods(gang, count, fields, start=len(old.members))
        assert not fields, fields
        specs = old.roles if min is None else (*old.roles, RoleSpec(name, count, min))
        self._gangs[gang] = replace(old, members=(*old.members, *pods), roles=specs, record=None)
        return self._recorded(gang)

    def pod(self, name: str, **fields: Any) -> Self:
        """A pod without a PodGroup."""
        return self.gang(name, 1, kind=GangKind.POD, **fields)

    def members(self, gang: str) -> tuple[Pod, ...]:
        """The members of a gang."""
        return self._gangs[gang].members

    def change(self, gang: str, **fields: Any) -> Self:
        """Replace fields of a gang or of its spec."""
        old = self._gangs[gang]
        changed = self._gangs[gang] = replace(old, spec=_spec(old.spec, fields), **fields)
        is_same = [pod.uid for pod in changed.members] == [pod.uid for pod in old.members]
        if "record" in fields or not is_same or old.record not in (None, recorded(old)):
            return self
        self._gangs[gang] = replace(changed, record=None)
        return self._recorded(gang)

    def lose(self, gang: str, count: int = 1) -> Self:
        """The last members of a gang fail and are recreated."""
        members = self._gangs[gang].members
        kept, lost = members[:-count], members[-count:]
        fresh = [
            replace(pod, uid=PodUid(f"{pod.uid}-again"), node=None, phase=PodPhase.PENDING) for pod in lost
        ]
        self.capacity_version += 1
        return self.change(gang, members=(*kept, *fresh))

    @property
    def gang_names(self) -> list[str]:
        """All gangs, in the order in which they were added."""
        return list(self._gangs)

    def remove(self, gang: str) -> Self:
        """A gang ends and is gone."""
        del self._gangs[gang]
        self.capacity_version += 1
        return self

    def _pods(self, gang: str, count: int, fields: dict[str, Any], *, start: int = 0) -> list[Pod]:
        """`on`: the nodes of the first members; `bound`: how many first members are on any nodes that fit."""
        shape = _shape(fields)
        on = fields.pop("on", ())
        bound = fields.pop("bound", 0)
        common = {
            "namespace": fields.get("namespace", "team"),
            "shape": shape,
            "scheduler_name": "phalanx",
            "role": fields.pop("role", ""),
            "created": 0,
            "priority": fields.get("priority", 0),
            "gated": fields.pop("gated", False),
            "assumed": fields.pop("assumed", False),
            "controller": fields.pop("controller", CONTROLLER),
            "labels": PodLabels(tuple(sorted(fields.pop("labels", {}).items()))),
            "annotations": tuple(sorted(fields.pop("annotations", {}).items())),
            "claims": tuple(
                MountedClaim(f"{fields.get('namespace', 'team')}/{name}")
                for name in sorted(fields.pop("claims", ()))
            ),
        }
        pods = []
        for index in range(start, start + count):
            place = on[index - start] if index - start < len(on) else None
            if place is None and index - start < bound:
                place = self._first_fit(shape, pods)
            pods.append(
                Pod(
                    uid=PodUid(f"{gang}-{index}"),
                    name=f"{gang}-{index}",
                    index=index,
                    node=None if place is None else NodeName(place),
                    phase=PodPhase.PENDING if place is None else PodPhase.RUNNING,
                    **common,
                )
            )
        return pods

    def _first_fit(self, shape: PodShape, pods: Sequence[Pod]) -> NodeName:
        states = self._states([*self._all_pods(), *pods])
        return next(name for name, state in states.items() if fits(shape.requests, state.free))

    def _all_pods(self) -> list[Pod]:
        return [pod for gang in self._gangs.values() for pod in gang.members]

    def _states(self, pods: Iterable[Pod]) -> dict[NodeName, NodeState]:
        taken = {name: self._foreign[name] for name in self._nodes}
        for pod in pods:
            if pod.node in taken and pod.holds_node:
                taken[pod.node] = add(taken[pod.node], pod_usage(pod))
        states = {}
        for name, node in self._nodes.items():
            total = taken[name]
            states[name] = NodeState(node=node, used=total, free=subtract(node.allocatable, total))
        return states

    def snapshot(self, shuffle: int = 0) -> Snapshot:
        """The scenario as a snapshot, its mappings in an order that depends on `shuffle`."""
        chance = random.Random(shuffle)
        states = self._states(self._all_pods())
        queues: dict[QueueName, dict[NodeName, Resources]] = {}
        for gang in self._gangs.values():
            used = _requested(gang.members)
            mine = queues.setdefault(gang.queue, {})
            for node, amounts in used.items():
                mine[node] = add(mine.get(node, {}), amounts)
        pod_affinity = self._placed_pods_view()
        return Snapshot(
            now=self.now,
            seed=0,
            nodes=_shuffled(states, chance),
            gangs=_shuffled({gang.id: gang for gang in self._gangs.values()}, chance),
            queues=_shuffled(self._queues, chance),
            queue_usage=_shuffled(queues, chance),
            foreign=_shuffled(self._foreign_work, chance),
            nominated=_shuffled(self._nominated, chance),
            namespace_labels=_shuffled({"team": {}, **self._namespaces}, chance),
            topologies=_shuffled(self.topologies, chance),
            supplies={
                ClusterVolumes.supply: ClusterVolumes(claims=_shuffled(self.claims, chance)),
                ClusterDevices.supply: self.devices,
            },
            capacity_version=self.capacity_version,
            cluster_version=self._cluster_version(),
            memory=self.memory,
            pod_affinity_terms=pod_affinity.terms,
            preferred_pod_terms=pod_affinity.preferred_terms,
            placed_pods=pod_affinity.placed_pods,
            foreign_pods=pod_affinity.foreign_pods,
            disruption_budgets=tuple(self._budgets),
        )

    def _cluster_version(self) -> int:
        """It grows with any change of nodes, queues, topologies, namespaces and volumes."""
        parts = (self._nodes, self._queues, self.topologies, self._namespaces, self.claims)
        cluster, version = tuple(dict(part) for part in parts), self._cluster[1]
        if cluster != self._cluster[0]:
            self._cluster = (cluster, version + 1)
        return self._cluster[1]

    def _placed_pods_view(self) -> View:
        pods = [*self._all_pods(), *self._foreign_pods]
        placed_pods = PlacedPodIndex(scheduler_name="phalanx", pods=lambda: pods, gangs_move=self.gangs_move)
        for pod in pods:
            placed_pods.replace(None, pod, ChangeLog())
        return placed_pods.view()

    def decide(self, config: SchedulerConfig | None = None, *, shuffle: int = 1) -> "Decided":
        """Run one cycle."""
        config = config or SchedulerConfig()
        self.gangs_move = ActionName.CONSOLIDATE in config.actions
        if self._engine is None or self._engine.config != config:
            self._engine = Engine(config)
        return Decided(self._engine.decide(self.snapshot(shuffle)))

    def take(self, decided: "Decided") -> Self:
        """Apply a result: bound pods run, evicted pods are recreated, memory is kept."""
        binds = {bind.pod: bind for each in decided.result.placements for bind in each.binds}
        evicted = {each.pod for each in decided.result.evictions}
        for name, gang in self._gangs.items():
            members = tuple(_after(pod, binds, evicted) for pod in gang.members)
            active = [pod for pod in members if pod.counts_for_gang]
            started = gang.started or gang.minimum.has_started_with(active)
            record = decided.result.memory.records.get(gang.id, gang.record)
            self._gangs[name] = replace(gang, members=members, started=started, record=record)
        self.memory = decided.result.memory
        self.capacity_version += 1 if evicted else 0
        return self

    def terminate(self, decided: "Decided") -> Self:
        """Apply the evictions of a result: the pods are being deleted and use capacity; memory is kept."""
        evicted = {each.pod for each in decided.result.evictions}
        for name, gang in self._gangs.items():
            members = tuple(
                replace(pod, deleting=True, ended=self.now // 1000) if pod.uid in evicted else pod
                for pod in gang.members
            )
            self._gangs[name] = replace(gang, members=members)
        self.memory = decided.result.memory
        self.capacity_version += 1
        return self


class Decided:
    """The result of a cycle, with access by the names of gangs."""

    def __init__(self, result: CycleResult) -> None:
        self.result = result

    @property
    def binds(self) -> dict[PodUid, NodeName]:
        """Pods and their nodes."""
        return {bind.pod: bind.node for each in self.result.placements for bind in each.binds}

    def devices(self, gang: str) -> dict[str, int]:
        """The index of the device of each pod of the gang that got a share, by the pod's name."""
        binds = [bind for each in self.placements(gang) for bind in each.binds]
        return {bind.name: bind.device.index for bind in binds if bind.device is not None}

    def placements(self, gang: str) -> list[Placement]:
        """The placements of a gang, in order."""
        return [each for each in self.result.placements if each.gang == f"gang-{gang}"]

    def nodes(self, gang: str) -> list[str]:
        """The nodes of the gang's new binds, sorted."""
        return sorted(bind.node for each in self.placements(gang) for bind in each.binds)

    def where(self, gang: str) -> dict[str, int]:
        """How many pods of the gang are placed on each group of nodes."""
        return dict(sorted(Counter(node.rpartition("-")[0] for node in self.nodes(gang)).items()))

    def placed(self) -> list[str]:
        """Names of the gangs of all placements, in the order in which they were decided."""
        return [each.gang.removeprefix("gang-") for each in self.result.placements]

    def verdict(self, gang: str) -> Verdict:
        """The only verdict of the gang."""
        (found,) = [each for each in self.result.verdicts if each.gang == f"gang-{gang}"]
        return found

    def reasons(self) -> dict[str, Reason]:
        """The reasons of all verdicts by gang."""
        return {each.gang.removeprefix("gang-"): each.reason for each in self.result.verdicts}

    def evicted(self) -> list[str]:
        """Names of evicted pods."""
        return [each.name for each in self.result.evictions]


_SPEC_FIELDS = (
    "traffic",
    "topology",
    "recovery",
    "disruption",
    "runtime",
    "priority_class_name",
    "hold",
    "preemption_delay",
)


def demands_of(
    gang: Gang, can_run: Callable[[Pod], bool] = lambda pod: True
) -> tuple[Demand, ...] | Objection:
    """What the gang demands, by its record."""
    record = gang.record or NO_RECORD
    known = review(gang, record, SeenMembers(), now=0, is_elsewhere=lambda uid: False)
    return gang_demands.demands_of(gang, known, can_run)


def as_bound(gang: Gang) -> GangRecord:
    """The record of a gang whose members with nodes the scheduler has bound."""
    bound = {kind: len(uids) for kind, uids in gang.placed_uids}
    return GangRecord(queued_since=gang.complete_since, placed=placed_members(bound, {}))


def recorded(gang: Gang) -> GangRecord:
    """The record of a gang all of whose members the scheduler has bound."""
    bound = Counter(record_kinds(gang.members).values())
    return GangRecord(queued_since=gang.complete_since, placed=placed_members(bound, {}))


def _spec(spec: PodGroupSpec, fields: dict[str, Any]) -> PodGroupSpec:
    """Return the spec with the fields that belong to it, and remove them from `fields`; `start_by` in ms."""
    changed = {name: fields.pop(name) for name in _SPEC_FIELDS if name in fields}
    if "reserves" in fields:
        changed["start_when"] = RESERVED if fields.pop("reserves") else None
    if "min_subgroups" in fields:
        changed["min_sub_groups"] = fields.pop("min_subgroups") or None
    if "start_by" in fields:
        at = fields.pop("start_by")
        changed["start_by"] = None if at is None else datetime.fromtimestamp(at // 1000, UTC).isoformat()
    return replace(spec, **changed)


def term(key: str = "kubernetes.io/hostname", namespace: str = "team", **labels: str) -> AffinityTerm:
    """An affinity term: pods of the namespace with these labels, and the topology key."""
    requirements = tuple(Requirement(name, "In", (value,)) for name, value in sorted(labels.items()))
    return AffinityTerm(key, Term(requirements), (namespace,))


def _shape(fields: dict[str, Any]) -> PodShape:
    amounts = {
        GPU: fields.pop("gpu", 0),
        CPU: round(fields.pop("cpu", 1) * 1000),
        MEMORY: fields.pop("memory", 1) * GI,
        PODS: 1,
        GPU_SHARE: fields.pop("share", 0),
        GPU_MEMORY: fields.pop("gpu_memory", 0) * GI,
    }
    parts: dict[str, Any] = {
        "requests": {key: value for key, value in amounts.items() if value},
        "node_selector": tuple(sorted(fields.pop("selector", {}).items())),
        "required_affinity": tuple(fields.pop("affinity", ())),
        "preferred_affinity": tuple(fields.pop("prefers", ())),
        "tolerations": tuple(fields.pop("tolerations", ())),
        "affinity": tuple(sorted(fields.pop("near", ()), key=repr)),
        "anti_affinity": tuple(sorted(fields.pop("apart", ()), key=repr)),
        "spread": tuple(sorted(fields.pop("spread", ()), key=repr)),
        "preferred_spread": tuple(sorted(fields.pop("spread_anyway", ()), key=repr)),
        "preferred_pod_terms": tuple(
            WeightedPodTerm(weight, each) for weight, each in sorted(fields.pop("attracted", ()), key=repr)
        ),
        "numa": aligned(*containers) if (containers := fields.pop("containers", ())) else "",
        "supplied": tuple(sorted(Ports().used(fields.pop("ports", ())).items())),
    }
    key = hashlib.blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()
    return PodShape(key=ShapeKey(key), **parts)


def _requested(pods: Iterable[Pod]) -> dict[NodeName, Resources]:
    """The requests of these pods by node."""
    asked: dict[NodeName, Resources] = {}
    for pod in pods:
        if pod.node is not None and pod.holds_node:
            asked[pod.node] = add(asked.get(pod.node, {}), pod.shape.requests)
    return asked


def aligned(*containers: Resources) -> str:
    """The key of what a kubelet aligns of a pod with these containers."""
    whole: Resources = {}
    for each in containers:
        whole = add(whole, each)
    counts = Counter(tuple(sorted(each.items())) for each in containers)
    return numa_resource(NumaRequest(tuple(sorted(whole.items())), tuple(sorted(counts.items()))))


def numa(*zones: Resources, free: Sequence[Resources] | None = None, by_container: bool = False) -> Numa:
    """The zones of a single-numa-node kubelet; `free`: what each zone publishes as available, default all."""
    names = {name for zone in zones for name in zone}
    layout = ZoneLayout(
        zones=tuple(tuple(sorted(zone.items())) for zone in zones),
        bound=tuple((name, AMOUNT_MAX) for name in sorted(names)),
        by_container=by_container,
    )
    used: Resources = {}
    for zone, left in zip(zones, free or zones, strict=True):
        used = add(used, subtract(zone, left))
    return Numa(layout, tuple(tuple(sorted(zone.items())) for zone in free or zones), tuple(used.items()))


def _shuffled(mapping: Mapping[K, V], chance: random.Random) -> dict[K, V]:
    items = list(mapping.items())
    chance.shuffle(items)
    return dict(items)


def _after(pod: Pod, binds: Mapping[PodUid, Bind], evicted: set[PodUid]) -> Pod:
    if pod.uid in evicted:
        return replace(pod, uid=PodUid(f"{pod.uid}-again"), node=None, phase=PodPhase.PENDING)
    if pod.uid in binds:
        bind = binds[pod.uid]
        return replace(pod, node=bind.node, device=bind.device, phase=PodPhase.RUNNING)
    return pod
