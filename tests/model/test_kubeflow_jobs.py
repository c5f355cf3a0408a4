"""Jobs of Kubeflow's operators: the pods have the labels and owners that these write."""

from typing import Any

import pytest
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.gangs import GangKind
from phalanx.model.reasons import Reason

from tests.model.gangs_of_workloads import gang_of, minimums
from tests.model.written import controlled_by, job, label, pod, pod_of_job, workload

V1 = "kubeflow.org/v1"
V2 = "kubeflow.org/v2beta1"


def replicas(scheduler: str = "phalanx", **counts: int) -> dict[str, Any]:
    template = {"spec": {"schedulerName": scheduler}}
    return {name: {"replicas": count, "template": template} for name, count in counts.items()}


def operator_pod(kind: str, replica: str, index: int = 0) -> Pod:
    """As training-operator v1.9 makes it: a master has a second label with a role."""
    labels = {
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/operator-name": f"{kind.lower()}-controller",
        "training.kubeflow.org/replica-index": str(index),
        "training.kubeflow.org/replica-type": replica,
    }
    if replica in ("master", "chief"):
        labels["training.kubeflow.org/job-role"] = "master"
    owner = controlled_by("train", kind=kind, api_version=V1)
    return pod(f"train-{replica}-{index}", labels=labels, meta=owner)


def pytorch(status: dict[str, Any] | None = None, **spec: Any) -> WorkloadObject:
    shape = {"pytorchReplicaSpecs": replicas(Master=1, Worker=3)}
    return workload("PyTorchJob.kubeflow.org", "train", status=status, **{**shape, **spec})


PYTORCH_PODS = [operator_pod("PyTorchJob", "master")] + [
    operator_pod("PyTorchJob", "worker", index) for index in range(3)
]


@pytest.mark.parametrize(
    ("kind", "field", "counts", "roles"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}, {"master": 1, "worker": 3}),
        (
            "TFJob",
            "tfReplicaSpecs",
            {"PS": 2, "Worker": 4, "Chief": 1, "Evaluator": 1},
            {"chief": 1, "ps": 2, "worker": 4, "evaluator": 1},
        ),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}, {"launcher": 1, "worker": 2}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}, {"master": 1, "worker": 2}),
        ("PaddleJob", "paddleReplicaSpecs", {"Worker": 2}, {"worker": 2}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 2}, {"worker": 2}),
    ],
)
def test_a_job_of_the_training_operator_is_a_gang_with_its_replica_types(
    kind: str, field: str, counts: dict[str, int], roles: dict[str, int]
) -> None:
    name = "MPIJob.v1.kubeflow.org" if kind == "MPIJob" else f"{kind}.kubeflow.org"
    pods = [operator_pod(kind, role, index) for role, count in roles.items() for index in range(count)]
    gang = gang_of(workload(name, "train", **{field: replicas(**counts)}), *pods)
    assert (gang.kind, gang.name, gang.workload) == (GangKind.WORKLOAD, "train", name)
    assert minimums(gang) == roles
    assert {each.role for each in gang.members} == set(roles)
    assert KINDS[name].path(namespace="a") == f"/apis/kubeflow.org/v1/namespaces/a/{kind.lower()}s"


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        ({"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}, {"master": 1, "worker": 1}),
        ({"runPolicy": {"schedulingPolicy": {"minAvailable": 9}}}, {"master": 1, "worker": 3}),
        ({"runPolicy": {"schedulingPolicy": {"minAvailable": 0}}}, {"master": 1, "worker": 3}),
        ({"runPolicy": {"schedulingPolicy": {}}}, {"master": 1, "worker": 3}),
        ({"elasticPolicy": {"minReplicas": 2, "maxReplicas": 8}}, {"master": 1, "worker": 1}),
        (
            {
                "elasticPolicy": {"minReplicas": 2, "maxReplicas": 8},
                "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
            },
            {"master": 1, "worker": 2},
        ),
    ],
)
def test_fewer_pods_are_enough_if_the_job_says_so(spec: dict[str, Any], minimum: dict[str, int]) -> None:
    assert minimums(gang_of(pytorch(**spec), *PYTORCH_PODS)) == minimum


def test_the_scheduling_policy_names_queue_and_priority_class() -> None:
    policy = {"queue": "vision", "priorityClass": "urgent"}
    gang = gang_of(pytorch(runPolicy={"schedulingPolicy": policy}), *PYTORCH_PODS)
    assert (gang.queue, gang.spec.priority_class_name) == ("vision", "urgent")
    labelled = pytorch(
        runPolicy={"schedulingPolicy": policy}, meta={"labels": {label("queue"): "of-the-label"}}
    )
    assert gang_of(labelled, *PYTORCH_PODS).queue == "of-the-label"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"runPolicy": {"suspend": True}}, "PyTorchJob team/train is suspended"),
        *[
            ({"status": {"conditions": [{"type": kind, "status": "True"}]}}, "has ended")
            for kind in ("Succeeded", "Failed")
        ],
    ],
)
def test_pods_of_a_suspended_or_ended_job_do_not_start(change: dict[str, Any], says: str) -> None:
    (problem,) = gang_of(pytorch(**change), *PYTORCH_PODS).problems
    assert problem.reason is Reason.MEMBERS_MISSING
    assert says in problem.message


def test_a_job_whose_status_counts_failed_pods_has_started() -> None:
    status = {"replicaStatuses": {"Worker": {"active": 2, "failed": 1}}}
    running = [
        pod(
            each.metadata.name,
            labels=each.metadata.labels,
            nodeName="n",
            status={"phase": "Running"},
            meta=owner,
        )
        for each in PYTORCH_PODS[:3]
        for owner in [controlled_by("train", kind="PyTorchJob", api_version=V1)]
    ]
    assert gang_of(pytorch(status), *running).started
    assert not gang_of(pytorch(), *running).started


# --- MPI operator -------------------------------------------------------------------------------------------


def mpi(**spec: Any) -> WorkloadObject:
    shape = {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2)}
    return workload("MPIJob.kubeflow.org", "pi", **{**shape, **spec})


def mpi_labels(role: str) -> dict[str, str]:
    return {
        "training.kubeflow.org/job-name": "pi",
        "training.kubeflow.org/job-role": role,
        "training.kubeflow.org/operator-name": "mpi-operator",
    }


def mpi_workers(api_version: str = V2) -> list[Pod]:
    owner = controlled_by("pi", kind="MPIJob", api_version=api_version)
    return [pod(f"pi-worker-{index}", labels=mpi_labels("worker"), meta=owner) for index in range(2)]


def launcher() -> list[Any]:
    """Its Job and its pod."""
    owner = {"name": "pi", "kind": "MPIJob", "api_version": V2}
    return [job("pi-launcher", owner=owner), pod_of_job("pi-launcher", 0, labels=mpi_labels("launcher"))]


@pytest.mark.parametrize(
    ("policy", "with_launcher", "minimum"),
    [
        ("AtStartup", True, {"worker": 2, "launcher": 1}),
        ("AtStartup", False, {"worker": 2, "launcher": 1}),
        ("WaitForWorkersReady", False, {"worker": 2, "launcher": 0}),
        ("WaitForWorkersReady", True, {"worker": 2, "launcher": 1}),
    ],
)
def test_an_mpi_job_starts_with_its_launcher_or_before_it(
    policy: str, with_launcher: bool, minimum: dict[str, int]
) -> None:
    there = [*mpi_workers(), *(launcher() if with_launcher else [])]
    gang = gang_of(mpi(launcherCreationPolicy=policy), *there)
    assert (gang.name, len(gang.members)) == ("pi", 2 + with_launcher)
    assert minimums(gang) == minimum


def test_an_mpi_job_of_version_1_is_another_kind() -> None:
    """The training operator and the MPI operator have CRDs of one name: a cluster serves one of them."""
    found = gang_of(mpi(), *mpi_workers(V1))
    assert found.workload == "MPIJob.v1.kubeflow.org"
    assert found.problems[0].message.startswith("MPIJob team/pi with the UID")
    assert gang_of(mpi(), *mpi_workers("kubeflow.org/v3")).problems == ()
