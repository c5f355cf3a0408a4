"""Fields that a workload does not name have the values that its controller gives them."""

from typing import Any

import pytest
from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.documents import Document
from phalanx.cli.manifests.read import read_documents
from phalanx.cli.verbs.views.pods_of_workloads import pods_of
from phalanx.model.workloads.known import KNOWN

from tests.model.gangs_of_workloads import gang_of, minimums
from tests.model.written import controlled_by, label, pod, workload

TEMPLATE = {"spec": {"schedulerName": "phalanx", "containers": [{"name": "main"}]}}


def ray(**group: Any) -> dict[str, Any]:
    return {
        "headGroupSpec": {"template": TEMPLATE},
        "workerGroupSpecs": [{"groupName": "w", "template": TEMPLATE, **group}],
    }


@pytest.mark.parametrize(
    ("kind", "spec", "says"),
    [
        ("Job.batch", {"parallelism": "two"}, "spec.parallelism is 'two', expected a whole number from 0 to"),
        ("Job.batch", {"parallelism": -2}, "spec.parallelism is -2, expected a whole number"),
        ("Job.batch", {"parallelism": 10**18}, "spec.parallelism is 1000000000000000000, expected"),
        ("Job.batch", {"parallelism": True}, "spec.parallelism is True, expected"),
        ("RayCluster.ray.io", {"headGroupSpec": 5}, "spec.headGroupSpec is 5, expected an object"),
        ("RayCluster.ray.io", {"workerGroupSpecs": [7]}, "spec.workerGroupSpecs is 7, expected an object"),
        (
            "RayCluster.ray.io",
            {"workerGroupSpecs": [{"groupName": "w", "replicas": "3"}]},
            "spec.workerGroupSpecs.replicas is '3', expected",
        ),
        ("JobSet.jobset.x-k8s.io", {"replicatedJobs": "w"}, "spec.replicatedJobs is 'w', expected an object"),
    ],
)
def test_a_gang_with_a_wrong_number_of_pods_waits(kind: str, spec: dict[str, Any], says: str) -> None:
    api = KNOWN.by_name[kind]
    owner = {"kind": api.kind, "api_version": api.api_version}
    gang = gang_of(workload(kind, "x", **spec), pod("p", meta=controlled_by("x", **owner)))
    assert says in gang.problems[0].message


def replicas(field: str, *types: str) -> dict[str, Any]:
    return {field: {each: {"template": TEMPLATE} for each in types}}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("RayCluster.ray.io", ray(), {"headgroup": 1, "w": 0}),
        ("RayCluster.ray.io", ray(minReplicas=2), {"headgroup": 1, "w": 2}),
        ("RayCluster.ray.io", ray(replicas=3, numOfHosts=2), {"headgroup": 1, "w": 6}),
        ("RayCluster.ray.io", {**ray(), "enableInTreeAutoscaling": True}, {"headgroup": 1, "w": 0}),
        ("RayJob.ray.io", {"rayClusterSpec": ray()}, {"headgroup": 1, "w": 0}),
        (
            "MPIJob.kubeflow.org",
            replicas("mpiReplicaSpecs", "Launcher", "Worker"),
            {"launcher": 1, "worker": 0},
        ),
        (
            "PyTorchJob.kubeflow.org",
            replicas("pytorchReplicaSpecs", "Master", "Worker"),
            {"master": 1, "worker": 1},
        ),
        (
            "JobSet.jobset.x-k8s.io",
            {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": TEMPLATE}}}]},
            {"w": 1},
        ),
    ],
)
def test_missing_numbers_of_pods(kind: str, spec: dict[str, Any], expected: dict[str, int]) -> None:
    written = workload(kind, "x", **spec)
    api = KNOWN.by_name[kind]
    first = next(iter(expected))
    owner = {"kind": api.kind, "api_version": api.api_version}
    labels = {api.role_label: first} if api.role_label else {}
    assert minimums(gang_of(written, pod("p", labels=labels, meta=controlled_by("x", **owner)))) == expected


@pytest.mark.parametrize(
    ("policy", "reserved"),
    [
        ({}, True),
        ({"podManagementPolicy": "OrderedReady"}, True),
        ({"podManagementPolicy": "Parallel"}, False),
    ],
)
def test_pods_of_a_stateful_set_come_one_by_one(policy: dict[str, str], reserved: bool) -> None:
    spec = {"replicas": 3, "template": TEMPLATE, **policy}
    meta = controlled_by("x", kind="StatefulSet", api_version="apps/v1")
    gang = gang_of(
        workload("StatefulSet.apps", "x", **spec), pod("x-0", labels={label("gang"): "true"}, meta=meta)
    )
    assert gang.reserves is reserved


def document(version: str, kind: str, spec: dict[str, Any]) -> Document:
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return Document("input", 0, value)


def test_pods_that_are_submitted_are_as_many() -> None:
    """For `phalanx what-if --submit`."""
    counts = [
        len(list(pods_of(document("ray.io/v1", "RayCluster", ray(**group)), KNOWN)))
        for group in ({}, {"minReplicas": 2}, {"replicas": 3})
    ]
    assert counts == [1, 3, 4]


@pytest.mark.parametrize(
    ("version", "kind", "is_read"),
    [
        ("jobset.x-k8s.io/v1", "JobSet", True),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", True),
        ("ray.io/v1alpha1", "RayCluster", True),
        ("leaderworkerset.x-k8s.io/v1alpha1", "LeaderWorkerSet", True),
        ("sparkoperator.k8s.io/v1alpha1", "SparkApplication", True),
        ("kubeflow.org/v1", "MPIJob", True),
        ("kubeflow.org/v2beta1", "MPIJob", True),
        ("kubeflow.org/v1alpha2", "MPIJob", False),
        ("jobset.x-k8s.io/first", "JobSet", False),
        ("batch/v2", "Job", False),
        ("apps/v1beta1", "Deployment", False),
    ],
)
def test_custom_workloads_are_read_in_any_version(version: str, kind: str, is_read: bool) -> None:
    given = [document(version, kind, {})]
    if is_read:
        assert len([each for each in read_documents(given).objects if each.metadata.name == "x"]) == 1
    else:
        with pytest.raises(BadInput, match="apiVersion: expected "):
            read_documents(given)
