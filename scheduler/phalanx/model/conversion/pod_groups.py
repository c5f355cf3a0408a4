"""PodGroups: from the API object to the model, its errors, and which pods are its members."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import (
    RESERVED,
    START_MODES,
    SUBGROUP_LEVELS_MAX,
    TRAFFIC_ENTRIES_MAX,
    TRAFFIC_WEIGHT_MAX,
    Disruption,
    DisruptionMode,
    PodGroupSpec,
    Recovery,
    RecoveryMode,
    Role,
    Runtime,
    SubGroup,
    TopologyRequest,
)
from phalanx.model.api.pod_groups import PodGroup as ApiPodGroup
from phalanx.model.api.values import duration_ms, seconds, time_s
from phalanx.model.conversion.metadata import controller_of, identity, read_checkpoint
from phalanx.model.conversion.records import read_record
from phalanx.model.conversion.requests import read_amounts, too_many
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import GangKind, RoleSpec, SubgroupSpec, ancestor_chains
from phalanx.model.names import API_GROUP, KUEUE_GROUP_LABEL, LABEL_MIN_MEMBER, GangId
from phalanx.model.pods import Controller, Pod, Term
from phalanx.model.reasons import Objection, Reason
from phalanx.model.records import GangRecord
from phalanx.model.resources import NONE, Resources
from phalanx.model.supplies.known import requests_parts
from phalanx.model.workloads.apps import COUNTED_BY_LABEL


class SubgroupPolicy(Struct, frozen=True, gc=False):
    """How pods form subgroups, in other dialects: those with equal values of some labels are one."""

    name: str
    keys: tuple[str, ...]
    """The labels, which a pod of a subgroup has."""

    size: int
    """The minimum of each subgroup."""

    least: int = 0
    """How many of its subgroups must start together."""

    selector: Term | None = None
    """Selects the pods by further labels; None for all."""

    required: str | None = None
    preferred: str | None = None
    topology: str = ""
    """See SubgroupSpec."""


class PodGroup(Struct, frozen=True, gc=False):
    """A PodGroup without its members: its spec as it is, and what follows from it."""

    uid: str
    namespace: str
    name: str
    created: int
    """Seconds since the epoch."""

    spec: PodGroupSpec
    min_member: int = 1
    """At least 1, even if the spec is lower."""
    roles: tuple[RoleSpec, ...] = ()
    allows_other_roles: bool = False
    """Whether pods may name other roles, or none."""

    allows_no_role: bool = False
    """Whether pods may name no role."""

    subgroups: tuple[SubgroupSpec, ...] = ()
    policies: tuple[SubgroupPolicy, ...] = ()
    """In place of subgroups: how its pods form them by their labels."""

    marks: Mapping[str, str] = {}
    """Its own values of what pods may say as well, see Pod.group_marks."""

    marks_of_first: tuple[str, ...] = ()
    """Those that count on the first pod only, if it is no object: other pods may say something else."""

    protected_from: int | None = None
    """The priority of its class from which on it is not preemptible, as long as the spec does not say it."""

    class_may_protect: bool = False
    """Whether it is not preemptible if its class opts out of preemption."""

    defined_by: str = ""
    """The pod whose annotations define it, if it is no object."""

    min_resources: Resources = NONE
    """What must be free before it starts, in other dialects."""

    controller: Controller | None = None
    records_start: bool = True
    """Whether its status tells when it has started."""

    started_at: int = 0
    """When its status says that minMember was first reached, in seconds since the epoch, 0 if never."""

    record: GangRecord | None = None
    """See Gang."""

    resource_version: str = ""
    checkpointed: int = 0
    """See Pod."""

    ignored: str = ""
    """See Pod."""

    problems: tuple[Objection, ...] = ()
    parent: str = ""
    """The CompositePodGroup that contains it, empty for none."""

    is_gang: bool = True
    """Whether its pods have anything in common. If not, each is a gang of one, as without a PodGroup."""

    @property
    def started(self) -> bool:
        """Whether its status says that minMember was reached once."""
        return self.started_at > 0

    @property
    def title(self) -> str:
        """Its name as messages show it."""
        return f"{'application' if self.defined_by else 'PodGroup'} {self.name}"

    @property
    def priority_class(self) -> str:
        """Name of its PriorityClass, empty for none."""
        return self.spec.priority_class_name or ""


def fields_of_metadata(kind: str, meta: ObjectMeta) -> dict[str, Any]:
    """The fields of a PodGroup that are read from the metadata of its object."""
    checkpointed, ignored = read_checkpoint(meta.annotations)
    return {
        "uid": identity(kind, meta),
        "namespace": meta.namespace,
        "name": meta.name,
        "created": seconds(meta.creation_timestamp),
        "resource_version": meta.resource_version,
        "checkpointed": checkpointed,
        "ignored": ignored,
    }


def read_pod_group(written: ApiPodGroup) -> PodGroup:
    """Convert one PodGroup."""
    meta, spec = written.metadata, written.spec
    return PodGroup(
        **fields_of_metadata("PodGroup", meta),
        spec=spec,
        min_member=min_member_of(spec),
        roles=tuple(_role(role) for role in spec.roles),
        subgroups=subgroups_of(spec.sub_groups),
        controller=controller_of(meta.owner_references),
        started_at=_started_at(written.status.started_at),
        record=read_record(written.status.record),
        problems=tuple(_problems(spec)),
    )


def _started_at(written: str | None) -> int:
    """A time that is not one counts as the begin of time: the gang has started."""
    return 0 if written is None else max(time_s(written) or 0, 1)


def _role(role: Role) -> RoleSpec:
    return RoleSpec(
        name=role.name,
        count=max(role.count, 0),
        min_member=max(role.count if role.min_member is None else role.min_member, 0),
        shape=shape_of_requests(read_amounts(role.requests, "", [])) if role.requests else None,
    )


def min_member_of(spec: PodGroupSpec) -> int:
    """The minimum of the gang: written, else that of its subgroups, or that of its roles if it is larger."""
    if spec.min_member is not None:
        return max(spec.min_member, 1)
    return max(_needed_by_subgroups(spec), sum(_role(role).min_member for role in spec.roles), 1)


def _needed_by_subgroups(spec: PodGroupSpec) -> int:
    """The sum of the minimums of outer subgroups; with `minSubGroups`, of as many of the smallest."""
    outer = sorted(part.min_member for part in subgroups_of(spec.sub_groups) if not part.parent)
    return sum(outer[: spec.required_subgroups or None])


def _recovery_errors(recovery: Recovery | None) -> Iterator[str]:
    if recovery is None:
        return
    modes = (("onMemberFailure", recovery.on_member_failure), ("onNodeLoss", recovery.on_node_loss))
    known = [mode.value for mode in RecoveryMode]
    for name, mode in modes:
        if mode is not None and mode not in known:
            yield f"spec.recovery.{name}: expected one of {', '.join(known)}"
    if recovery.grace_period is not None and duration_ms(recovery.grace_period) is None:
        yield "spec.recovery.gracePeriod: expected a duration such as 1m30s"


def _disruption_errors(disruption: Disruption | None) -> Iterator[str]:
    if disruption is None:
        return
    known = [mode.value for mode in DisruptionMode]
    if disruption.mode is not None and disruption.mode not in known:
        yield f"spec.disruption.mode: expected one of {', '.join(known)}"
    if disruption.min_runtime is not None and duration_ms(disruption.min_runtime) is None:
        yield "spec.disruption.minRuntime: expected a duration such as 1h30m"


def _runtime_errors(runtime: Runtime | None) -> Iterator[str]:
    if runtime is None:
        return
    for name, text in (("estimate", runtime.estimate), ("max", runtime.max)):
        if text is not None and not duration_ms(text):
            yield f"spec.runtime.{name}: expected a duration of more than 0s, such as 1h30m"
    estimate, longest = runtime.estimate_ms, runtime.max_ms
    if estimate and longest and estimate > longest:
        yield f"spec.runtime.estimate: {runtime.estimate} is longer than spec.runtime.max, {runtime.max}"


def _delay_errors(delay: str | None) -> Iterator[str]:
    if delay is not None and duration_ms(delay) is None:
        yield "spec.preemptionDelay: expected a duration such as 5m"


def _start_errors(start_by: str | None) -> Iterator[str]:
    if start_by is not None and time_s(start_by) is None:
        yield "spec.startBy: expected a time such as 2026-12-24T18:00:00Z"


def unsupported_combinations(spec: PodGroupSpec) -> Iterator[str]:
    """Paths of combinations of fields that are refused, such as `spec.startWhen: Reserved`."""
    if spec.start_when == RESERVED and spec.sub_groups:
        yield "spec.startWhen: Reserved beside spec.subGroups"


def _reservation_errors(spec: PodGroupSpec) -> Iterator[str]:
    """Invalid amounts, and reservations without the requests that they need."""
    if spec.start_when is not None and spec.start_when not in START_MODES:
        yield f"spec.startWhen: expected one of {', '.join(START_MODES)}"
    if spec.start_when == RESERVED and not any(role.requests for role in spec.roles):
        yield "spec.startWhen: Reserved needs spec.roles with requests, for which capacity is reserved"
    if spec.start_when == RESERVED and min_member_of(spec) > PLACEHOLDERS_MAX:
        yield f"spec.startWhen: capacity cannot be reserved in gangs of more than {PLACEHOLDERS_MAX} members"
    for role in spec.roles:
        path, wrong = f"spec.roles[{role.name}].requests", list[str]()
        amounts = read_amounts(role.requests, path, wrong)
        yield from [*wrong, *too_many(amounts, path)]
        if requests_parts(amounts):
            yield f"{path}: a share of a GPU cannot be reserved, only whole ones"


def subgroups_of(parts: Iterable[SubGroup]) -> tuple[SubgroupSpec, ...]:
    """The subgroups; one without a minimum needs those of the subgroups inside it together."""
    found = [_subgroup(part) for part in parts]
    depth = {name: len(around) for name, around in ancestor_chains(found).items()}
    inside: Counter[str] = Counter()
    least = [part.min_member for part in found]
    for index in sorted(range(len(found)), key=lambda index: -depth[found[index].name]):
        least[index] = least[index] or max(inside[found[index].name], 1)
        inside[found[index].parent] += least[index]
    return tuple(replace(part, min_member=count) for part, count in zip(found, least, strict=True))


def _subgroup(part: SubGroup) -> SubgroupSpec:
    """The subgroup as it is written; its minimum is 0 if it has none."""
    topology = part.topology or TopologyRequest()
    return SubgroupSpec(
        name=part.name,
        min_member=0 if part.min_member is None else max(part.min_member, 1),
        parent=part.parent or "",
        required=topology.required,
        segment=max(part.segment_size or 0, 0),
        preferred=topology.preferred,
        topology=topology.name or "",
    )


def _problems(spec: PodGroupSpec) -> Iterator[Objection]:
    for path in unsupported_combinations(spec):
        yield Objection(
            Reason.UNSUPPORTED_FIELD, f"PodGroup field {path} is not supported yet", "Remove the field"
        )
    own = (
        *_recovery_errors(spec.recovery),
        *_disruption_errors(spec.disruption),
        *_runtime_errors(spec.runtime),
        *_delay_errors(spec.preemption_delay),
        *_start_errors(spec.start_by),
        *_reservation_errors(spec),
    )
    for message in own:
        yield Objection(Reason.INVALID_OBJECT, f"PodGroup field {message}")
    faults = (
        *_number_errors(spec),
        *_role_errors(spec.roles),
        *_traffic_errors(spec),
        *subgroup_errors(spec),
    )
    for message in faults:
        yield Objection(Reason.INCONSISTENT_GANG, f"PodGroup field {message}")


def _number_errors(spec: PodGroupSpec) -> Iterator[str]:
    least = min_member_of(spec) if spec.min_member is None else spec.min_member
    if spec.min_member is None and not spec.sub_groups:
        yield "spec.minMember: is missing, and there are no spec.subGroups from which it follows"
    if least < 1:
        yield f"spec.minMember: {least} is not at least 1"
    if not spec.roles:
        return
    roles = [_role(role) for role in spec.roles]
    members = sum(role.count for role in roles)
    needed = sum(role.min_member for role in roles)
    if least > members:
        yield f"spec.minMember: {least} is more than the {members} members of all spec.roles"
    if least < needed:
        yield f"spec.minMember: {least} is less than the {needed} that the roles need at least"


def _role_errors(roles: tuple[Role, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for index, role in enumerate(roles):
        if role.name in seen:
            yield f"spec.roles[{index}].name: {role.name!r} is not unique"
        seen.add(role.name)
        if role.count < 1:
            yield f"spec.roles[{index}].count: {role.count} is not at least 1"
        if role.min_member is not None and not 0 <= role.min_member <= role.count:
            yield f"spec.roles[{index}].minMember: {role.min_member} is not between 0 and {role.count}"


def _traffic_errors(spec: PodGroupSpec) -> Iterator[str]:
    """Too many entries, unknown roles, pairs that are listed twice, and weights out of range."""
    if len(spec.traffic) > TRAFFIC_ENTRIES_MAX:
        yield f"spec.traffic: {len(spec.traffic)} entries are more than {TRAFFIC_ENTRIES_MAX}"
    names, seen = {role.name for role in spec.roles}, set[tuple[str, str]]()
    for index, entry in enumerate(spec.traffic[:TRAFFIC_ENTRIES_MAX]):
        path, pair = f"spec.traffic[{index}]", (entry.sender, entry.receiver)
        for key, role in zip(("from", "to"), pair, strict=True):
            if role not in names:
                yield f"{path}.{key}: there is no role {role!r}"
        if pair in seen:
            yield f"{path}: from {entry.sender!r} to {entry.receiver!r} is not unique"
        seen.add(pair)
        if not 1 <= entry.weight <= TRAFFIC_WEIGHT_MAX:
            yield f"{path}.weight: {entry.weight} is not between 1 and {TRAFFIC_WEIGHT_MAX}"


def subgroup_errors(spec: PodGroupSpec) -> Iterator[str]:
    """Duplicate names, unknown or cyclic parents, and inconsistent numbers."""
    seen: set[str] = set()
    parts = subgroups_of(spec.sub_groups)
    around, parents = ancestor_chains(parts), {part.parent for part in parts}
    for index, part in enumerate(parts):
        path = f"spec.subGroups[{index}]"
        if spec.sub_groups[index].min_member is None and part.name not in parents:
            yield f"{path}.minMember: is missing, and no subgroup is inside {part.name!r}"
        if part.name in seen:
            yield f"{path}.name: {part.name!r} is not unique"
        seen.add(part.name)
        if part.parent and part.parent not in around:
            yield f"{path}.parent: there is no subgroup {part.parent!r}"
        elif part.parent and part.name in around[part.parent]:
            yield f"{path}.parent: {part.name!r} is its own ancestor"
        elif len(around[part.name]) > SUBGROUP_LEVELS_MAX:
            yield f"{path}.parent: more than {SUBGROUP_LEVELS_MAX} levels of subgroups"
        if part.segment and part.required is None:
            yield f"{path}.segmentSize: {part.segment} needs topology.required"
        elif part.segment and part.min_member % part.segment:
            yield f"{path}.minMember: {part.min_member} is not a multiple of segmentSize {part.segment}"
    outer, some = sum(1 for part in parts if not part.parent), spec.min_sub_groups
    if some is not None and not 1 <= some <= outer:
        yield f"spec.minSubGroups: {some} is not between 1 and the {outer} subgroups without a parent"
        return
    needed = _needed_by_subgroups(spec)
    if spec.min_member is not None and spec.min_member < needed:
        yield f"spec.minMember: {spec.min_member} is less than the {needed} that the subgroups need at least"


class GangKey(NamedTuple):
    """Pods with the same key are candidates for the same gang.

    `name` is the name of the PodGroup, the UID of the workload, the UID of the controller for a label gang,
    or the UID of a single pod. `dialect` is the API group of the PodGroup, since another one may have a
    PodGroup of the same name; or the name of the kind of the workload. `part` is the value of the label that
    divides the pods of some workloads into gangs.
    """

    kind: GangKind
    namespace: str
    name: str
    dialect: str = API_GROUP
    part: str = ""


def gang_key(pod: Pod) -> GangKey:
    """The gang key of a pod: its PodGroup, else its controller if it has `min-member` or is a workload, else
    its group of Kueue, else the pod itself. A workload may belong to another one, which the cache knows;
    `min-member` sets the minimum of some."""
    if pod.group is not None:
        return GangKey(GangKind.POD_GROUP, pod.namespace, pod.group, pod.dialect)
    controller = pod.controller
    if pod.min_member is not None and controller is not None and controller.workload not in COUNTED_BY_LABEL:
        return GangKey(GangKind.LABEL, pod.namespace, controller.uid)
    if pod.controller is not None and pod.controller.workload:
        return GangKey(GangKind.WORKLOAD, pod.namespace, pod.controller.uid, pod.controller.workload)
    admitted = _admitted_group(pod)
    if admitted:
        return GangKey(GangKind.LABEL, pod.namespace, f"{KUEUE_GROUP_LABEL}/{admitted}")
    return GangKey(GangKind.POD, pod.namespace, pod.uid)


def _admitted_group(pod: Pod) -> str:
    """The group of Kueue of a pod without a controller; empty for none."""
    if pod.min_member is None or pod.controller is not None:
        return ""
    labels = dict(pod.all_labels)
    return "" if LABEL_MIN_MEMBER in labels else labels.get(KUEUE_GROUP_LABEL, "")


def is_counted_by_label(pod: Pod) -> bool:
    """Whether its label `min-member`, or its group of Kueue, says how many pods start with it."""
    if pod.group is not None or pod.min_member is None:
        return False
    return pod.controller is not None or bool(_admitted_group(pod))


def free_application(pod: Pod) -> GangKey | None:
    """The application of a pod that names no task group of it: the pod is in its gang if there is one."""
    if pod.group is not None or not pod.other_groups or is_counted_by_label(pod):
        return None
    dialect, name = pod.other_groups[0]
    return GangKey(GangKind.POD_GROUP, pod.namespace, name, dialect)


def is_foreign(pod: Pod, scheduler_name: str) -> bool:
    """Whether no gang of this scheduler counts the pod, because it names another scheduler.

    A PodGroup of Phalanx has members of this scheduler only, and others are reported as errors. PodGroups of
    other dialects and workloads are used by other schedulers as well.
    """
    if pod.scheduler_name == scheduler_name:
        return False
    key = gang_key(pod)
    return key.kind is GangKind.POD or key.dialect != API_GROUP


def gang_id(key: GangKey, group: PodGroup | None) -> GangId:
    """The ID of the gang of a key. A PodGroup recreated under the same name is a new gang."""
    if key.kind is GangKind.POD_GROUP:
        of = "" if key.dialect == API_GROUP else f"{key.dialect}:"
        return GangId(group.uid if group is not None else f"missing:{of}{key.namespace}/{key.name}")
    if key.kind is GangKind.WORKLOAD:
        part = f"/{key.part}" if key.part else ""
        return GangId(f"{key.dialect}:{key.namespace}/{key.name}{part}")
    return GangId(f"{key.namespace}/{key.name}" if key.kind is GangKind.LABEL else key.name)


def workload_of(gang: GangId) -> str:
    """The UID of the workload of a gang, if the gang is all of a workload."""
    return gang.partition(":")[2].partition("/")[2]


def owner_of(gang: GangId) -> str:
    """The UID of the object that makes the pods of a gang of a workload or by label."""
    return (gang.partition(":")[2] or gang).partition("/")[2].partition("/")[0]


def is_member(pod: Pod, group: PodGroup) -> bool:
    """Whether a pod that names this PodGroup is a member: the controller of the PodGroup must own the pod as
    well.

    The UIDs of the pod's direct owners are compared. Indirect owners are not visible without reading other
    kinds. A PodGroup that belongs to an indirect owner (for example a JobSet, whose Jobs own the pods) must
    therefore be created without a controller.
    """
    return group.controller is None or group.controller.uid in pod.owners
