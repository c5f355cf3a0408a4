"""Which workloads are suspended to evict a gang."""

from collections.abc import Mapping
from typing import Any

import pytest
from phalanx.kube.workload_suspender import is_suspendable
from phalanx.model.api.meta import ObjectMeta, OwnerReference
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.mpi import MPI_JOB

Fields = Mapping[str, Any]


def found(
    meta: Fields | None = None, spec: Fields | None = None, status: Fields | None = None
) -> WorkloadObject:
    written = {"name": "train", "namespace": "team", "uid": "u1", **(meta or {})}
    return WorkloadObject(metadata=ObjectMeta(**written), spec=spec or {}, status=status or {})


def owned_by(kind: str, api_version: str = "batch/v1", *, controller: bool = True) -> Fields:
    owner = OwnerReference(kind, "owner", "u0", controller=controller, api_version=api_version)
    return {"owner_references": (owner,)}


@pytest.mark.parametrize(
    ("workload", "kind", "expected"),
    [
        (found(), JOB, True),
        (found(spec={"suspend": False}), JOB, True),
        (found(spec={"suspend": True}), JOB, False),
        (found(status={"active": 4}), JOB, True),
        (found(status={"active": 5}), JOB, False),
        (found(status={"active": 5}), MPI_JOB, True),
        (found({"deletion_timestamp": "2026-01-01T00:00:00Z"}), JOB, False),
        (found(owned_by("CronJob")), JOB, True),
        (found(owned_by("JobSet", "jobset.x-k8s.io/v1alpha2")), JOB, False),
        (found(owned_by("Team", "example.com/v1", controller=False)), JOB, True),
        (found({"labels": {"kueue.x-k8s.io/queue-name": "a"}}), JOB, False),
        (found(owned_by("Workload", "kueue.x-k8s.io/v1beta1", controller=False)), JOB, False),
        (found(spec={"managedBy": "kueue.x-k8s.io/multikueue"}), JOB, False),
        (found(spec={"managedBy": "kubernetes.io/job-controller"}), JOB, True),
        (found(spec={"runPolicy": {"suspend": True}}), MPI_JOB, False),
        (found(spec={"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}), MPI_JOB, False),
        (found(spec={"runPolicy": "wrong"}), MPI_JOB, True),
    ],
)
def test_who_decides_about_a_workload(workload: WorkloadObject, kind: WorkloadKind, expected: bool) -> None:
    """A Job knows how many pods it has: here the gang has four."""
    assert is_suspendable(workload, kind, pods=4) is expected
