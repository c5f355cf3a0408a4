"""Jobs and JobSets without PodGroups, with the real Job controller. The test plays the JobSet controller."""

import asyncio
from typing import Any

import pytest
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.conftest import Cluster
from tests.e2e.pod_history import PodHistory, watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import Manifest, create, create_cluster, delete, fetched, listed
from tests.fake_objects import fake_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SPACE = "workloads"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{SPACE}/jobs"
VERSION = "jobset.x-k8s.io/v1alpha2"
JOB_SETS = f"/apis/{VERSION}/namespaces/{SPACE}/jobsets"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"


def job(name: str, *, pods: int, labels: dict[str, str] | None = None, **meta: Any) -> Manifest:
    """A Job as its user writes it, with our scheduler's name; each pod needs half a node."""
    spec = fake_pod(name, requests={"cpu": "2"})["spec"] | {"restartPolicy": "Never"}
    template = {"metadata": {"labels": labels or {}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": SPACE, **meta},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template},
    }


def job_set(name: str, roles: dict[str, int]) -> Manifest:
    replicated = [
        {"name": role, "replicas": 1, "template": {"spec": job("", pods=size)["spec"]}}
        for role, size in roles.items()
    ]
    meta = {"name": name, "namespace": SPACE}
    whole = {"apiVersion": VERSION, "kind": "JobSet", "metadata": meta}
    return {**whole, "spec": {"replicatedJobs": replicated}}


async def jobs_of(plane: ControlPlane, name: str, roles: dict[str, int]) -> list[Manifest]:
    """What the JobSet controller creates."""
    uid = (await fetched(plane, f"{JOB_SETS}/{name}"))["metadata"]["uid"]
    owner = {"apiVersion": VERSION, "kind": "JobSet", "name": name, "uid": uid}
    owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return [
        job(f"{name}-{role}-0", pods=size, labels={ROLE: role}, ownerReferences=owners)
        for role, size in roles.items()
    ]


def bound_of(history: PodHistory, name: str) -> int:
    """The pods that are bound and exist."""
    there = {pod.metadata.uid for pod in history.pods.values()}
    return sum(
        uid in there and seen.pod.metadata.name.startswith(f"{name}-") for uid, seen in history.bound.items()
    )


def reasons(history: PodHistory, name: str) -> list[str]:
    """The reason of the verdict that each waiting pod shows."""
    pods = [pod for pod in history.pods.values() if pod.metadata.name.startswith(f"{name}-")]
    found = [each for pod in pods for each in pod.status.conditions if each.type == "PodScheduled"]
    return [each.message.partition(":")[0] for each in found if each.status == "False"]


async def until_empty(plane: ControlPlane) -> None:
    async with asyncio.timeout(120):
        while await listed(plane, PODS) or await listed(plane, JOBS):
            await asyncio.sleep(0.2)


async def test_a_job_waits_whole_starts_whole_and_leaves_nothing(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=2, cpu=4, space=SPACE)
    filler = fake_pod("filler", namespace=SPACE, requests={"cpu": "2"})
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await create(plane, filler)
        await history.until_bound(1, timeout=60)
        await create(plane, job("gang", pods=4))
        await history.until(lambda: reasons(history, "gang") == ["InsufficientCapacity"] * 4)
        alone = {"scheduling.phalanx.dev/min-member": "1"}
        await create(plane, job("alone", pods=4, labels=alone))
        await history.until(lambda: bound_of(history, "alone") == 3)
        assert bound_of(history, "gang") == 0
        await delete(plane, f"{JOBS}/alone")
        await delete(plane, f"{PODS}/filler")
        await history.until(lambda: bound_of(history, "gang") == 4)
        await delete(plane, f"{JOBS}/gang")
        await until_empty(plane)

    assert shared_cluster.audit.denied() == []


async def test_a_job_set_is_one_gang_through_its_jobs(shared_cluster: Cluster) -> None:
    plane, roles = shared_cluster.plane, {"ps": 1, "worker": 3}
    await create_cluster(plane, count=2, cpu=4, space=SPACE)
    filler = fake_pod("filler", namespace=SPACE, requests={"cpu": "2"})
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await create(plane, filler)
        await history.until_bound(1, timeout=60)
        await create(plane, job_set("js", roles))
        await create(plane, *await jobs_of(plane, "js", roles))
        await history.until(lambda: reasons(history, "js") == ["InsufficientCapacity"] * 4)
        await delete(plane, f"{PODS}/filler")
        await history.until(lambda: bound_of(history, "js") == 4)
        await delete(plane, f"{JOB_SETS}/js")
        await until_empty(plane)

    assert shared_cluster.audit.denied() == []
