"""CronJob, TrainJob and RayService: no gangs themselves, but each object that they make is one."""

import pytest
from phalanx.model.api.core import Pod
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.gangs import GangKind

from tests.model.gangs_of_workloads import gang_of, gangs_of, minimums
from tests.model.written import (
    JOB_SET_VERSION,
    controlled_by,
    job,
    job_set,
    pod,
    pod_of_job,
    replicated_job,
    workload,
)

# --- CronJob ------------------------------------------------------------------------------------------------

CRON_JOB = {"name": "nightly", "kind": "CronJob", "api_version": "batch/v1"}


def of_cron_job(name: str, pods: int) -> list[WorkloadObject | Pod]:
    """A Job that a CronJob has made, and its pods."""
    made = [pod_of_job(name, index) for index in range(pods)]
    return [job(name, parallelism=pods, completions=pods, owner=CRON_JOB), *made]


def test_each_job_of_a_cron_job_is_a_gang() -> None:
    """The Jobs overlap with the concurrency policy Allow."""
    found = gangs_of(*of_cron_job("nightly-1", 3), *of_cron_job("nightly-2", 2))
    assert {(str(gang), gang.workload, gang.min_member, len(gang.members)) for gang in found} == {
        ("team/nightly-1", "Job.batch", 3, 3),
        ("team/nightly-2", "Job.batch", 2, 2),
    }


def test_a_suspended_cron_job_does_not_hold_back_its_jobs() -> None:
    """`suspend` of a CronJob prevents new Jobs only; it is not read."""
    assert gang_of(*of_cron_job("nightly-1", 2)).problems == ()


# --- TrainJob -----------------------------------------------------------------------------------------------

TRAIN_JOB = {"name": "train", "kind": "TrainJob", "api_version": "trainer.kubeflow.org/v1alpha1"}


@pytest.mark.parametrize("is_suspended", [False, True])
def test_the_job_set_of_a_train_job_is_a_gang(*, is_suspended: bool) -> None:
    """The trainer suspends a TrainJob by its JobSet."""
    job_set_of = {"name": "train", "kind": "JobSet", "api_version": JOB_SET_VERSION}
    gang = gang_of(
        job_set("train", replicated_job("node", pods=3), owner=TRAIN_JOB, suspend=is_suspended),
        job("train-node-0", parallelism=3, completions=3, owner=job_set_of),
        *[pod_of_job("train-node-0", index, role="node", job_set_name="train") for index in range(3)],
    )
    assert (str(gang), gang.workload, len(gang.members)) == ("team/train", "JobSet.jobset.x-k8s.io", 3)
    assert minimums(gang) == {"node": 3}
    assert bool(gang.problems) is is_suspended


# --- RayService ---------------------------------------------------------------------------------------------

RAY_SERVICE = {"name": "serve", "kind": "RayService", "api_version": "ray.io/v1"}


def of_ray_service(cluster: str, workers: int) -> list[WorkloadObject | Pod]:
    """A RayCluster that a RayService has made, and its pods."""
    template = {"spec": {"schedulerName": "phalanx"}}
    groups = [{"groupName": "small", "replicas": workers, "minReplicas": 0, "template": template}]
    owner = controlled_by(cluster, kind="RayCluster", api_version="ray.io/v1")
    head = {"template": template}
    return [
        workload(
            "RayCluster.ray.io", cluster, owner=RAY_SERVICE, headGroupSpec=head, workerGroupSpecs=groups
        ),
        pod(f"{cluster}-head", labels={"ray.io/group": "headgroup"}, meta=owner),
        *[pod(f"{cluster}-{i}", labels={"ray.io/group": "small"}, meta=owner) for i in range(workers)],
    ]


def test_each_cluster_of_a_ray_service_is_a_gang() -> None:
    """It has two while it is upgraded: the new one does not wait for the old one."""
    found = gangs_of(*of_ray_service("serve-1", 1), *of_ray_service("serve-2", 2))
    assert {str(gang): minimums(gang) for gang in found} == {
        "team/serve-1": {"headgroup": 1, "small": 1},
        "team/serve-2": {"headgroup": 1, "small": 2},
    }
    assert {gang.kind for gang in found} == {GangKind.WORKLOAD}
