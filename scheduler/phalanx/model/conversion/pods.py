"""Pods: the wire form as the scheduler's own struct."""

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Final

from phalanx.model.api import core
from phalanx.model.conversion.checkpoints import read_checkpoint
from phalanx.model.conversion.failures import read_disruption, read_end, read_failure, read_run
from phalanx.model.conversion.metadata import controller_of, count, identity, seconds
from phalanx.model.conversion.priorities import PREEMPT_LOWER, PriorityLevel, resolve
from phalanx.model.conversion.ranks import read_rank
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.conversion.shares import read_device
from phalanx.model.names import (
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    NodeName,
    PodUid,
)
from phalanx.model.pods import Pod, PodPhase, Scheduled
from phalanx.model.reasons import Objection, Reason

_PHASES: Final = {"": PodPhase.PENDING, **{str(phase): phase for phase in PodPhase}}
_KUBERNETES_SCHEDULER: Final = "default-scheduler"
_ENDS: Final = frozenset({"OnFailure", "Never"})
"""Restart policies of pods that end; the default is none of them."""


def read_pod(written: core.Pod, *, shapes: ShapeCache, classes: Mapping[str, PriorityLevel]) -> Pod:
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
        checkpointed=checkpointed,
        ignored=ignored,
        restarts_always=spec.restart_policy not in _ENDS,
    )


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
            "Leave one of them out: a PodGroup has its own minMember",
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
