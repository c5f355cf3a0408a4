"""Conversion of pods."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import intern
from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.values import count, seconds
from phalanx.model.conversion.cluster_objects import PREEMPT_LOWER, PriorityLevel, resolve
from phalanx.model.conversion.gang_label import problems_of_pod
from phalanx.model.conversion.metadata import (
    controller_of,
    identity,
    lost_controller,
    read_checkpoint,
    read_rank,
)
from phalanx.model.conversion.pod_status import (
    bound_at,
    failed_container,
    read_disruption,
    read_end,
    read_failure,
    read_run,
)
from phalanx.model.conversion.shapes import ShapeCache
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.known import named_groups
from phalanx.model.dialects.phalanx import PHALANX
from phalanx.model.dialects.yunikorn import YUNIKORN, application_without_task_group, queue_of
from phalanx.model.names import (
    ANNOTATION_CHARGED_QUEUE,
    KAI_QUEUE_LABEL,
    KUBERNETES_SCHEDULER,
    KUEUE_COUNT_ANNOTATION,
    KUEUE_GROUP_LABEL,
    LABEL_GANG,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    NodeName,
    PodUid,
)
from phalanx.model.pods import Pod, PodClaim, PodPhase, Scheduled
from phalanx.model.reasons import Objection, Reason
from phalanx.model.supplies.devices.extended_resources import EXTENDED_RESOURCE_CLAIM
from phalanx.model.supplies.gpu_shares.read import read_device
from phalanx.model.supplies.volumes.read import read_claims
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
    (dialect, group, others), disruption = _groups(written), read_disruption(status)
    shape, own_labels, ranked = shapes.of(written), shapes.labels_of(written), _priority(spec, classes)
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
        priority=ranked[0],
        preemption_policy=ranked[1],
        group=group,
        dialect=dialect.name,
        other_groups=tuple([(each.name, intern(name)) for each, name in others]) if others else (),
        group_marks=_marks(written, dialect.marks_of) if dialect.marks_of is not None else (),
        role=_role(written, dialect, group, kinds),
        subgroup=_subgroup(written, dialect),
        min_member=_min_member(meta) if KUEUE_GROUP_LABEL in labels else count(labels.get(LABEL_MIN_MEMBER)),
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
        failed=failed_container(status),
        disruption=intern(disruption[0]),
        disrupted=disruption[1],
        ended=read_end(meta, status),
        grace=meta.deletion_grace_period_seconds or 0,
        bound_since=bound_at(status) if spec.node_name else 0,
        running_since=seconds(status.start_time) if status.phase == PodPhase.RUNNING else 0,
        ran=read_run(status),
        device=read_device(shape.requests, meta.annotations) if spec.node_name else None,
        problems=tuple(_problems(written, classes, dialect, group, kinds)),
        labels=own_labels[0],
        per_pod_labels=own_labels[1],
        annotations=_annotations(meta.annotations, annotation_keys) if annotation_keys else (),
        checkpointed=(checkpoint := read_checkpoint(meta.annotations))[0],
        ignored=checkpoint[1],
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


def _min_member(meta: ObjectMeta) -> int | None:
    """The number in the label; else that of the group of Kueue in which a pod without an owner is."""
    if LABEL_MIN_MEMBER not in meta.labels and not meta.owner_references:
        return count(meta.annotations.get(KUEUE_COUNT_ANNOTATION)) or None
    return count(meta.labels.get(LABEL_MIN_MEMBER))


def _is_counted_by_label(meta: ObjectMeta) -> bool:
    """Whether its gang is that of the label `min-member`."""
    labels = meta.labels
    is_counted = LABEL_POD_GROUP not in labels and count(labels.get(LABEL_MIN_MEMBER)) is not None
    return is_counted and controller_of(meta.owner_references) is not None


def _problems(
    pod: core.Pod,
    classes: Mapping[str, PriorityLevel],
    dialect: Dialect,
    group: str | None,
    kinds: WorkloadKinds,
) -> Iterator[Objection]:
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
    elif labels.get(LABEL_GANG, "false") != "false" and not group:
        yield from problems_of_pod(controller_of(pod.metadata.owner_references, labels, kinds))
    if group is None and not pod.metadata.owner_references:
        yield from lost_controller(labels, kinds)
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


def read_pod_claims(written: core.Pod) -> tuple[PodClaim, ...]:
    """The claims of a pod, with the names that the controller of Kubernetes has written into its status.

    A pod with a node may have one more that a scheduler made for its extended resources. One that waits has
    none that counts: the claim of an earlier attempt is deleted.
    """
    found = _of_extended_resources(written)
    if not written.spec.resource_claims:
        return found
    made = {each.name: each.resource_claim_name for each in written.status.resource_claim_statuses}
    return (
        *(
            PodClaim(name=each.name, claim=each.resource_claim_name)
            if each.resource_claim_name
            else PodClaim(
                name=each.name,
                claim=made.get(each.name) or "",
                is_own=True,
                is_needless=each.name in made and made[each.name] is None,
            )
            for each in written.spec.resource_claims
        ),
        *found,
    )


def _of_extended_resources(written: core.Pod) -> tuple[PodClaim, ...]:
    status = written.status.extended_resource_claim_status
    if status is None or not written.spec.node_name or not status.resource_claim_name:
        return ()
    return (PodClaim(EXTENDED_RESOURCE_CLAIM, status.resource_claim_name, is_own=True, is_for_extended=True),)
