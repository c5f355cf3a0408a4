"""A pod's rank among the pods of its workload, from the labels that workload controllers write.

Label names as in Kubernetes (Job, StatefulSet), JobSet, LeaderWorkerSet and the Kubeflow training operator.
"""

from collections.abc import Mapping
from typing import Final

from phalanx.model.conversion.metadata import count
from phalanx.model.pods import GROUP_INDEX_STRIDE

_PARTS: Final = ("jobset.sigs.k8s.io/job-global-index", "leaderworkerset.sigs.k8s.io/group-index")
"""Number of the part of the workload in which the pod lies: a replicated job, a leader with its workers."""

_INSIDE: Final = (
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
)
"""Number of the pod inside its part. A leader's StatefulSet numbers the parts, so that label goes last."""

OWN_LABELS: Final = frozenset((*_PARTS, *_INSIDE, "statefulset.kubernetes.io/pod-name"))
"""Labels of which controllers give each pod of a workload, or each few of them, another value."""


def read_rank(labels: Mapping[str, str]) -> int | None:
    """Ranks order the pods of a workload, part by part; they may have gaps. None without any label."""
    part, inside = _first(labels, _PARTS), _first(labels, _INSIDE)
    if part is None:
        return inside
    return part * GROUP_INDEX_STRIDE + (inside or 0)


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if key in labels and (number := count(labels[key])) is not None:
            return number
    return None
