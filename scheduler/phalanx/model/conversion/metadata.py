"""Metadata of API objects: identity, owners, the rank of a pod, and the checkpoint annotation."""

from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.model.api.meta import ObjectMeta, OwnerReference
from phalanx.model.api.values import count, time_s
from phalanx.model.names import ANNOTATION_LAST_CHECKPOINT
from phalanx.model.pods import GROUP_INDEX_STRIDE, Controller
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.known import KNOWN, WorkloadKinds

_SHOWN_CHARACTERS: Final = 64

_GROUP_INDICES: Final = (
    "jobset.sigs.k8s.io/job-global-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "ray.io/worker-group-replica-index",
)
"""Labels with the index of a group of pods inside a workload: a replicated job, a leader with its workers,
the hosts of a replica."""

_POD_INDICES: Final = (
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
    "ray.io/replica-host-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels with the index of a pod inside its group. The last one counts groups on a leader's StatefulSet."""

_INDICES: Final = frozenset((*_GROUP_INDICES, *_POD_INDICES))

PER_POD_LABELS: Final = frozenset((*_INDICES, "statefulset.kubernetes.io/pod-name"))
"""Labels that workload controllers set to a different value on each pod, or on each few pods."""


def identity(kind: str, meta: ObjectMeta) -> str:
    """The UID; kind, namespace and name for a manifest that no API server has stored."""
    return meta.uid or f"{kind}/{meta.namespace}/{meta.name}"


def controller_of(
    owners: tuple[OwnerReference, ...],
    pod_labels: Mapping[str, str] | None = None,
    kinds: WorkloadKinds = KNOWN,
) -> Controller | None:
    """The owner that is marked as controller; `pod_labels` are those of the pod that it owns."""
    for owner in owners:
        if owner.controller:
            at = (owner.api_version, owner.kind)
            workload = kinds.of_owner(*at) if pod_labels is None else kinds.of_pod(*at, pod_labels)
            return Controller(kind=owner.kind, name=owner.name, uid=owner.uid, workload=workload)
    return None


def lost_controller(labels: Mapping[str, str], kinds: WorkloadKinds) -> Iterator[Objection]:
    """That a pod or a Job without an owner was made by a controller: its owner was deleted without it. How
    many others start with it is not known."""
    if kinds.controller_labels.isdisjoint(labels):
        return
    label = min(kinds.controller_labels.intersection(labels))
    message = f"it has no owner any more, and its label {label} says that it was made by one"
    yield Objection(Reason.WORKLOAD_NOT_FOUND, message, "Delete it, or remove this label")


def read_rank(labels: Mapping[str, str]) -> int | None:
    """Rank of a pod in its workload, group by group; None without an index label. Ranks may have gaps.

    Labels as of Job, StatefulSet, JobSet, LeaderWorkerSet, KubeRay, the training operator and Volcano.
    """
    if _INDICES.isdisjoint(labels):
        return None
    group, inside = _first_number(labels, _GROUP_INDICES), _first_number(labels, _POD_INDICES)
    if group is None:
        return inside
    return group * GROUP_INDEX_STRIDE + (inside or 0)


def _first_number(labels: Mapping[str, str], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if key in labels and (number := count(labels[key])) is not None:
            return number
    return None


def read_checkpoint(annotations: Mapping[str, str]) -> tuple[int, str]:
    """Time of the last checkpoint (seconds since the epoch, 0 for none), and an error or an empty text."""
    text = annotations.get(ANNOTATION_LAST_CHECKPOINT)
    if text is None:
        return 0, ""
    at = time_s(text)
    if at is not None:
        return at, ""
    path = f"metadata.annotations[{ANNOTATION_LAST_CHECKPOINT}]"
    return 0, f"{path}: {text[:_SHOWN_CHARACTERS]!r} is not a time such as 2026-11-01T10:00:00Z"
