"""PodGroups of Volcano: `scheduling.volcano.sh/v1beta1`, which pods name by an annotation.

docs/dialects/volcano.md states what becomes of each field, and which phases are written.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

from msgspec import structs, to_builtins
from msgspec.structs import replace

from phalanx.model.api.core import Pod
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import (
    TRAFFIC_ENTRIES_MAX,
    Disruption,
    PodGroupSpec,
    TopologyRequest,
    Traffic,
)
from phalanx.model.api.values import duration_ms, time_s
from phalanx.model.api.volcano import (
    NetworkTopology,
    SubGroupPolicy,
    VolcanoCondition,
    VolcanoPodGroup,
    VolcanoPodGroupSpec,
    VolcanoPodGroupStatus,
)
from phalanx.model.conversion.min_resources import read_min_resources
from phalanx.model.conversion.pod_groups import PodGroup, SubgroupPolicy, fields_of_metadata
from phalanx.model.conversion.selectors import read_label_selector
from phalanx.model.dialects.dialect import (
    Dialect,
    ReportedGang,
    StatusRules,
    StatusWrite,
    annotation,
    refused_annotations,
    unsupported_field,
)
from phalanx.model.gangs import Gang, RoleSpec
from phalanx.model.names import DEFAULT_QUEUE, HYPER_NODES, LABEL_QUEUE, tier_label, tier_name_label
from phalanx.model.pods import PodPhase
from phalanx.model.reasons import Objection, Reason

_TASK_AFFINITY: Final = "volcano.sh/task-topology-affinity"


def _read_task_affinity(meta: ObjectMeta, wrong: list[str]) -> tuple[Traffic, ...]:
    """Traffic of weight 1 between the tasks of each group; a task alone sends to itself.

    `a,b;c` are two groups: a with b, and the pods of c among each other. As in Volcano, empty names do not
    count, and a task that a group names twice is an error.
    """
    path, pairs = f"metadata.annotations[{_TASK_AFFINITY}]", dict[tuple[str, str], None]()
    for written in meta.annotations.get(_TASK_AFFINITY, "").split(";"):
        names = [name.strip() for name in written.split(",") if name.strip()]
        if len(set(names)) < len(names):
            wrong.append(f"{path}: a task is named twice in {written!r}")
        group = sorted(set(names))
        pairs.update(
            dict.fromkeys(combinations(group, 2) if len(group) > 1 else [(name, name) for name in group])
        )
    if len(pairs) > TRAFFIC_ENTRIES_MAX:
        wrong.append(f"{path}: {len(pairs)} pairs of tasks are more than {TRAFFIC_ENTRIES_MAX}")
        return ()
    return tuple(Traffic(sender=one, receiver=other) for one, other in pairs)


_GROUP: Final = "scheduling.k8s.io/group-name"
TASK: Final = "volcano.sh/task-spec"

_PREEMPTABLE: Final = "volcano.sh/preemptable"
_COOLDOWN: Final = "volcano.sh/cooldown-time"
MARKS: Final = (_PREEMPTABLE, _COOLDOWN)
"""Annotations or labels, of pods and of PodGroups. Volcano's controllers write them on both."""

DEFAULT_MARKS: Final = {_PREEMPTABLE: "true"}
"""What a mark that nobody writes means here."""

REFUSED: Final = (
    "volcano.sh/revocable-zone",
    "volcano.sh/sla-waiting-time",
    "sla-waiting-time",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
    "volcano.sh/task-topology-anti-affinity",
    "volcano.sh/task-topology-task-order",
)
"""Annotations of a PodGroup that plugins of Volcano read."""

REFUSED_OF_PODS: Final = (
    "volcano.sh/revocable-zone",
    "volcano.sh/numa-topology-policy",
    "volcano.sh/task-priority",
)
"""Annotations of a pod that plugins of Volcano read."""

PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"
"""From now on the controller of Volcano Jobs creates the pods."""

_RUNNING: Final = "Running"
_UNKNOWN: Final = "Unknown"
_COMPLETED: Final = "Completed"
_STARTED: Final = (_RUNNING, _UNKNOWN, _COMPLETED)

_SOFT: Final = "soft"
"""The mode that requires nothing; any other is hard."""

_SCHEDULED: Final = "Scheduled"
_UNSCHEDULABLE: Final = "Unschedulable"
"""Types of conditions, of which at most one is True."""


# --- reading ------------------------------------------------------------------------------------------------


def read_volcano_pod_group(written: VolcanoPodGroup) -> PodGroup:
    """Convert one PodGroup.

    Its controller does not count: it is often an indirect owner of the pods.
    """
    meta, spec = written.metadata, written.spec
    min_member, roles, wrong = max(spec.min_member, 1), _roles(spec), list[str]()
    return PodGroup(
        **fields_of_metadata(VolcanoPodGroup.__name__, meta),
        spec=PodGroupSpec(
            min_member=min_member,
            queue=_queue(written),
            priority_class_name=spec.priority_class_name or None,
            topology=_topology(spec.network_topology),
            disruption=_disruption(written, wrong),
            traffic=_read_task_affinity(meta, wrong),
        ),
        min_member=min_member,
        roles=roles,
        policies=tuple(_policy(policy, wrong) for policy in spec.sub_group_policy),
        allows_other_roles=True,
        marks={key: value for key in MARKS if (value := _mark(meta, key)) is not None},
        min_resources=read_min_resources(spec.min_resources or {}, wrong),
        started_at=_started_at(written.status),
        problems=tuple(_problems(written, wrong)),
    )


def _roles(spec: VolcanoPodGroupSpec) -> tuple[RoleSpec, ...]:
    """The minimums of tasks. They count only if all of them together fit into the minimum of the group."""
    minimums = {task: count for task, count in sorted(spec.min_task_member.items()) if count > 0}
    if sum(minimums.values()) > spec.min_member:
        return ()
    return tuple(RoleSpec(name=task, count=count, min_member=count) for task, count in minimums.items())


def _queue(written: VolcanoPodGroup) -> str | None:
    """The queue that it names. The API server writes `default` where nobody names one."""
    named = written.spec.queue
    if named and named != DEFAULT_QUEUE:
        return named
    return written.metadata.labels.get(LABEL_QUEUE) or None


def _disruption(written: VolcanoPodGroup, wrong: list[str]) -> Disruption | None:
    preemptible, cooldown = (_mark(written.metadata, key) for key in MARKS)
    if preemptible is not None and preemptible not in ("true", "false"):
        wrong.append(f"metadata.annotations[{_PREEMPTABLE}]: expected true or false")
    if cooldown is not None and duration_ms(cooldown) is None:
        wrong.append(f"metadata.annotations[{_COOLDOWN}]: expected a duration such as 1h30m")
    if preemptible is None and cooldown is None:
        return None
    return Disruption(preemptible=preemptible != "false", min_runtime=cooldown)


def _topology(wanted: NetworkTopology | None) -> TopologyRequest | None:
    """Mode hard: one HyperNode up to a tier. Both modes: as few HyperNodes of the lowest tier as possible."""
    if wanted is None:
        return None
    required: str | None = None
    if wanted.mode != _SOFT and wanted.highest_tier_name:
        required = tier_name_label(wanted.highest_tier_name)
    elif wanted.mode != _SOFT and wanted.highest_tier_allowed is not None:
        required = tier_label(wanted.highest_tier_allowed)
    return TopologyRequest(name=HYPER_NODES, required=required, preferred=tier_label(1))


def _policy(written: SubGroupPolicy, wrong: list[str]) -> SubgroupPolicy:
    """How some of the pods form subgroups: one for each combination of values of its labels."""
    topology = _topology(written.network_topology) or TopologyRequest()
    path = f"spec.subGroupPolicy[{written.name}].labelSelector"
    return SubgroupPolicy(
        name=written.name,
        keys=written.match_label_keys,
        size=max(1 if written.sub_group_size is None else written.sub_group_size, 1),
        least=max(written.min_sub_groups or 0, 0),
        selector=read_label_selector(written.label_selector, path, wrong) if written.label_selector else None,
        required=topology.required,
        preferred=topology.preferred,
        topology=topology.name or "",
    )


def _mark(meta: ObjectMeta, key: str) -> str | None:
    """An annotation, else the label of this name."""
    return meta.annotations.get(key, meta.labels.get(key))


def _started_at(status: VolcanoPodGroupStatus) -> int:
    """When it started by its phase; a time that is not known counts as the begin of time."""
    if status.phase not in _STARTED:
        return 0
    times = [each.last_transition_time for each in status.conditions if each.type == _SCHEDULED]
    return max([time_s(time or "") or 0 for time in times] + [1])


def _problems(written: VolcanoPodGroup, wrong: list[str]) -> Iterator[Objection]:
    for path in (*_unsupported(written), *written.unknown_fields):
        yield unsupported_field(path)
    for error in wrong:
        yield Objection(Reason.INVALID_OBJECT, f"PodGroup field {error}")


def _unsupported(written: VolcanoPodGroup) -> Iterator[str]:
    yield from _unsupported_of_topology("spec.networkTopology", written.spec.network_topology)
    policies = written.spec.sub_group_policy
    names = [policy.name for policy in policies]
    for policy in policies:
        path = f"spec.subGroupPolicy[{policy.name}]"
        if names.count(policy.name) > 1:
            yield f"{path} beside another one of this name"
        yield from _unsupported_of_topology(f"{path}.networkTopology", policy.network_topology)
        if not policy.match_label_keys:
            yield f"{path} without matchLabelKeys"
    yield from refused_annotations(written.metadata.annotations, REFUSED)


def _unsupported_of_topology(path: str, topology: NetworkTopology | None) -> Iterator[str]:
    """Tiers that Volcano refuses, or that it ignores although they look like a limit."""
    if topology is None:
        return
    has_tier = topology.highest_tier_allowed is not None
    if topology.highest_tier_name and has_tier:
        yield f"{path}.highestTierName beside highestTierAllowed"
    if topology.mode != _SOFT and not topology.highest_tier_name and not has_tier:
        yield f"{path} with mode hard and without highestTierAllowed"


def _unsupported_of_pod(pod: Pod) -> Iterator[str]:
    return refused_annotations(pod.metadata.annotations, REFUSED_OF_PODS)


def _marks_of(pod: Pod) -> Mapping[str, str]:
    """Without what is the default."""
    found = {key: value for key in MARKS if (value := _mark(pod.metadata, key)) is not None}
    return {key: value for key, value in found.items() if value != DEFAULT_MARKS.get(key)}


def task_of(pod: Pod) -> str:
    meta = pod.metadata
    return meta.annotations.get(TASK) or meta.labels.get(TASK, "")


# --- status -------------------------------------------------------------------------------------------------


def wanted_without_pods(group: VolcanoPodGroup, objection: Objection | None, now: str) -> StatusWrite | None:
    """The status of a PodGroup that waits for its pods: Inqueue, unless there is an objection to them."""
    seen = group.status
    if objection is None:
        return _write(seen, replace(seen, phase=INQUEUE, conditions=_of_others(seen.conditions)))
    text = ". ".join(filter(None, (objection.message, objection.next_step)))
    condition = _condition(_UNSCHEDULABLE, objection.reason.value, text, now)
    return _write(seen, replace(seen, phase=PENDING, conditions=_merged(seen.conditions, condition)))


def _wanted_status(reported: ReportedGang, group: VolcanoPodGroup) -> StatusWrite | None:
    gang, conditions = reported.gang, group.status.conditions
    phase, stay = _phase(gang), [pod.phase for pod in gang.members if not pod.deleting]
    if phase in (_RUNNING, _COMPLETED):
        text = f"{gang.min_member} pods are bound"
        conditions = _merged(conditions, _condition(_SCHEDULED, _SCHEDULED, text, reported.now))
    elif reported.reason and gang.has_waiting:
        condition = _condition(_UNSCHEDULABLE, reported.reason, reported.message, reported.now)
        conditions = _merged(conditions, condition)
    wanted = VolcanoPodGroupStatus(
        phase=phase,
        conditions=conditions,
        running=stay.count(PodPhase.RUNNING),
        succeeded=stay.count(PodPhase.SUCCEEDED),
        failed=stay.count(PodPhase.FAILED),
    )
    return _write(group.status, wanted)


def _phase(gang: Gang) -> str:
    """The phase as Volcano defines it. Running includes that the containers have not started yet."""
    ended = [pod for pod in gang.members if pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)]
    if len(ended) == len(gang.members) >= gang.min_member:
        return _COMPLETED
    if gang.reaches_minimum:
        return _RUNNING
    return _UNKNOWN if gang.started else INQUEUE


def _condition(type_: str, reason: str, message: str, now: str) -> VolcanoCondition:
    return VolcanoCondition(
        type=type_, status="True", reason=reason, message=message, last_transition_time=now
    )


def _write(seen: VolcanoPodGroupStatus, wanted: VolcanoPodGroupStatus) -> StatusWrite | None:
    """The fields of the status, also those that are zero; None if they are as seen."""
    if wanted == seen:
        return None
    conditions = [to_builtins(each) for each in wanted.conditions]
    return StatusWrite({**structs.asdict(wanted), "conditions": conditions})


def _merged(seen: tuple[VolcanoCondition, ...], condition: VolcanoCondition) -> tuple[VolcanoCondition, ...]:
    """The condition in place of the one of its type or of the opposite type, with its time if it was set."""
    for each in seen:
        if (each.type, each.status) == (condition.type, condition.status):
            condition = replace(condition, last_transition_time=each.last_transition_time)
    return (condition, *_of_others(seen))


def _of_others(seen: tuple[VolcanoCondition, ...]) -> tuple[VolcanoCondition, ...]:
    return tuple(each for each in seen if each.type not in (_SCHEDULED, _UNSCHEDULABLE))


VOLCANO: Final = Dialect(
    name="scheduling.volcano.sh",
    kind=VolcanoPodGroup.__name__,
    field=f"annotation {_GROUP}",
    minimum_field="minMember",
    topology_field="spec.networkTopology",
    group_of=annotation(_GROUP),
    group_annotations=(_GROUP,),
    read=read_volcano_pod_group,
    role_of=task_of,
    marks_of=_marks_of,
    unsupported=_unsupported_of_pod,
    status=StatusRules(wanted=_wanted_status, subresource=""),
)
