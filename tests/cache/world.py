"""Hypothesis strategies for objects and histories of events, and a plain model of the API state."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from msgspec import structs
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, AwaitsDevices, Deleted, Event, Forgotten, Relisted
from phalanx.model.api.kinds import kind_name
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.api.volcano import VolcanoPodGroup
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import BindBackoff, Device
from phalanx.model.reasons import Reason
from phalanx.model.records import GangRecord
from phalanx.model.snapshot import Snapshot
from phalanx.model.stored_records import RecordDocument, Records
from phalanx.model.workloads.known import WORKLOADS

from tests.assumed import assumed
from tests.model.written import (
    JOB_SET_VERSION,
    claim,
    composite_pod_group,
    controlled_by,
    job,
    job_set,
    label,
    named,
    native_pod_group,
    node,
    other_pod_group,
    pod,
    pod_group,
    replicated_job,
    written,
)
from tests.node_topologies import node_topology

SCHEDULER = "phalanx"
Key = tuple[str, str, str]
"""Kind, namespace, name."""


def config_map_data(records: Records) -> Mapping[str, str]:
    """The data of the ConfigMap with these records."""
    return RecordDocument(1000, {"team": records}).data()


def key_of(item: KubeObject) -> Key:
    return (kind_name(item), item.metadata.namespace, item.metadata.name)


def take_snapshot(cache: Cache) -> Snapshot:
    return cache.snapshot(now=7, seed=3, memory=Memory())


def new_cache(*objects: KubeObject) -> Cache:
    """A cache with these objects that knows that there are no other workloads."""
    cache = Cache(scheduler_name=SCHEDULER, gangs_move=True)
    cache.apply_all(Relisted(kind, ()) for kind in WORKLOADS)
    cache.apply_all(Applied(item) for item in objects)
    return cache


def gangs_of(cache: Cache) -> dict[str, Gang]:
    """The gangs of a cache by ID."""
    return {str(key): gang for key, gang in take_snapshot(cache).gangs.items()}


def only_gang(*objects: KubeObject) -> Gang:
    """The only gang of these objects."""
    (gang,) = gangs_of(new_cache(*objects)).values()
    return gang


def reasons_of(gang: Gang) -> list[Reason]:
    """The reasons of the problems of a gang."""
    return [problem.reason for problem in gang.problems]


def encoded(snapshot: Snapshot) -> bytes:
    """Encode a snapshot without the fields that depend on history: version, start state of gangs."""
    history = {"started": False, "starts_over": False}
    gangs = {key: structs.replace(gang, **history) for key, gang in snapshot.gangs.items()}
    versions: dict[str, Any] = {"capacity_version": 0, "cluster_version": 0, "supply_versions": {}}
    return msgspec.msgpack.encode(structs.replace(snapshot, gangs=gangs, **versions))


class ApiState:
    """The objects of the API and our assumptions in plain dictionaries, to rebuild a cache from them."""

    def __init__(self) -> None:
        self.objects: dict[Key, KubeObject] = {}
        self.assumed: dict[PodUid, Assumed] = {}
        self.awaiting: set[PodUid] = set()
        self.bind_backoffs: dict[PodUid, BindBackoff] = {}

    def apply(self, event: Event) -> None:
        match event:
            case Applied(object=item):
                self.objects[key_of(item)] = item
            case Deleted(kind=kind, namespace=namespace, name=name, uid=uid):
                found = self.objects.get((kind, namespace, name))
                if found is not None and uid in ("", found.metadata.uid):
                    del self.objects[kind, namespace, name]
            case Relisted(kind=kind, objects=listed):
                self.objects = {key: item for key, item in self.objects.items() if key[0] != kind}
                self.objects.update({key_of(item): item for item in listed})
            case Assumed(bind=bind):
                self.assumed[bind.pod] = event
            case AwaitsDevices(pod=uid, is_so=is_so):
                (self.awaiting.add if is_so else self.awaiting.discard)(uid)
            case Forgotten(pod=uid, bind_backoff=bind_backoff):
                if self.assumed.pop(uid, None) is not None and bind_backoff is not None:
                    self.bind_backoffs[uid] = bind_backoff
        self.assumed = {uid: self.assumed[uid] for uid in self.waiting() if uid in self.assumed}
        self.awaiting &= self.assumed.keys()
        self.bind_backoffs = {
            uid: self.bind_backoffs[uid] for uid in self.without_node() if uid in self.bind_backoffs
        }

    def pods(self) -> list[Any]:
        return [item for key, item in self.objects.items() if key[0] == "Pod"]

    def without_node(self) -> list[PodUid]:
        return [PodUid(item.metadata.uid) for item in self.pods() if not item.spec.node_name]

    def waiting(self) -> list[PodUid]:
        """The pods that have no node and have not ended."""
        ended = {item.metadata.uid for item in self.pods() if item.status.phase in ("Succeeded", "Failed")}
        return [uid for uid in self.without_node() if uid not in ended]

    def rebuild(self, order: Callable[[list[KubeObject]], None]) -> Cache:
        """A cache to which every object is applied once, in this order, and then our assumptions.

        A bind back-off survives the end of its pod, but an ended pod cannot be assumed: it is applied as
        waiting first.
        """
        items = list(self.objects.values())
        order(items)
        cache = new_cache(
            *(_waiting(item) if item.metadata.uid in self.bind_backoffs else item for item in items)
        )
        for uid, bind_backoff in self.bind_backoffs.items():
            cache.apply_all([assumed(uid, NodeName("n1")), Forgotten(uid, bind_backoff)])
        cache.apply_all(Applied(item) for item in items)
        cache.apply_all(self.assumed.values())
        cache.apply_all(AwaitsDevices(uid, is_so=True) for uid in self.awaiting)
        return cache


def _waiting(item: Any) -> KubeObject:
    return cast(KubeObject, structs.replace(item, status=structs.replace(item.status, phase="Pending")))


# --- strategies ---------------------------------------------------------------------------------------------


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def mapping(**choices: tuple[Any, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping of each key to one of its values; None means that the key is absent."""
    drawn = st.fixed_dictionaries({key: one_of(*values) for key, values in choices.items()})
    return drawn.map(lambda found: {key: value for key, value in found.items() if value is not None})


def pod_labels(drawn: Mapping[str, str]) -> dict[str, str]:
    return {label(name.replace("_", "-")): value for name, value in drawn.items()}


NAMESPACES = ("team", "other")
NODES = ("n1", "n2", "n3")
GENERATIONS = ("1", "2")
SHARES = tuple(
    {f"scheduling.phalanx.dev/gpu-{name}": value for name, value in each.items()}
    for each in (
        {"share": "500", "index": "0"},
        {"share": "500", "index": "7"},
        {"share": "250"},
        {"share": "x", "index": "-1"},
        {"memory": "20Gi", "index": "1", "taken": "250"},
        {"memory": "20Gi", "index": "1"},
    )
)
OF_VOLCANO = tuple(
    {"scheduling.k8s.io/group-name": "g1", "volcano.sh/task-spec": task} for task in ("ps", "worker")
)
OF_YUNIKORN = tuple(
    {"yunikorn.apache.org/app-id": "app", **annotations}
    for annotations in (
        {"yunikorn.apache.org/task-groups": '[{"name": "a", "minMember": 2, "minResource": {"cpu": 1}}]'},
        {
            "yunikorn.apache.org/task-groups": '[{"name": "b", "minMember": 1, "minResource": {}}]',
            "yunikorn.apache.org/task-group-name": "b",
            "yunikorn.apache.org/queue": "root.q1",
        },
        {"yunikorn.apache.org/task-groups": "[]", "yunikorn.apache.org/allow-preemption": "false"},
        {"yunikorn.apache.org/task-group-name": "a"},
        {},
        {},
    )
)
CHARGED = tuple({"scheduling.phalanx.dev/charged-queue": queue} for queue in ("q1", "q2", "gone"))
SELECTORS = tuple({"matchLabels": {"team": team}} for team in ("a", "b"))
SHARING = {"scheduling.phalanx.dev/gpu-sharing": "true", "nvidia.com/gpu.memory": "40960"}
GPUS = {"nvidia.com/gpu": "2"}
DEVICES = (None, Device(0, 500), Device(1, 250))


def owner_of_kind(owner: str, api_version: str | None) -> dict[str, Any]:
    """Metadata with the Job as the controller, if the version of its API is given."""
    if not owner or api_version is None:
        return {}
    return controlled_by(f"job-{owner}", api_version=api_version, uid=owner)


pods = st.builds(
    lambda name, namespace, generation, labels, owner, api_version, meta, spec, status: pod(
        name,
        namespace=namespace,
        uid=f"{namespace}-{name}-{generation}",
        labels=pod_labels(labels),
        owner=owner,
        meta={**meta, **owner_of_kind(owner, api_version)},
        status=status,
        **spec,
    ),
    one_of("p1", "p2", "p3", "p4"),
    one_of(*NAMESPACES),
    one_of(*GENERATIONS),
    mapping(
        pod_group=(None, None, "g1", "g2"),
        min_member=(None, None, None, "1", "2", "x"),
        queue=(None, None, "q1", "q2"),
        role=(None, "worker"),
    ),
    one_of("", "j1", "j2"),
    one_of(None, "batch/v1", "batch/v1"),
    mapping(
        deletionTimestamp=(None, None, "2026-01-01T00:00:00Z"),
        creationTimestamp=(None, "2026-01-01T00:00:00Z"),
        annotations=(None, None, *SHARES, *CHARGED, *OF_VOLCANO, *OF_VOLCANO, *OF_YUNIKORN),
    ),
    mapping(
        schedulerName=(SCHEDULER, SCHEDULER, "other"),
        nodeName=(None, None, *NODES),
        priority=(0, 0, 1, None),
        priorityClassName=(None, "c1"),
        requests=({"cpu": "1"}, {"cpu": "2", "nvidia.com/gpu": "1"}, {"memory": "?"}),
        schedulingGates=((), [{"name": "hold"}]),
        resourceClaims=((), (), [{"name": "gpu"}]),
        schedulingGroup=(None, None, None, {"podGroupName": "g1"}, {"podGroupName": "g2"}),
    ),
    mapping(phase=(None, "Pending", "Running", "Succeeded", "Failed")),
)

nodes = st.builds(
    lambda name, generation, labels, spec, allocatable: node(
        name, uid=f"{name}-{generation}", labels=labels, spec=spec, status={"allocatable": allocatable}
    ),
    one_of(*NODES),
    one_of(*GENERATIONS),
    one_of(
        {},
        {"kubernetes.io/hostname": "h"},
        {"topology.kubernetes.io/zone": "z"},
        {**SHARING, "nvidia.com/gpu.count": "2"},
        {**SHARING, "nvidia.com/gpu.count": "x"},
    ),
    mapping(unschedulable=(None, True), taints=(None, [{"key": "k", "effect": "NoSchedule"}])),
    one_of({"cpu": "8", "pods": "9"}, {"cpu": "4"}, {"nvidia.com/gpu": "x"}),
)

pod_groups = st.builds(
    lambda name, generation, owner, spec: pod_group(name, uid=f"{name}-{generation}", owner=owner, **spec),
    one_of("g1", "g2"),
    one_of(*GENERATIONS),
    one_of("", "", "j1"),
    mapping(
        minMember=(1, 2, 3),
        queue=(None, "q1"),
        priorityClassName=(None, "c1"),
        startBy=(None, None, "2026-01-01T00:00:00Z"),
        roles=(None, None, [{"name": "worker", "count": 3}]),
        startWhen=(None, None, "Reserved"),
        disruption=(None, None, {"minRuntime": "20m"}),
    ),
)

native_pod_groups = st.builds(
    lambda name, generation, spec, meta: native_pod_group(
        name, uid=f"{name}-native-{generation}", meta=meta, **spec
    ),
    one_of("g1", "g1", "g2"),
    one_of(*GENERATIONS),
    mapping(
        schedulingPolicy=(None, {"basic": {}}, {"gang": {"minCount": 2}}),
        priorityClassName=(None, "c1"),
        disruptionMode=(None, {"all": {}}),
        parentCompositePodGroupName=(None, "k1", "k1", "k2", "g1"),
    ),
    one_of({}, {"labels": {label("queue"): "q1"}}),
)

composite_pod_groups = st.builds(
    lambda name, generation, parent, spec, meta: composite_pod_group(
        name, uid=f"{name}-composite-{generation}", parent=parent, meta=meta, **spec
    ),
    one_of("k1", "k1", "k2", "k3", "k4", "g1"),
    one_of(*GENERATIONS),
    one_of("", "", "", "k1", "k2", "k3", "k4"),
    mapping(
        schedulingPolicy=({"basic": {}}, {"gang": {"minGroupCount": 1}}, {"gang": {"minGroupCount": 2}}),
        priorityClassName=(None, None, "c1"),
        disruptionMode=(None, {"all": {}}),
        schedulingConstraints=(None, {"topology": [{"key": "rack"}]}),
    ),
    one_of({}, {}, {"labels": {label("queue"): "q1"}}),
)
"""Of one name with a PodGroup, and in circles."""

volcano_pod_groups = st.builds(
    lambda generation, spec, status: other_pod_group(
        VolcanoPodGroup, "g1", uid=f"g1-volcano-{generation}", status=status, **spec
    ),
    one_of(*GENERATIONS),
    mapping(
        minMember=(None, 1, 2),
        minTaskMember=(None, {"ps": 1}, {"ps": 1, "worker": 1}),
        queue=(None, "q1", "default"),
        minResources=(None, {"cpu": "3"}),
        networkTopology=(None, {"mode": "hard", "highestTierAllowed": 1}),
        subGroupPolicy=(None, [{"name": "p", "matchLabelKeys": [label("role")], "minSubGroups": 1}]),
    ),
    mapping(phase=(None, "Pending", "Inqueue", "Running")),
)

hyper_nodes = st.builds(
    lambda name, tier, members: named("HyperNode", name, spec={"tier": tier, "members": members}),
    one_of("h1", "h2"),
    one_of(1, 2, 99),
    st.lists(
        one_of(
            {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
            {"type": "Node", "selector": {"regexMatch": {"pattern": "n[12]"}}},
            {
                "type": "Node",
                "selector": {"labelMatch": {"matchLabels": {"topology.kubernetes.io/zone": "z"}}},
            },
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "h1"}}},
        ),
        max_size=2,
    ),
)

jobs = st.builds(
    lambda name, generation, namespace, owner, spec: job(
        f"job-{name}",
        uid=f"{'' if namespace == 'team' else namespace}{name}{'' if generation == '1' else '-new'}",
        namespace=namespace,
        owner=owner,
        **spec,
    ),
    one_of("j1", "j2"),
    one_of("1", "1", "2"),
    one_of("team", "team", "other"),
    one_of(None, {"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}),
    mapping(
        parallelism=(1, 2, 3),
        completions=(None, 2),
        suspend=(None, True),
        status=(None, {"succeeded": 1}, {"failedIndexes": "1"}),
        meta=(None, {"labels": {label("queue"): "q1"}}),
    ),
)

job_sets = st.builds(
    lambda namespace, roles, owner: job_set(
        "js",
        *roles,
        uid="uid-js" if namespace == "team" else f"{namespace}-js",
        namespace=namespace,
        owner=owner,
    ),
    one_of(*NAMESPACES),
    one_of((), (replicated_job("a", replicas=2),), (replicated_job("a", pods=2), replicated_job("b"))),
    one_of(None, None, {"name": "job-j1", "uid": "j1"}),
)

queues = st.builds(
    lambda name, spec: named("Queue", name, spec=spec),
    one_of("q1", "q2", "default"),
    mapping(
        parent=(None, None, "q1", "q2", "gone"),
        weight=(None, 2),
        namespaceSelector=(None, None, *SELECTORS),
        maxPodGroupPriority=(None, None, 1),
        disruption=(None, None, {"maxMinRuntime": "5m"}),
    ),
)

namespaces = st.builds(
    lambda name, labels, team: named("Namespace", name, labels={**pod_labels(labels), "team": team}),
    one_of(*NAMESPACES),
    mapping(queue=(None, "q1", "q2")),
    one_of("a", "b"),
)

others = st.one_of(
    st.builds(
        lambda value: named("PriorityClass", "c1", value=value, globalDefault=value == 3), one_of(1, 2, 3)
    ),
    st.builds(
        lambda name, level: named("Topology", name, spec={"levels": [{"name": level, "nodeLabel": level}]}),
        one_of("t1", "default"),
        one_of("rack", "zone"),
    ),
    st.builds(
        lambda name, volume, storage_class, is_bound: claim(
            name, volume=volume, storage_class=storage_class, is_bound=is_bound
        ),
        one_of("c1", "c2"),
        one_of("", "v1"),
        one_of(None, "s1"),
        st.booleans(),
    ),
    st.builds(
        lambda zone, claim: named(
            "PersistentVolume",
            "v1",
            labels={"topology.kubernetes.io/zone": zone} if zone else {},
            spec={"claimRef": {"namespace": "team", "name": claim}} if claim else {},
        ),
        one_of("", "a"),
        one_of("", "c1"),
    ),
    st.builds(
        lambda mode: named("StorageClass", "s1", volumeBindingMode=mode),
        one_of("Immediate", "WaitForFirstConsumer"),
    ),
    st.builds(
        lambda name, policy, left: written(
            NodeResourceTopology, node_topology(name, GPUS, policy=policy, available=[left])
        ),
        one_of(*NODES),
        one_of("single-numa-node", "none", "?"),
        one_of({}, {"nvidia.com/gpu": "1"}),
    ),
    st.just(named("PodDisruptionBudget", "b1", namespace="team")),
    st.builds(
        lambda gang, bound: named(
            "ConfigMap",
            "phalanx-records",
            namespace="team",
            data=config_map_data({GangId(gang): GangRecord(bound)}),
        ),
        one_of("team/j1", "Job.batch:team/j1", "g1-1", "gone"),
        one_of(1, 2),
    ),
)


def evenly(strategies: list[st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Draw from each strategy equally often; `one_of` would flatten nested alternatives."""
    return st.integers(0, len(strategies) - 1).flatmap(lambda number: strategies[number])


objects = evenly(
    [
        *(pods, pods, pods, nodes),
        evenly([pod_groups, native_pod_groups, composite_pod_groups, volcano_pod_groups, jobs, job_sets]),
        evenly([queues, namespaces]),
        evenly([others, others, hyper_nodes]),
    ]
)


bind_backoffs = st.one_of(
    st.none(), st.builds(BindBackoff, st.integers(1, 3), st.integers(1, 3), st.just("node full"))
)


RECREATED = {
    "Node": nodes,
    "PodGroup": pod_groups,
    "NativePodGroup": native_pod_groups,
    "CompositePodGroup": composite_pod_groups,
    "VolcanoPodGroup": volcano_pod_groups,
}
REWRITTEN = {"Queue": queues, "Namespace": namespaces, "HyperNode": hyper_nodes, "Job.batch": jobs}


def changed(item: Any) -> st.SearchStrategy[Any]:
    """The same object with other content; nodes and PodGroups may also be recreated with another UID."""
    kind = kind_name(item)
    if kind == "Pod":
        return pods.map(lambda other: _named_like(item, other, uid=item.metadata.uid))
    if kind in REWRITTEN:
        return REWRITTEN[kind].map(lambda other: _named_like(item, other, uid=item.metadata.uid))
    if kind not in RECREATED:
        return st.just(item)
    return RECREATED[kind].map(lambda other: _named_like(item, other, uid=_uid_of(item, other)))


def bound_or_ended(item: Any) -> st.SearchStrategy[Any]:
    """The same pod, bound to a node or failed, so that an assumption is confirmed or removed."""
    on_nodes = [structs.replace(item, spec=structs.replace(item.spec, node_name=name)) for name in NODES]
    ended = structs.replace(item, status=structs.replace(item.status, phase="Failed"))
    return one_of(*on_nodes, ended)


def _named_like(item: Any, other: Any, *, uid: str) -> Any:
    meta = structs.replace(
        other.metadata, name=item.metadata.name, namespace=item.metadata.namespace, uid=uid
    )
    return structs.replace(other, metadata=meta)


def _uid_of(item: Any, other: Any) -> str:
    """A UID of the item with the generation of the other, so that UIDs are unique."""
    return f"{item.metadata.uid.rpartition('-')[0]}-{other.metadata.uid.rpartition('-')[2]}"


def deletion(item: KubeObject) -> st.SearchStrategy[Event]:
    kind, namespace, name = key_of(item)
    uids = one_of("", item.metadata.uid, item.metadata.uid, "of another")
    return st.builds(Deleted, st.just(kind), st.just(namespace), st.just(name), uids)


@st.composite
def relisting(draw: st.DrawFn, api: ApiState) -> Event:
    """A list of one kind: some of the existing objects and a new one."""
    new = draw(objects)
    kind = kind_name(new)
    existing = [item for key, item in api.objects.items() if key[0] == kind and draw(st.booleans())]
    return Relisted(kind, tuple({key_of(item): item for item in (*existing, new)}.values()))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A history of events, most of them for existing objects, so that they interact."""
    api, history = ApiState(), []
    for _ in range(draw(st.integers(1, 30))):
        history.append(draw(_next_event(api)))
        api.apply(history[-1])
    return history


def _next_event(api: ApiState) -> st.SearchStrategy[Event]:
    choices: list[st.SearchStrategy[Event]] = [objects.map(Applied), objects.map(Applied), relisting(api)]
    if api.objects:
        existing = one_of(*api.objects.values())
        choices += [existing.flatmap(changed).map(Applied)] * 2
        choices.append(existing.flatmap(deletion))
    if api.waiting():
        choices += [st.builds(assumed, one_of(*api.waiting()), one_of(*NODES), device=one_of(*DEVICES))] * 3
    if api.assumed:
        choices.append(st.builds(Forgotten, one_of(*api.assumed), bind_backoffs))
        choices.append(st.builds(AwaitsDevices, one_of(*api.assumed), st.booleans()))
        choices.append(one_of(*api.pods()).flatmap(bound_or_ended).map(Applied))
    if api.pods():
        uid = PodUid(api.pods()[0].metadata.uid)
        choices += [st.just(assumed(uid, NodeName("n1"))), st.just(Forgotten(uid))]
    return evenly(choices)
