"""Small clusters as plain data, their manifests, and what a user may read off them.

Written from docs/ alone. Nothing of `phalanx` is imported here: these definitions check those of the product.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

CPU: Final = "cpu"
GPU: Final = "nvidia.com/gpu"
PODS: Final = "pods"
SHARE: Final = "scheduling.phalanx.dev/gpu-share"
GROUP: Final = "scheduling.phalanx.dev"
NAMESPACE: Final = "team"
TIME: Final = "2026-01-01T00:00:00Z"
"""When everything that runs has started. No time passes."""

Amounts = Mapping[str, int]


class Node(Struct, frozen=True):
    """A node. Cores are counted in thousandths."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    soft_taints: tuple[str, ...] = ()
    hard_taints: tuple[str, ...] = ()
    shared_gpus: int = 0
    """GPUs of which pods get shares."""
    place_unknown: bool = False


class Kind(Struct, frozen=True):
    """All that decides where a pod may run and what it takes."""

    requests: tuple[tuple[str, int], ...] = ()
    share: int = 0
    """Thousandths of one GPU."""
    selector: tuple[tuple[str, str], ...] = ()
    preferred: tuple[tuple[int, str, str], ...] = ()
    """Weight, label and value of preferred node affinity terms."""
    tolerated: tuple[str, ...] = ()
    apart: str = ""
    """Label: no other pod of the gang is on a node with the same value."""
    together: str = ""
    """Label: all pods of the gang, which all state this, are on nodes with the same value."""
    draws: tuple[tuple[int, str], ...] = ()
    """Weight and label of preferred affinity to the pods of the gang; a negative weight is anti-affinity."""
    subgroup: str = ""
    role: str = ""


class Pod(Struct, frozen=True):
    """A pod. Without a gang it belongs to another scheduler."""

    name: str
    kind: Kind
    gang: str = ""
    node: str = ""
    device: int = 0
    """The GPU of a share that already has a node."""
    exists: bool = True
    """False for a member that is created when the gang has started."""
    finished: bool = False
    """Whether it has succeeded: it counts for its gang and holds nothing."""


class Subgroup(Struct, frozen=True):
    """A subgroup of a gang; empty strings and zeros stand for what is not set."""

    name: str
    parent: str = ""
    required: str = ""
    preferred: str = ""
    segment: int = 0
    minimum: int = 1
    topology: str = ""
    """The Topology that its levels are of; empty for that of the gang."""


class Role(Struct, frozen=True):
    """A role of a gang."""

    name: str
    count: int
    minimum: int
    requests: tuple[tuple[str, int], ...] = ()
    """Of members that do not exist yet."""


class Flow(Struct, frozen=True):
    """What each member of a role sends to each other member of a role."""

    sender: str
    receiver: str
    weight: int


class Gang(Struct, frozen=True):
    """A PodGroup."""

    name: str
    min_member: int
    required: str = ""
    preferred: str = ""
    subgroups: tuple[Subgroup, ...] = ()
    roles: tuple[Role, ...] = ()
    started: bool = False
    min_subgroups: int = 0
    reserves: bool = False
    priority: int = 0
    traffic: tuple[Flow, ...] = ()


class Flavor(Struct, frozen=True):
    """A limit of the queue on the nodes with a label."""

    name: str
    label: str
    value: str
    limit: Mapping[str, int]


class Case(Struct, frozen=True):
    """A cluster and its gangs, which all are in one queue."""

    levels: tuple[tuple[str, str], ...]
    """Name and node label of each level, the widest first."""
    nodes: tuple[Node, ...]
    gangs: tuple[Gang, ...]
    pods: tuple[Pod, ...]
    limit: Mapping[str, int] = {}
    """The limit of the queue."""
    flavors: tuple[Flavor, ...] = ()
    objective: str = ""
    admission: str = ""
    others: Mapping[str, tuple[tuple[str, str], ...]] = {}
    """The levels of further Topologies by name."""


def manifests(case: Case) -> dict[str, Any]:
    """The case as a Kubernetes List."""
    trees = {"default": case.levels, **case.others} if case.levels else case.others
    items = [_topology(name, levels) for name, levels in trees.items()]
    items.append(_queue(case))
    items += [
        _item("scheduling.k8s.io/v1", "PriorityClass", f"priority-{value}", value=value)
        for value in sorted({gang.priority for gang in case.gangs} - {0})
    ]
    items += map(_node, case.nodes)
    items += map(_pod_group, case.gangs)
    classes = {gang.name: _priority_class(gang) for gang in case.gangs}
    items += [_pod(pod, classes.get(pod.gang, {})) for pod in case.pods if pod.exists]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _topology(name: str, levels: Iterable[tuple[str, str]]) -> dict[str, Any]:
    written = [{"name": level, "nodeLabel": label} for level, label in levels]
    return _item(f"{GROUP}/v1alpha1", "Topology", name, spec={"levels": written})


def _item(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _queue(case: Case) -> dict[str, Any]:
    spec: dict[str, Any] = {"limit": _quantities(case.limit)} if case.limit else {}
    spec |= {"objective": case.objective} if case.objective else {}
    spec |= {"admission": case.admission} if case.admission else {}
    if case.flavors:
        spec["flavors"] = [
            {"name": one.name, "nodeSelector": {one.label: one.value}, "limit": _quantities(one.limit)}
            for one in case.flavors
        ]
    return _item(f"{GROUP}/v1alpha1", "Queue", "default", spec=spec)


def _node(node: Node) -> dict[str, Any]:
    labels = dict(node.labels)
    if node.shared_gpus:
        labels |= {f"{GROUP}/gpu-sharing": "true", "nvidia.com/gpu.count": str(node.shared_gpus)}
    taints = [{"key": key, "effect": "PreferNoSchedule"} for key in node.soft_taints]
    taints += [{"key": key, "effect": "NoSchedule"} for key in node.hard_taints]
    status: dict[str, Any] = {"allocatable": _quantities(node.allocatable)}
    if node.place_unknown:
        status["conditions"] = [{"type": "NodeNotInNWTopologyCM", "status": "True"}]
    found = _item("v1", "Node", node.name, spec={"taints": taints}, status=status)
    found["metadata"]["labels"] = labels
    return found


def _pod_group(gang: Gang) -> dict[str, Any]:
    spec: dict[str, Any] = {"minMember": gang.min_member}
    topology = _set(required=gang.required, preferred=gang.preferred)
    spec |= {"topology": topology} if topology else {}
    if gang.subgroups:
        spec["subGroups"] = [_subgroup(one) for one in gang.subgroups]
    if gang.roles:
        spec["roles"] = [_role(one) for one in gang.roles]
    if gang.traffic:
        spec["traffic"] = [
            {"from": one.sender, "to": one.receiver, "weight": one.weight} for one in gang.traffic
        ]
    spec |= _priority_class(gang)
    spec |= {"minSubGroups": gang.min_subgroups} if gang.min_subgroups else {}
    spec |= {"startWhen": "Reserved"} if gang.reserves else {}
    found = _item(f"{GROUP}/v1alpha1", "PodGroup", gang.name, spec=spec)
    found["metadata"]["namespace"] = NAMESPACE
    if gang.started:
        found["status"] = {"startedAt": TIME}
    return found


def _priority_class(gang: Gang) -> dict[str, Any]:
    """Of the gang and of its pods, since a gang has at most the priority of its pods."""
    return {"priorityClassName": f"priority-{gang.priority}"} if gang.priority else {}


def _role(one: Role) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.name, "count": one.count, "minMember": one.minimum}
    return found | ({"requests": _quantities(dict(one.requests))} if one.requests else {})


def _subgroup(one: Subgroup) -> dict[str, Any]:
    topology = _set(required=one.required, preferred=one.preferred)
    topology |= _set(name=one.topology) if topology else {}
    found: dict[str, Any] = {"name": one.name, "minMember": one.minimum, **_set(parent=one.parent)}
    found |= {"topology": topology} if topology else {}
    return found | ({"segmentSize": one.segment} if one.segment else {})


def _set(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _pod(pod: Pod, priority_class: dict[str, Any]) -> dict[str, Any]:
    kind = pod.kind
    spec: dict[str, Any] = {
        **priority_class,
        "schedulerName": "other" if pod.node and not pod.gang else "phalanx",
        "containers": [{"name": "main", "resources": {"limits": _quantities(dict(kind.requests))}}],
        "tolerations": [{"key": key, "operator": "Exists"} for key in kind.tolerated],
        "nodeSelector": dict(kind.selector),
        "affinity": _affinity(pod),
        **_set(nodeName=pod.node),
    }
    metadata: dict[str, Any] = {"name": pod.name, "namespace": NAMESPACE, "labels": _labels(pod)}
    if kind.share:
        metadata["annotations"] = {f"{GROUP}/gpu-share": str(kind.share)}
        if pod.node:
            taken = {f"{GROUP}/gpu-index": str(pod.device), f"{GROUP}/gpu-taken": str(kind.share)}
            metadata["annotations"] |= taken
    if pod.gang and pod.node:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": pod.gang, "controller": True}
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **_status(pod)}


def _status(pod: Pod) -> dict[str, Any]:
    if pod.finished or not pod.node:
        return {"status": {"phase": "Succeeded"}} if pod.finished else {}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": TIME}
    return {"status": {"phase": "Running", "startTime": TIME, "conditions": [ready]}}


def _labels(pod: Pod) -> dict[str, str]:
    labels = {"pod-group": pod.gang, "subgroup": pod.kind.subgroup, "role": pod.kind.role}
    found = {f"{GROUP}/{name}": value for name, value in labels.items() if value}
    return {**found, "gang": pod.gang or "none"}


def _affinity(pod: Pod) -> dict[str, Any]:
    kind, found = pod.kind, dict[str, Any]()
    if kind.preferred:
        terms = [
            {
                "weight": weight,
                "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
            }
            for weight, key, value in kind.preferred
        ]
        found["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    for name, label in (("podAntiAffinity", kind.apart), ("podAffinity", kind.together)):
        if label:
            selector = {"matchLabels": {"gang": pod.gang}}
            term = {"topologyKey": label, "labelSelector": selector}
            found[name] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    for name, sign in (("podAntiAffinity", -1), ("podAffinity", 1)):
        weighted = [
            {
                "weight": abs(weight),
                "podAffinityTerm": {
                    "topologyKey": label,
                    "labelSelector": {"matchLabels": {"gang": pod.gang}},
                },
            }
            for weight, label in kind.draws
            if weight * sign > 0
        ]
        if weighted:
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
            found[name] = {**found.get(name, {}), **preferred}
    return found


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items()}


class Located(Struct, frozen=True):
    """A pod with its node, and the GPU of a share."""

    pod: Pod
    node: str
    device: int | None = None


class Situation:
    """A case with the pods that have a node at one moment."""

    def __init__(self, case: Case, located: Iterable[Located] | None = None) -> None:
        self.case = case
        self.located = (
            tuple(located)
            if located is not None
            else tuple(
                Located(pod, pod.node, pod.device) for pod in case.pods if pod.node and not pod.finished
            )
        )

    def after(self, located: Iterable[Located]) -> "Situation":
        """The situation with these pods placed as well."""
        return Situation(self.case, (*self.located, *located))

    def waiting(self, gang: str) -> list[Pod]:
        """The members of a gang without a node, in the order of the manifests."""
        there = {one.pod.name for one in self.located}
        pods = self.case.pods
        absent = [pod.name for pod in pods if pod.finished or not pod.exists]
        return [pod for pod in pods if pod.gang == gang and pod.name not in there and pod.name not in absent]

    def counted(self, gang: str) -> int:
        """The members that count towards the minimum of a gang."""
        finished = sum(pod.gang == gang and pod.finished for pod in self.case.pods)
        return finished + len(self.members(gang))

    def members(self, gang: str) -> list[Located]:
        """The members of a gang that have a node."""
        return [one for one in self.located if gang and one.pod.gang == gang]

    def free(self, node: Node) -> dict[str, int]:
        """Free amounts; every pod takes one of `pods`."""
        left = dict(node.allocatable)
        for one in self.located:
            if one.node == node.name:
                for name, amount in needs(one.pod.kind).items():
                    left[name] = left.get(name, 0) - amount
        return left

    def free_devices(self, node: Node) -> list[int]:
        """Free thousandths of each GPU that pods share."""
        left = [1000] * node.shared_gpus
        for one in self.located:
            if one.node == node.name and one.pod.kind.share and one.device is not None:
                left[one.device] -= one.pod.kind.share
        return left

    def used(self, nodes: Iterable[str]) -> dict[str, int]:
        """What the gangs use together on these nodes."""
        total: dict[str, int] = {}
        nodes = frozenset(nodes)
        for one in self.located:
            for name, amount in needs(one.pod.kind).items() if one.pod.gang and one.node in nodes else ():
                total[name] = total.get(name, 0) + amount
        return total

    def budgets(self) -> list[tuple[frozenset[str], dict[str, int]]]:
        """The nodes that each limit counts, and what it leaves."""
        case = self.case
        counted = [(frozenset(node.name for node in case.nodes), case.limit)]
        for flavor in case.flavors:
            nodes = [node.name for node in case.nodes if node.labels.get(flavor.label) == flavor.value]
            counted.append((frozenset(nodes), flavor.limit))
        return [
            (nodes, {name: most - self.used(nodes).get(name, 0) for name, most in limit.items()})
            for nodes, limit in counted
        ]


def needs(kind: Kind) -> dict[str, int]:
    """The amounts that a pod takes of its node, without its share of a GPU."""
    return {**dict(kind.requests), PODS: 1}


def may_use(kind: Kind, node: Node) -> bool:
    """Whether selectors, taints and the label of required pod affinity allow a pod on a node."""
    tolerated = all(taint in kind.tolerated for taint in node.hard_taints)
    labelled = not kind.together or kind.together in node.labels
    return tolerated and labelled and all(node.labels.get(key) == value for key, value in kind.selector)


def fit(kind: Kind, free: Amounts, devices: Sequence[int]) -> int:
    """How many pods of a kind fit what is free."""
    counts = [free.get(name, 0) // need for name, need in needs(kind).items() if need > 0]
    if kind.share:
        counts.append(sum(left // kind.share for left in devices))
    return max(0, min(counts))


def levels_of(case: Case, topology: str = "") -> tuple[tuple[str, str], ...]:
    """The levels of a Topology; without a name those of the default one."""
    return case.others[topology] if topology else case.levels


def path(case: Case, node: Node, topology: str = "") -> tuple[str, ...]:
    """The label values of a node, from the widest level down to the first label that it lacks."""
    values = []
    for _, label in levels_of(case, topology):
        if label not in node.labels:
            break
        values.append(node.labels[label])
    return tuple(values)


def depth(case: Case, level: str, topology: str = "") -> int:
    """How many levels there are from the widest down to this one; 0 for none."""
    names = [name for name, _ in levels_of(case, topology)]
    return names.index(level) + 1 if level else 0


def inside(gang: Gang, subgroup: str) -> Iterator[str]:
    """The names of a subgroup and of all subgroups around it."""
    parents = {one.name: one.parent for one in gang.subgroups}
    while subgroup:
        yield subgroup
        subgroup = parents[subgroup]
