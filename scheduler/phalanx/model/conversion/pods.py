"""Conversion of pods."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import intern
from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.values import count, seconds
from phalanx.model.conversion.cluster_objects import PREEMPT_LOWER, PriorityLevel, resolve
from phalanx.model.conversion.metadata import controller_of, identity, read_checkpoint, read_rank
from phalanx.model.conversion.pod_devices import read_pod_claims
from phalanx.model.conversion.pod_volumes import read_claims
from phalanx.model.conversion.requests import read_device
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.known import named_groups
from phalanx.model.dialects.phalanx import PHALANX
from phalanx.model.dialects.yunikorn import YUNIKORN, application_without_task_group, queue_of
from phalanx.model.names import (
    ANNOTATION_CHARGED_QUEUE,
    KAI_QUEUE_LABEL,
    KUBERNETES_SCHEDULER,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    NodeName,
    PodUid,
)
from phalanx.model.pods import Pod, PodFailure, PodPhase, Scheduled
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.known import KNOWN, WorkloadKinds

_PHASES: Final = {"": PodPhase.PENDING, **{str(phase): phase for phase in PodPhase}}
_ENDS: Final = frozenset({"OnFailure", "Never"})
"""Restart policies of pods that end. The default is not among them."""


def read_pod(
    written: core.Pod,
    *,
    shapes: ShapeCache,
    classes: Mapping[str, PriorityLevel],
    annotation_keys: tuple[str, ...] = (),
    kinds: WorkloadKinds = KNOWN,
) -> Pod:
    """Convert one pod. `classes`: for pods without a priority from an API server. `kinds`: of its owners."""
    meta, spec, status, labels = written.metadata, written.spec, written.status, written.metadata.labels
    (dialect, group, others), (priority, preemption_policy) = _groups(written), _priority(spec, classes)
    shape, (shared, own) = shapes.of(written), shapes.labels_of(written)
    (checkpointed, ignored), disruption = read_checkpoint(meta.annotations), read_disruption(status)
    return Pod(
        uid=PodUid(identity("Pod", meta)),
        namespace=intern(meta.namespace),
        name=meta.name,
        shape=shape,
        scheduler_name=intern(spec.scheduler_name or KUBERNETES_SCHEDULER),
        created=seconds(meta.creation_timestamp),
        node=NodeName(intern(spec.node_name)) if spec.node_name else None,
        phase=_PHASES.get(status.phase, PodPhase.UNKNOWN),
        deleting=meta.deletion_timestamp is not None,
        gated=bool(spec.scheduling_gates),
        priority=priority,
        preemption_policy=preemption_policy,
        group=group,
        dialect=dialect.name,
        other_groups=tuple([(each.name, intern(name)) for each, name in others]) if others else (),
        group_marks=_marks(written, dialect.marks_of) if dialect.marks_of is not None else (),
        role=_role(written, dialect, group, kinds),
        subgroup=_subgroup(written, dialect),
        min_member=count(labels.get(LABEL_MIN_MEMBER)),
        queue=_queue(written, dialect, others),
        charged_queue=_text(meta.annotations, ANNOTATION_CHARGED_QUEUE) if spec.node_name else None,
        controller=controller_of(meta.owner_references, labels, kinds),
        owners=tuple([owner.uid for owner in meta.owner_references]) if meta.owner_references else (),
        claims=read_claims(written),
        device_claims=read_pod_claims(written),
        extended=shapes.extended_of(written),
        index=read_rank(labels),
        scheduled=_scheduled(status),
        nominated=NodeName(intern(status.nominated_node_name)) if status.nominated_node_name else None,
        failure=read_failure(status),
        disruption=intern(disruption[0]),
        disrupted=disruption[1],
        ended=read_end(meta, status),
        grace=meta.deletion_grace_period_seconds or 0,
        bound_since=_bound_at(status) if spec.node_name else 0,
        running_since=seconds(status.start_time) if status.phase == PodPhase.RUNNING else 0,
        ran=read_run(status),
        device=read_device(shape.requests, meta.annotations) if spec.node_name else None,
        problems=tuple(_problems(written, classes, dialect)),
        labels=shared,
        per_pod_labels=own,
        annotations=_annotations(meta.annotations, annotation_keys) if annotation_keys else (),
        checkpointed=checkpointed,
        ignored=ignored,
        restarts_always=spec.restart_policy not in _ENDS,
    )


def _annotations(written: Mapping[str, str], keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple([(intern(key), written[key]) for key in keys if key in written])


def _text(labels: Mapping[str, str], key: str) -> str | None:
    """A label or annotation whose value many pods share, as an interned string; None for an empty one."""
    value = labels.get(key)
    return intern(value) if value else None


def _groups(pod: core.Pod) -> tuple[Dialect, str | None, list[tuple[Dialect, str]]]:
    """The PodGroup by which the pod is in a gang, None for none, and those that it names as well.

    A pod that names none may belong to an application of YuniKorn, whose other pods decide what it is.
    """
    named = named_groups(pod)
    if not named:
        application = application_without_task_group(pod)
        is_free = application and not _is_counted_by_label(pod.metadata)
        return PHALANX, None, [(YUNIKORN, application)] if is_free else named
    if _is_counted_by_label(pod.metadata):
        return PHALANX, None, named
    (dialect, name), *others = named
    return dialect, intern(name), others


def _role(pod: core.Pod, dialect: Dialect, group: str | None, kinds: WorkloadKinds) -> str:
    labels = pod.metadata.labels
    if dialect.role_of is not None:
        return intern(dialect.role_of(pod))
    return _text(labels, LABEL_ROLE) or (_role_in_workload(labels, kinds) if group is None else "")


def _queue(pod: core.Pod, dialect: Dialect, others: list[tuple[Dialect, str]]) -> str | None:
    """The queue that it names. YuniKorn's labels count for pods of its applications."""
    labels = pod.metadata.labels
    found = labels.get(LABEL_QUEUE) or labels.get(KAI_QUEUE_LABEL)
    if not found and (dialect is YUNIKORN or (others and any(other is YUNIKORN for other, _ in others))):
        found = queue_of(pod)
    return intern(found) if found else None


def _subgroup(pod: core.Pod, dialect: Dialect) -> str:
    if dialect.subgroup_of is None:
        return _text(pod.metadata.labels, LABEL_SUBGROUP) or ""
    return intern(dialect.subgroup_of(pod))


def _marks(pod: core.Pod, marks_of: Callable[[core.Pod], Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((intern(key), intern(value)) for key, value in marks_of(pod).items()))


def _unsupported(paths: Iterable[str]) -> Iterator[Objection]:
    for path in paths:
        text = f"field {path} of pods is not supported yet"
        yield Objection(Reason.UNSUPPORTED_FIELD, text, f"Remove {path}")


def _role_in_workload(labels: Mapping[str, str], kinds: WorkloadKinds) -> str:
    """The role by the label that the controllers of workloads set. It means nothing in other gangs."""
    if LABEL_MIN_MEMBER in labels:
        return ""
    for key, roles in kinds.role_labels.items():
        if value := _text(labels, key):
            return roles.get(value) or roles.get("*") or value
    return ""


def _priority(spec: core.PodSpec, classes: Mapping[str, PriorityLevel]) -> tuple[int, str]:
    if spec.priority is not None:
        return spec.priority, intern(spec.preemption_policy or PREEMPT_LOWER)
    level = resolve(spec.priority_class_name, classes) or PriorityLevel()
    return level.value, spec.preemption_policy or level.preemption_policy


def _scheduled(status: core.PodStatus) -> Scheduled | None:
    for condition in status.conditions:
        if condition.type == "PodScheduled":
            return Scheduled(status=condition.status, reason=condition.reason, message=condition.message)
    return None


def _is_counted_by_label(meta: ObjectMeta) -> bool:
    """Whether its gang is that of the label `min-member`."""
    labels = meta.labels
    is_counted = LABEL_POD_GROUP not in labels and count(labels.get(LABEL_MIN_MEMBER)) is not None
    return is_counted and controller_of(meta.owner_references) is not None


def _problems(pod: core.Pod, classes: Mapping[str, PriorityLevel], dialect: Dialect) -> Iterator[Objection]:
    """Errors of a pod outside its shape, and fields of its dialect without a counterpart."""
    labels, spec = pod.metadata.labels, pod.spec
    if (
        spec.priority is None
        and spec.priority_class_name
        and resolve(spec.priority_class_name, classes) is None
    ):
        yield Objection(
            Reason.INVALID_OBJECT,
            f"spec.priorityClassName: no PriorityClass {spec.priority_class_name!r} exists",
        )
    if LABEL_POD_GROUP in labels and not labels[LABEL_POD_GROUP]:
        yield Objection(
            Reason.INVALID_OBJECT, f"label {LABEL_POD_GROUP} is empty, expected a PodGroup's name"
        )
    if LABEL_POD_GROUP in labels and LABEL_MIN_MEMBER in labels:
        yield Objection(
            Reason.INCONSISTENT_GANG,
            f"labels {LABEL_POD_GROUP} and {LABEL_MIN_MEMBER} are both set",
            "Remove one of them: a PodGroup has its own minMember",
        )
    elif LABEL_MIN_MEMBER in labels:
        yield from _min_member_problems(pod)
    if dialect.unsupported is not None:
        yield from _unsupported(dialect.unsupported(pod))


def _min_member_problems(pod: core.Pod) -> Iterator[Objection]:
    written = pod.metadata.labels[LABEL_MIN_MEMBER]
    if not count(written):
        yield Objection(
            Reason.INVALID_OBJECT, f"label {LABEL_MIN_MEMBER} is {written!r}, expected a whole number from 1"
        )
    if controller_of(pod.metadata.owner_references) is None:
        yield Objection(
            Reason.INCONSISTENT_GANG,
            f"label {LABEL_MIN_MEMBER} is set, but the pod has no controller whose pods could be the gang",
            f"Create a PodGroup and name it in the label {LABEL_POD_GROUP}",
        )


NODE_REASONS: Final = frozenset({"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Evicted"})
"""Failure reasons of pods and containers that the node caused, not the work."""

REJECTIONS: Final = frozenset(
    {
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "InsufficientResources",
    }
)
"""Reasons of a kubelet that rejects a pod. Those for insufficient resources start with OutOf."""

_FAILED: Final = "Failed"
_SUCCEEDED: Final = "Succeeded"
_DISRUPTION: Final = "DisruptionTarget"
_SCHEDULED: Final = "PodScheduled"


def read_failure(status: core.PodStatus) -> PodFailure | None:
    """The kind of failure of a failed pod."""
    if status.phase != _FAILED:
        return None
    if status.reason in REJECTIONS or status.reason.startswith("OutOf"):
        return PodFailure.REJECTED
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    is_reported = any(read_disruption(status)) or status.reason in NODE_REASONS
    if is_reported or any(each.reason in NODE_REASONS for each in ended):
        return PodFailure.NODE_LOST
    if any(each.exit_code for each in _ended(status.init_container_statuses)):
        return PodFailure.INIT_CONTAINER
    return PodFailure.CONTAINER


def read_disruption(status: core.PodStatus) -> tuple[str, int]:
    """Reason and time of the DisruptionTarget condition; an empty reason without one.

    The time is in seconds since the epoch, 0 if unknown.
    """
    for each in status.conditions:
        if each.type == _DISRUPTION and each.status == "True":
            return each.reason or _DISRUPTION, seconds(each.last_transition_time)
    return "", 0


def read_end(meta: ObjectMeta, status: core.PodStatus) -> int:
    """When the pod failed or its deletion started, in seconds since the epoch; 0 if unknown.

    It is by the clock of the API server, which also sets creation times, as far as that is possible.
    """
    if meta.deletion_timestamp is not None:
        return max(0, seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0))
    return _failed_at(status) if status.phase == _FAILED else 0


def read_run(status: core.PodStatus) -> tuple[int, int] | None:
    """Start and end of a succeeded pod, in seconds since the epoch; None if unknown."""
    if status.phase != _SUCCEEDED or status.start_time is None:
        return None
    began, ended = seconds(status.start_time), _last_end(status)
    return (began, ended) if ended >= began else None


def _failed_at(status: core.PodStatus) -> int:
    """The time of the bind by the API server's clock, plus the run time of the pod by the node's clock.

    Only the kubelet reports when containers ended, and the node's clock may be wrong. The kubelet reports
    right after the bind when it accepted the pod.
    """
    ended, bound = _last_end(status), _bound_at(status)
    if not ended or not bound or status.start_time is None:
        return ended
    return bound + max(0, ended - seconds(status.start_time))


def _bound_at(status: core.PodStatus) -> int:
    for each in status.conditions:
        if each.type == _SCHEDULED and each.status == "True":
            return seconds(each.last_transition_time)
    return 0


def _last_end(status: core.PodStatus) -> int:
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    return max((seconds(each.finished_at) for each in ended), default=0)


def _ended(statuses: tuple[core.ContainerStatus, ...]) -> list[core.Terminated]:
    states = [each.state for each in statuses if each.state is not None]
    return [state.terminated for state in states if state.terminated is not None]
