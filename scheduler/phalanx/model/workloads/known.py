"""All kinds of workloads that are read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from phalanx.model.workloads.apps import DEPLOYMENT, REPLICA_SET, STATEFUL_SET
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.jobset import JOB_SET
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.lws import LEADER_WORKER_SET
from phalanx.model.workloads.mpi import MPI_JOB
from phalanx.model.workloads.ray import RAY_CLUSTER, RAY_JOB
from phalanx.model.workloads.spark import SPARK_APPLICATION
from phalanx.model.workloads.trainer import TRAIN_JOB
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
    TRAIN_JOB,
)

LABEL_OF_JOB: Final = "batch.kubernetes.io/controller-uid"
"""The API server sets it on the pods of a Job, and on a Job itself that has no other labels."""

POD: Final = "Pod"
"""The name for pods that own pods or other workloads. They are no gangs, but lead to their own owners."""


class WorkloadKinds(Struct, frozen=True):
    """Kinds of workloads that are read: those of this package, and those of the configuration."""

    by_name: Mapping[str, WorkloadKind]
    by_owner: Mapping[tuple[str, str], str]
    """Their names by API group and kind; with the version if other versions are another kind."""
    role_labels: Mapping[str, Mapping[str, str]]
    """The first of these labels that a pod has says its role, by its value if that is not the role. Pods of
    the training operator have two."""
    controller_labels: frozenset[str]
    """Labels that controllers set on the pods and Jobs that they make. A driver of Spark is no controller."""
    above: Mapping[str, WorkloadKind] = {}
    """Kinds without roles, by name: they make other workloads, and are read only to suspend them."""

    def of_owner(self, api_version: str, kind: str) -> str:
        """The name of the kind of an owner, as in owner references; empty for other kinds. Other versions of
        an API group are the same kind, unless they are one of their own."""
        group = api_version.rpartition("/")[0]
        return self.by_owner.get((api_version, kind)) or self.by_owner.get((group, kind), "")

    def suspended_as(self, name: str) -> WorkloadKind | None:
        """The kind of this name, which may be one that makes other workloads."""
        return self.by_name.get(name) or self.above.get(name)

    def above_owner(self, api_version: str, kind: str) -> str:
        """The name of the kind of an owner of a workload; empty for other kinds."""
        group = api_version.rpartition("/")[0]
        above = (each.name for each in self.above.values() if (each.group, each.kind) == (group, kind))
        return self.of_owner(api_version, kind) or next(above, "")

    def of_pod(self, api_version: str, kind: str, labels: Mapping[str, str]) -> str:
        """The same for the owner of a pod with these labels: some kinds count only for pods that opt in."""
        name = self.of_owner(api_version, kind)
        needed = self.by_name[name].only_with_labels if name in self.by_name else ()
        return name if not needed or any(labels.get(key, "false") != "false" for key in needed) else ""


def workload_kinds(more: Iterable[WorkloadKind] = ()) -> WorkloadKinds:
    """The kinds of this package and more of them."""
    found = (*_KINDS, *more)
    kinds = [kind for kind in found if kind.roles]
    owners = {
        (kind.api_version if kind.only_this_version else kind.group, kind.kind): kind.name for kind in kinds
    }
    return WorkloadKinds(
        by_name={kind.name: kind for kind in kinds},
        by_owner={("", "Pod"): POD, **owners},
        role_labels={kind.role_label: kind.role_of_label for kind in kinds if kind.role_label},
        controller_labels=frozenset((LABEL_OF_JOB, *_controller_labels(kinds))),
        above={kind.name: kind for kind in found if not kind.roles},
    )


def _controller_labels(kinds: Iterable[WorkloadKind]) -> Iterator[str]:
    for kind in kinds:
        if kind.role_label and not any(role.later for role in kind.roles):
            yield kind.role_label


KNOWN: Final = workload_kinds()
"""Without a configuration."""

WORKLOADS: Final = KNOWN.by_name
"""These by name."""

SINGLE_VERSIONS: Final = frozenset(
    name
    for name, kind in WORKLOADS.items()
    if any(other.group == kind.group and other.kind == kind.kind for other in _KINDS if other is not kind)
)
"""The names of kinds of which another version is another kind."""
