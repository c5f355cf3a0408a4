"""Pods: the wire form as the scheduler's own struct."""

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.values import count, seconds
from phalanx.model.conversion.cluster_objects import PREEMPT_LOWER, PriorityLevel, resolve
from phalanx.model.conversion.metadata import controller_of, identity, read_checkpoint, read_rank
from phalanx.model.conversion.requests import read_device
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.names import (
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

_PHASES: Final = {"": PodPhase.PENDING, **{str(phase): phase for phase in PodPhase}}
_KUBERNETES_SCHEDULER: Final = "default-scheduler"
_ENDS: Final = frozenset({"OnFailure", "Never"})
"""Restart policies of pods that end; the default is none of them."""


def read_pod(
    written: core.Pod,
    *,
    shapes: ShapeCache,
    classes: Mapping[str, PriorityLevel],
    annotation_keys: tuple[str, ...] = (),
) -> Pod:
    """A pod. `classes` are the PriorityClasses, for pods that no API server has given a priority."""
    meta, spec, status = written.metadata, written.spec, written.status
    labels, owners = meta.labels, meta.owner_references
    priority, preemption_policy = _priority(spec, classes)
    shape = shapes.of(written)
    shared, own = shapes.labels_of(written)
    checkpointed, ignored = read_checkpoint(meta.annotations)
    disruption, disrupted = read_disruption(status)
    return Pod(
        uid=PodUid(identity("Pod", meta)),
        namespace=intern(meta.namespace),
        name=meta.name,
        shape=shape,
        scheduler_name=intern(spec.scheduler_name or _KUBERNETES_SCHEDULER),
        created=seconds(meta.creation_timestamp),
        node=NodeName(intern(spec.node_name)) if spec.node_name else None,
        phase=_PHASES.get(status.phase, PodPhase.UNKNOWN),
        deleting=meta.deletion_timestamp is not None,
        gated=bool(spec.scheduling_gates),
        priority=priority,
        preemption_policy=preemption_policy,
        group=_text(labels, LABEL_POD_GROUP),
        role=_text(labels, LABEL_ROLE) or "",
        subgroup=_text(labels, LABEL_SUBGROUP) or "",
        min_member=count(labels.get(LABEL_MIN_MEMBER)),
        queue=_text(labels, LABEL_QUEUE),
        controller=controller_of(owners),
        owners=tuple([owner.uid for owner in owners]),
        index=read_rank(labels),
        scheduled=_scheduled(status),
        failure=read_failure(status),
        disruption=intern(disruption),
        disrupted=disrupted,
        ended=read_end(meta, status),
        grace=meta.deletion_grace_period_seconds or 0,
        running_since=seconds(status.start_time) if status.phase == PodPhase.RUNNING else 0,
        ran=read_run(status),
        device=read_device(shape.requests, meta.annotations) if spec.node_name else None,
        problems=tuple(_problems(written, classes)),
        labels=shared,
        per_pod_labels=own,
        annotations=_annotations(meta.annotations, annotation_keys),
        checkpointed=checkpointed,
        ignored=ignored,
        restarts_always=spec.restart_policy not in _ENDS,
    )


def _annotations(written: Mapping[str, str], keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple([(intern(key), written[key]) for key in keys if key in written]) if keys else ()


def _text(labels: Mapping[str, str], key: str) -> str | None:
    """A label that many pods share, as one string; an empty one as none."""
    value = labels.get(key)
    return intern(value) if value else None


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


def _problems(pod: core.Pod, classes: Mapping[str, PriorityLevel]) -> Iterator[Objection]:
    """What is wrong with a pod outside its shape."""
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
    if LABEL_POD_GROUP in labels:
        yield from _group_label_problems(labels)
    elif LABEL_MIN_MEMBER in labels:
        yield from _min_member_problems(pod)


def _group_label_problems(labels: Mapping[str, str]) -> Iterator[Objection]:
    if not labels[LABEL_POD_GROUP]:
        yield Objection(
            Reason.INVALID_OBJECT, f"label {LABEL_POD_GROUP} is empty, expected a PodGroup's name"
        )
    if LABEL_MIN_MEMBER in labels:
        yield Objection(
            Reason.INCONSISTENT_GANG,
            f"labels {LABEL_POD_GROUP} and {LABEL_MIN_MEMBER} are both set",
            "Remove one of them: a PodGroup has its own minMember",
        )


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
"""Reasons of pods and of containers that speak of the node and not of the work on it."""

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
"""Reasons of a kubelet that does not take a pod; those of a lack of room begin with OutOf."""

_FAILED: Final = "Failed"
_SUCCEEDED: Final = "Succeeded"
_DISRUPTION: Final = "DisruptionTarget"
_SCHEDULED: Final = "PodScheduled"


def read_failure(status: core.PodStatus) -> PodFailure | None:
    """The kind of failure of a pod that has failed."""
    if status.phase != _FAILED:
        return None
    if status.reason in REJECTIONS or status.reason.startswith("OutOf"):
        return PodFailure.REJECTED
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    told = any(read_disruption(status)) or status.reason in NODE_REASONS
    if told or any(each.reason in NODE_REASONS for each in ended):
        return PodFailure.NODE_LOST
    if any(each.exit_code for each in _ended(status.init_container_statuses)):
        return PodFailure.INIT_CONTAINER
    return PodFailure.CONTAINER


def read_disruption(status: core.PodStatus) -> tuple[str, int]:
    """Why the pod is to be deleted, as its condition says, and since when it says so; empty where none does.

    In seconds since the epoch, 0 where nobody tells.
    """
    for each in status.conditions:
        if each.type == _DISRUPTION and each.status == "True":
            return each.reason or _DISRUPTION, seconds(each.last_transition_time)
    return "", 0


def read_end(meta: ObjectMeta, status: core.PodStatus) -> int:
    """When the pod failed or began to be deleted, in seconds since the epoch; 0 where nobody tells.

    By the clock of the API server, which stamps creations too, as far as that can be told.
    """
    if meta.deletion_timestamp is not None:
        return max(0, seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0))
    return _failed_at(status) if status.phase == _FAILED else 0


def read_run(status: core.PodStatus) -> tuple[int, int] | None:
    """When a pod that has succeeded began and ended, in seconds since the epoch; None where nobody tells."""
    if status.phase != _SUCCEEDED or status.start_time is None:
        return None
    began, ended = seconds(status.start_time), _last_end(status)
    return (began, ended) if ended >= began else None


def _failed_at(status: core.PodStatus) -> int:
    """The bind, which the API server stamped, and for how long the kubelet had the pod, by the node's clock.

    Only the kubelet says when containers ended, and the node's clock may be off. Right after the bind it says
    when it took the pod.
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
