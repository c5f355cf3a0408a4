"""All kinds of workloads that are read."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.jobset import JOB_SET
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.ray import RAY_CLUSTER, RAY_JOB

_KINDS: Final = (JOB, JOB_SET, RAY_CLUSTER, RAY_JOB)

WORKLOADS: Final[Mapping[str, WorkloadKind]] = {kind.name: kind for kind in _KINDS}
"""By name."""

WORKLOAD_OF_OWNER: Final[Mapping[tuple[str, str], str]] = {
    (kind.group, kind.kind): kind.name for kind in WORKLOADS.values()
}
"""The name by API group and kind, as in owner references: the version may be another one."""

ROLE_LABELS: Final = tuple(dict.fromkeys(kind.role_label for kind in _KINDS if kind.role_label))
