"""All kinds of workloads that are read."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.jobset import JOB_SET
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.mpi import MPI_JOB
from phalanx.model.workloads.ray import RAY_CLUSTER, RAY_JOB
from phalanx.model.workloads.training_v1 import TRAINING_JOBS

_KINDS: Final = (JOB, JOB_SET, RAY_CLUSTER, RAY_JOB, *TRAINING_JOBS, MPI_JOB)

WORKLOADS: Final[Mapping[str, WorkloadKind]] = {kind.name: kind for kind in _KINDS}
"""By name."""

_BY_VERSION: Final = {
    (kind.api_version if kind.only_this_version else kind.group, kind.kind): kind.name for kind in _KINDS
}

ROLE_LABELS: Final = tuple(dict.fromkeys(kind.role_label for kind in _KINDS if kind.role_label))
"""The first of these labels that a pod has names its role. Pods of the training operator have two."""


def workload_of_owner(api_version: str, kind: str) -> str:
    """The name of the kind of an owner, as in owner references; empty for other kinds. Other versions of an
    API group are the same kind, unless they are one of their own."""
    return _BY_VERSION.get((api_version, kind)) or _BY_VERSION.get((api_version.rpartition("/")[0], kind), "")
