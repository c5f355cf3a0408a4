"""All kinds of workloads that are read."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.workloads.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.jobset import JOB_SET
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.lws import LEADER_WORKER_SET
from phalanx.model.workloads.mpi import MPI_JOB
from phalanx.model.workloads.ray import RAY_CLUSTER, RAY_JOB
from phalanx.model.workloads.spark import SPARK_APPLICATION
from phalanx.model.workloads.training_v1 import TRAINING_JOBS

_KINDS: Final = (
    JOB,
    JOB_SET,
    RAY_CLUSTER,
    RAY_JOB,
    *TRAINING_JOBS,
    MPI_JOB,
    LEADER_WORKER_SET,
    STATEFUL_SET,
    DEPLOYMENT,
    REPLICA_SET,
    SPARK_APPLICATION,
)

WORKLOADS: Final[Mapping[str, WorkloadKind]] = {kind.name: kind for kind in _KINDS}
"""By name."""

POD: Final = "Pod"
"""The name for pods that own pods or other workloads. They are no gangs, but lead to their own owners."""

_BY_VERSION: Final = {
    ("", "Pod"): POD,
    **{(kind.api_version if kind.only_this_version else kind.group, kind.kind): kind.name for kind in _KINDS},
}

ROLE_LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    kind.role_label: kind.role_of_label for kind in _KINDS if kind.role_label
}
"""The first of these labels that a pod has says its role. Pods of the training operator have two."""


def workload_of_owner(api_version: str, kind: str) -> str:
    """The name of the kind of an owner, as in owner references; empty for other kinds. Other versions of an
    API group are the same kind, unless they are one of their own."""
    return _BY_VERSION.get((api_version, kind)) or _BY_VERSION.get((api_version.rpartition("/")[0], kind), "")


def workload_of_pod(api_version: str, kind: str, labels: Mapping[str, str]) -> str:
    """The same for the owner of a pod with these labels: some kinds count only for pods that opt in."""
    name = workload_of_owner(api_version, kind)
    needed = WORKLOADS[name].only_with_labels if name in WORKLOADS else ()
    return name if not needed or any(labels.get(key, "false") != "false" for key in needed) else ""
