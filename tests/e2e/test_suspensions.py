"""Evictions by suspension with the real Job controller: they cost no retry."""

import asyncio

import pytest
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.conftest import Cluster
from tests.e2e.pod_history import PodHistory, watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import Manifest, create, create_cluster, delete, fetched, succeed
from tests.fake_objects import fake_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SPACE = "suspensions"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
JOB = f"/apis/batch/v1/namespaces/{SPACE}/jobs/train"
SUSPENSIONS = "/api/v1/namespaces/phalanx-system/configmaps/phalanx-suspensions"
MEMBERS = 20


def priority_class(name: str) -> Manifest:
    """It stays when a test has ended."""
    meta = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": meta,
        "value": 1000,
    }


def train() -> Manifest:
    """A Job that one failure ends."""
    spec = fake_pod("", requests={"cpu": "1"})["spec"] | {"restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": SPACE},
        "spec": {
            "parallelism": MEMBERS,
            "completions": MEMBERS,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": spec},
        },
    }


def urgent(name: str, of: str) -> Manifest:
    pod = fake_pod(name, namespace=SPACE, requests={"cpu": "4"})
    pod["spec"]["priorityClassName"] = of
    return pod


def running(history: PodHistory, name: str) -> int:
    """The pods that are bound and stay."""
    pods = [pod for pod in history.pods.values() if pod.metadata.name.startswith(name)]
    return sum(bool(pod.spec.node_name) and not pod.metadata.deletion_timestamp for pod in pods)


def there(history: PodHistory, name: str) -> list[str]:
    return [pod.key for pod in history.pods.values() if pod.metadata.name.startswith(name)]


def created_while_runs(history: PodHistory, name: str) -> list[str]:
    """The pods of the Job that were created between the bind of this pod and its deletion."""
    of_pod = [seen for seen in history.events if seen.pod.metadata.name == name]
    first = min(seen.pod.version for seen in of_pod if seen.pod.spec.node_name)
    last = max(seen.pod.version for seen in of_pod)
    added = [seen.pod for seen in history.events if seen.kind == "ADDED" and first < seen.pod.version < last]
    return [pod.key for pod in added if pod.metadata.name.startswith("train")]


async def end_well(plane: ControlPlane, history: PodHistory) -> None:
    async with plane.session() as session:
        for pod in tuple(history.pods.values()):
            await succeed(session, namespace=SPACE, name=pod.metadata.name)


async def test_a_job_that_is_evicted_five_times_succeeds_without_a_failure(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=5, cpu=4, space=SPACE)
    await create(plane, priority_class("urgent"))
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await create(plane, train())
        await history.until(lambda: running(history, "train") == MEMBERS)
        for number in range(5):
            name = f"urgent-{number}"
            await create(plane, urgent(name, "urgent"))
            await history.until(lambda name=name: running(history, name) == 1)  # type: ignore[misc]
            assert running(history, "train") == 0
            await history.until(lambda: not there(history, "train"))
            await delete(plane, f"{PODS}/{name}")
            await history.until(lambda: running(history, "train") == MEMBERS)
            assert created_while_runs(history, name) == []
        await history.until(lambda: {pod.status.phase for pod in history.pods.values()} == {"Running"})
        await end_well(plane, history)
        async with asyncio.timeout(60):
            while (job := await fetched(plane, JOB))["status"].get("succeeded") != MEMBERS:
                await asyncio.sleep(0.5)

    made = [seen for seen in history.bound.values() if seen.pod.metadata.name.startswith("train")]
    assert len(made) == 6 * MEMBERS
    assert job["status"].get("failed", 0) == 0
    assert "SuccessCriteriaMet" in {each["type"] for each in job["status"]["conditions"]}
    assert job["spec"]["suspend"] is False
    assert not (await fetched(plane, SUSPENSIONS)).get("data")
    assert shared_cluster.audit.denied() == []


async def test_another_scheduler_goes_on_with_a_job_that_waits(shared_cluster: Cluster) -> None:
    """It finds the Job suspended and no pods, and resumes it when there is capacity."""
    plane = shared_cluster.plane
    await create_cluster(plane, count=5, cpu=4, space=SPACE)
    await create(plane, priority_class("very-urgent"))
    async with watching(plane) as history:
        async with scheduler(plane, shared_cluster.kubeconfig):
            await create(plane, train())
            await history.until(lambda: running(history, "train") == MEMBERS)
            await create(plane, urgent("urgent", "very-urgent"))
            await history.until(lambda: running(history, "urgent") == 1)
            await history.until(lambda: not there(history, "train"))
        assert (await fetched(plane, JOB))["spec"]["suspend"] is True
        async with scheduler(plane, shared_cluster.kubeconfig):
            await delete(plane, f"{PODS}/urgent")
            await history.until(lambda: running(history, "train") == MEMBERS)
            await end_well(plane, history)
    made = [seen for seen in history.bound.values() if seen.pod.metadata.name.startswith("train")]
    assert len(made) == 2 * MEMBERS
    assert created_while_runs(history, "urgent") == []
    assert not (await fetched(plane, SUSPENSIONS)).get("data")
