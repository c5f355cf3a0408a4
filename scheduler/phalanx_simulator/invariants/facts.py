"""Objects as the checks need them, read independently of the scheduler's decoder.

Objects may be hostile: invalid fields are read as absent, invalid amounts as None.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct
from phalanx.model.names import (
    ANNOTATION_CHARGED_QUEUE,
    DEFAULT_SCHEDULER_NAME,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
)
from phalanx.model.resources import InvalidQuantity, Resources

from phalanx_simulator.embedded.pod_requests import (
    allocatable_of,
    device_of,
    devices_of,
    is_tolerated,
    requests_of,
    share_of,
)
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.node_conditions import HEALTHY_STATUS, faulty

FINISHED: Final = ("Succeeded", "Failed")
TOPOLOGY_UNKNOWN: Final = "NodeNotInNWTopologyCM"
_HANDLED_SEPARATELY: Final = ("Ready", TOPOLOGY_UNKNOWN)
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
_NVSENTINEL: Final = "dgxc.nvidia.com/nvsentinel-state"
_QUARANTINED: Final = (
    *("quarantined", "draining", "drain-succeeded", "drain-failed"),
    *("remediating", "remediation-failed"),
)
_HARD: Final = ("NoSchedule", "NoExecute")
NATIVE_PREFIX: Final = "scheduling.k8s.io/"
VOLCANO_PREFIX: Final = "scheduling.volcano.sh/"
YUNIKORN_PREFIX: Final = "yunikorn.apache.org/"


class GangKey(NamedTuple):
    """The gang that a pod is in: `kind` is group, label, job or pod, `name` a name or UID."""

    kind: str
    namespace: str
    name: str


class PodFact(Struct, frozen=True, gc=False):
    """One version of a pod. `requests` is None if they are invalid.

    `share` is the requested GPU share or GPU memory, `device` the usage of one GPU of its node.
    `anti_affinity` holds the required terms.
    """

    uid: str
    namespace: str
    name: str
    node: str
    phase: str
    is_deleting: bool
    scheduler: str
    gang: GangKey
    role: str
    subgroup: str
    min_member: int
    queue: str
    charged_queue: str
    controller: str
    owners: tuple[str, ...]
    is_gated: bool
    requests: Resources | None
    share: Resources
    device: Resources
    tolerations: tuple[Any, ...]
    labels: Mapping[str, str]
    anti_affinity: tuple[Any, ...]

    @property
    def charged(self) -> Resources | None:
        """Resources charged to its queue; None if they are invalid."""
        return {**self.requests, **self.share} if self.requests and self.share else self.requests

    @property
    def used(self) -> Resources | None:
        """Resources used on its node."""
        charged = self.charged
        return {**charged, **self.device} if charged and self.device else charged

    @property
    def is_ours(self) -> bool:
        """Whether it names our scheduler."""
        return self.scheduler == DEFAULT_SCHEDULER_NAME

    @property
    def is_finished(self) -> bool:
        """Whether it has finished."""
        return self.phase in FINISHED

    @property
    def holds_node(self) -> bool:
        """Whether it uses capacity of a node."""
        return bool(self.node) and not self.is_finished

    @property
    def counts_for_gang(self) -> bool:
        """Whether it counts towards minMember."""
        if self.phase == "Succeeded":
            return True
        return bool(self.node) and not self.is_deleting and self.phase != "Failed"

    @property
    def is_waiting(self) -> bool:
        """Whether it needs a node."""
        return not self.node and not self.is_deleting and not self.is_finished

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NodeFact(Struct, frozen=True, gc=False):
    """One version of a node, without heartbeats."""

    uid: str
    name: str
    labels: Mapping[str, str]
    taints: tuple[Any, ...]
    is_cordoned: bool
    allocatable: Resources
    conditions: Mapping[str, str]

    @property
    def fault(self) -> str:
        """A faulty condition or NVSentinel's state; empty for a healthy node."""
        for type_ in self.faulty_conditions:
            return f"{type_} is {self.conditions[type_]}"
        state = self.labels.get(_NVSENTINEL)
        return f"NVSentinel says {state}" if state in _QUARANTINED else ""

    @property
    def faulty_conditions(self) -> list[str]:
        """Types of the conditions in their faulty status, Ready first."""
        ready = ["Ready"] if self.conditions.get("Ready", "True") != "True" else []
        known = [
            type_ for type_ in self.conditions if type_ in HEALTHY_STATUS and type_ not in _HANDLED_SEPARATELY
        ]
        return [*ready, *(type_ for type_ in known if self.conditions[type_] == faulty(type_))]

    def refusal(self, tolerations: tuple[Any, ...]) -> str:
        """Reason why a pod with these tolerations may not run here; empty if it may."""
        if self.fault:
            return self.fault
        tolerated = list(tolerations)
        if self.is_cordoned and not is_tolerated(_CORDON, tolerated):
            return "cordoned"
        for taint in self.taints:
            if taint.get("effect") in _HARD and not is_tolerated(taint, tolerated):
                return f"taint {taint.get('key')}:{taint.get('effect')}"
        return ""


class SubgroupFact(NamedTuple):
    """A subgroup of a PodGroup; `parent` is empty for a top-level one."""

    name: str
    min_member: int
    parent: str


class GroupFact(Struct, frozen=True, gc=False):
    """One version of a PodGroup's spec.

    `min_subgroups` is 0 if all subgroups must start together.
    """

    uid: str
    namespace: str
    name: str
    min_member: int
    queue: str
    topology: str
    required: str
    controller: str
    subgroups: tuple[SubgroupFact, ...]
    min_subgroups: int
    spec: Object
    is_deleting: bool

    @property
    def reserves(self) -> bool:
        """Whether it may start before all members exist."""
        return bool(self.spec.get("startWhen") == "Reserved")


def pod_fact(pod: Object, before: PodFact | None, same_containers: bool) -> PodFact:
    """Read a pod; the requests of `before` are reused where the containers are the same."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    labels = meta.get("labels") or {}
    owners = meta.get("ownerReferences") or []
    controller = next((owner.get("uid", "") for owner in owners if owner.get("controller")), "")
    min_member = _whole(labels.get(LABEL_MIN_MEMBER))
    known = before is not None and same_containers
    return PodFact(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        node=spec.get("nodeName") or "",
        phase=(pod.get("status") or {}).get("phase") or "Pending",
        is_deleting=bool(meta.get("deletionTimestamp")),
        scheduler=spec.get("schedulerName") or "",
        gang=_gang_key(meta, spec, controller, min_member),
        role=labels.get(LABEL_ROLE, ""),
        subgroup=labels.get(LABEL_SUBGROUP, ""),
        min_member=min_member,
        queue=labels.get(LABEL_QUEUE, ""),
        charged_queue=(meta.get("annotations") or {}).get(ANNOTATION_CHARGED_QUEUE, ""),
        controller=controller,
        owners=tuple(owner.get("uid", "") for owner in owners),
        is_gated=bool(spec.get("schedulingGates")),
        requests=before.requests if known and before is not None else _requests(pod),
        share=_valid(share_of, pod),
        device=_valid(device_of, pod) if spec.get("nodeName") else {},
        tolerations=tuple(spec.get("tolerations") or ()),
        labels=labels,
        anti_affinity=_anti_affinity(spec),
    )


def node_fact(node: Object) -> NodeFact:
    """Read a node."""
    meta, spec = node["metadata"], node.get("spec") or {}
    status = node.get("status") or {}
    return NodeFact(
        uid=meta["uid"],
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        is_cordoned=bool(spec.get("unschedulable")),
        allocatable={**_allocatable(node), **_valid(devices_of, node)},
        conditions={
            condition.get("type", ""): condition.get("status", "")
            for condition in status.get("conditions") or ()
        },
    )


def native_name(name: str) -> str:
    """The name of a native PodGroup in GangKey and GroupFact: no other PodGroup can have it."""
    return f"{NATIVE_PREFIX}{name}"


def group_fact(group: Object) -> GroupFact:
    """Read a PodGroup."""
    meta, spec = group["metadata"], group.get("spec") or {}
    requested = spec.get("topology") or {}
    owners = meta.get("ownerReferences") or []
    return GroupFact(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        min_member=_minimum_of_gang(spec),
        queue=spec.get("queue") or "",
        topology=requested.get("name") or "",
        required=requested.get("required") or "",
        controller=next((owner.get("uid", "") for owner in owners if owner.get("controller")), ""),
        subgroups=tuple(
            SubgroupFact(part.get("name", ""), _minimum_of(part, spec["subGroups"]), part.get("parent") or "")
            for part in spec.get("subGroups") or ()
        ),
        min_subgroups=_whole(spec.get("minSubGroups")),
        spec=spec,
        is_deleting=bool(meta.get("deletionTimestamp")),
    )


def _minimum_of_gang(spec: Object) -> int:
    """The minimum of the gang; without one, those of its outer subgroups or of its roles together."""
    if spec.get("minMember") is not None:
        return max(_whole(spec["minMember"]), 1)
    parts = spec.get("subGroups") or ()
    outer = sorted(_minimum_of(part, parts) for part in parts if not part.get("parent"))
    roles = [_whole(role.get("minMember", role.get("count"))) for role in spec.get("roles") or ()]
    return max(sum(outer[: _whole(spec.get("minSubGroups")) or None]), sum(roles), 1)


def _minimum_of(part: Object, parts: Sequence[Object], depth: int = 0) -> int:
    """The minimum of a subgroup; without one, those of the subgroups inside it together."""
    if part.get("minMember") is not None:
        return _whole(part["minMember"])
    inside = [each for each in parts if each.get("parent") == part.get("name")]
    return sum(_minimum_of(each, parts, depth + 1) for each in inside) if depth < len(parts) else 0


def _gang_key(meta: Object, spec: Object, controller: str, min_member: int) -> GangKey:
    namespace, labels = meta["namespace"], meta.get("labels") or {}
    native = (spec.get("schedulingGroup") or {}).get("podGroupName")
    if LABEL_POD_GROUP in labels:
        return GangKey("group", namespace, labels[LABEL_POD_GROUP])
    if min_member and controller:
        return GangKey("label", namespace, controller)
    if spec.get("schedulerName") == DEFAULT_SCHEDULER_NAME:
        annotations = meta.get("annotations") or {}
        of_volcano = annotations.get("scheduling.k8s.io/group-name")
        if native:
            return GangKey("group", namespace, native_name(native))
        if of_volcano:
            return GangKey("group", namespace, f"{VOLCANO_PREFIX}{of_volcano}")
        if annotations.get("yunikorn.apache.org/task-group-name"):
            return GangKey("group", namespace, f"{YUNIKORN_PREFIX}{labels.get('applicationId', '')}")
        if _is_of_job(meta):
            return GangKey("job", namespace, controller)
    return GangKey("pod", namespace, meta["uid"])


def _is_of_job(meta: Object) -> bool:
    owners = meta.get("ownerReferences") or ()
    kinds = [(each.get("apiVersion"), each.get("kind")) for each in owners if each.get("controller")]
    return kinds == [("batch/v1", "Job")]


def pods_of_job(job: Object) -> int:
    """How many pods of a Job start together: those that its controller creates at first, or fewer if an
    annotation says so."""
    spec = job["spec"]
    together = _whole(spec.get("parallelism", 1))
    all_at_once = max(1, min(together, _whole(spec.get("completions", together))))
    fewest = (job["metadata"].get("annotations") or {}).get("scheduling.phalanx.dev/min-parallelism", "")
    return min(_whole(fewest) or all_at_once, all_at_once)


def _anti_affinity(spec: Object) -> tuple[Any, ...]:
    try:
        anti_affinity = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        return tuple(anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
    except (AttributeError, TypeError):
        return ()


def _whole(written: object) -> int:
    try:
        return int(str(written))
    except ValueError:
        return 0


def _requests(pod: Object) -> Resources | None:
    try:
        return requests_of(pod)
    except (InvalidQuantity, AttributeError, TypeError, KeyError):
        return None


def _valid(read: Callable[[Object], Resources], item: Object) -> Resources:
    """The result of `read`, empty where annotations or labels are invalid."""
    try:
        return read(item)
    except (InvalidQuantity, AttributeError, TypeError, ValueError):
        return {}


def _allocatable(node: Object) -> Resources:
    try:
        return allocatable_of(node)
    except (InvalidQuantity, AttributeError, TypeError):
        return {}


def missing_for_start(group: GroupFact, members: Sequence[str]) -> str:
    """The subgroups or members that are missing for a start; empty if none. Roles are not checked."""
    outer = _top_level(group)
    short = _short(group, members)
    names = [part.name for part in group.subgroups if not part.parent]
    whole = [name for name in names if not any(outer[subgroup] == name for subgroup in short)]
    needed = group.min_subgroups or len(names)
    if len(whole) < needed:
        return f"{len(whole)} of {needed} subgroups"
    inside = [
        subgroup for subgroup in members if not group.min_subgroups or outer.get(subgroup, "") in (*whole, "")
    ]
    missing = len(inside) < group.min_member
    return f"{len(inside)} of {group.min_member} members" if missing else ""


def partial_subgroup(group: GroupFact, planned: Sequence[str], present: Iterable[str]) -> str:
    """A subgroup that starts without its minimum, as a message; empty if there is none.

    Only for gangs of which some subgroups must start together.
    """
    outer = _top_level(group)
    started = {outer.get(subgroup, "") for subgroup in present}
    for name in dict.fromkeys(outer.get(subgroup, "") for subgroup in planned) if group.min_subgroups else ():
        if name and name not in started:
            for inner, lacking in _short(group, planned).items():
                if outer[inner] == name:
                    return f"subgroup {inner} starts with {lacking} members too few"
    return ""


def _top_level(group: GroupFact) -> Mapping[str, str]:
    """The top-level ancestor of each subgroup, or the subgroup itself."""
    return {name: around[-1] for name, around in _ancestors(group).items()}


def _ancestors(group: GroupFact) -> dict[str, list[str]]:
    """Each subgroup with its ancestors, innermost first."""
    parents = {part.name: part.parent for part in group.subgroups}
    found = {}
    for name in parents:
        around = [name]
        while parents.get(around[-1], "") in parents and parents[around[-1]] not in around:
            around.append(parents[around[-1]])
        found[name] = around
    return found


def _short(group: GroupFact, members: Iterable[str]) -> dict[str, int]:
    """Number of missing members by subgroup, only for subgroups that miss some."""
    around = _ancestors(group)
    missing = {part.name: part.min_member for part in group.subgroups}
    for subgroup in members:
        for name in around.get(subgroup, ()):
            missing[name] -= 1
    return {name: count for name, count in missing.items() if count > 0}
