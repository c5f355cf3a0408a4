"""Jobs of a cluster whose Job controller makes a Workload and a native PodGroup for each.

And composite groups of such PodGroups.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from phalanx_controlplane.controlplane import ControlPlane

from tests.controlplane_fixture import GATES, SERVED
from tests.e2e.conftest import Cluster, StandingCluster, ready_for_tests
from tests.e2e.pod_history import PodHistory, watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import create, create_cluster, delete, listed, nodes
from tests.fake_objects import fake_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SPACE = "native"
SCHEDULING = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{SPACE}"
COMPOSITES = f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{SPACE}"
JOBS = f"/apis/batch/v1/namespaces/{SPACE}/jobs"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StandingCluster]:
    """With the feature gates that make a PodGroup for each Job."""
    gates = f"--feature-gates={GATES},WorkloadWithJob=true"
    folder = tmp_path_factory.mktemp("native")
    async with ready_for_tests(folder, apiserver=(gates, SERVED), controller_manager=(gates,)) as made:
        yield made


def job(name: str, *, pods: int, cpu: str, **scheduling: Any) -> dict[str, Any]:
    """A Job as its user writes it, with our scheduler's name."""
    template = fake_pod(name, requests={"cpu": cpu})["spec"] | {"restartPolicy": "Never"}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": template}}
    meta = {"name": name, "namespace": SPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {**spec, **scheduling}}


async def condition_of(plane: ControlPlane, job_name: str) -> dict[str, Any]:
    """The condition of the Job's PodGroup; empty without one."""
    for group in await listed(plane, f"{SCHEDULING}/podgroups"):
        if any(owner["name"] == job_name for owner in group["metadata"].get("ownerReferences", [])):
            assert group["spec"]["schedulingPolicy"], group
            found = group.get("status", {}).get("conditions", [])
            assert [each["type"] for each in found] in ([], ["PodGroupInitiallyScheduled"])
            return dict(found[0]) if found else {}
    return {}


async def until_condition(plane: ControlPlane, job_name: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while (found := await condition_of(plane, job_name)).get("status") != status:
            await asyncio.sleep(0.2)
    return found


def bound_of(history: PodHistory, job_name: str) -> int:
    return sum(seen.pod.metadata.name.startswith(f"{job_name}-") for seen in history.bound.values())


def messages(history: PodHistory) -> list[str]:
    """The reason of each pod that waits, by which its message begins."""
    conditions = [each for pod in history.pods.values() for each in pod.status.conditions]
    return [each.message.partition(":")[0] for each in conditions if each.status == "False"]


async def test_jobs_start_with_their_native_pod_groups_and_leave_nothing(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=2, cpu=4, space=SPACE)
    filler = fake_pod("filler", namespace=SPACE, requests={"cpu": "2"})
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await create(plane, filler)
        await history.until_bound(1, timeout=60)
        gang = {"scheduling": {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}}
        await create(plane, job("gang", pods=4, cpu="2", **gang))
        waits = await until_condition(plane, "gang", "False")
        assert waits["reason"] == "Unschedulable"
        assert waits["message"]
        await create(plane, job("plain", pods=3, cpu="1"))
        assert (await until_condition(plane, "plain", "True"))["reason"] == "Scheduled"
        await history.until(lambda: bound_of(history, "plain") == 3, timeout=60)
        assert bound_of(history, "gang") == 0

        await delete(plane, f"{JOBS}/plain")
        await delete(plane, f"/api/v1/namespaces/{SPACE}/pods/filler")
        assert (await until_condition(plane, "gang", "True"))["reason"] == "Scheduled"
        assert bound_of(history, "gang") == 4
        await history.until(lambda: not any(pod.status.phase == "Pending" for pod in history.pods.values()))
        await delete(plane, f"{JOBS}/gang")
        await until_empty(plane)

    assert shared_cluster.audit.denied() == []


async def test_labels_of_phalanx_count_beside_the_basic_pod_groups_of_jobs(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=1, cpu=3, space=SPACE)
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        gang = job("gang", pods=4, cpu="1")
        gang["spec"]["template"]["metadata"] = {"labels": {"scheduling.phalanx.dev/min-member": "4"}}
        await create(plane, gang)
        await history.until(lambda: messages(history).count("AboveClusterCapacity") == 4, timeout=60)
        pods = await listed(plane, f"/api/v1/namespaces/{SPACE}/pods")
        assert len({pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}) == 1
        assert not history.bound
        await create(plane, *nodes(1, cpu=1, prefix="more"))
        await history.until(lambda: bound_of(history, "gang") == 4, timeout=60)
        assert await condition_of(plane, "gang") == {}
        await delete(plane, f"{JOBS}/gang")
        await until_empty(plane)

    assert shared_cluster.audit.denied() == []


def of_kind(version: str, kind: str, name: str, policy: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A group in the API group of Kubernetes."""
    reference = {"workloadName": "w", "templateName": "t"}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"workloadRef": reference, "schedulingPolicy": {"gang": policy}, **spec},
    }


async def test_the_groups_of_a_composite_group_start_together(shared_cluster: Cluster) -> None:
    plane, parent = shared_cluster.plane, {"parentCompositePodGroupName": "all"}
    await create_cluster(plane, count=2, cpu=4, space=SPACE)
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await create(plane, of_kind("v1alpha3", "CompositePodGroup", "all", {"minGroupCount": 2}))
        for name, count in (("ps", 1), ("workers", 2)):
            await create(plane, of_kind("v1beta1", "PodGroup", name, {"minCount": count}, **parent))
        await create(plane, *[member(f"workers-{number}", "workers", cpu="3") for number in range(2)])
        await history.until(lambda: messages(history).count("MembersMissing") == 2, timeout=60)
        assert not history.bound
        await create(plane, member("ps-0", "ps", cpu="1"))
        await history.until_bound(3, timeout=60)
        async with asyncio.timeout(60):
            while not all(map(is_scheduled, await listed(plane, f"{SCHEDULING}/podgroups"))):
                await asyncio.sleep(0.2)
        (whole,) = await listed(plane, f"{COMPOSITES}/compositepodgroups")
        assert not whole.get("status")
        assert (whole["spec"]["disruptionMode"], history.bound.keys()) == (
            {"single": {}},
            history.pods.keys(),
        )
        for name in ("workers-0", "workers-1", "ps-0"):
            await delete(plane, f"/api/v1/namespaces/{SPACE}/pods/{name}")
        for name in ("ps", "workers"):
            await delete(plane, f"{SCHEDULING}/podgroups/{name}")
        await delete(plane, f"{COMPOSITES}/compositepodgroups/all")
        await until_empty(plane)

    assert shared_cluster.audit.denied() == []


def member(name: str, group: str, *, cpu: str) -> dict[str, Any]:
    """A pod of a native PodGroup."""
    pod = fake_pod(name, namespace=SPACE, requests={"cpu": cpu})
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": group}}}


def is_scheduled(group: dict[str, Any]) -> bool:
    found = group.get("status", {}).get("conditions", [])
    return [(each["type"], each["status"]) for each in found] == [("PodGroupInitiallyScheduled", "True")]


async def until_empty(plane: ControlPlane) -> None:
    """Wait until no pod, PodGroup or Workload is left."""
    paths = (f"/api/v1/namespaces/{SPACE}/pods", f"{SCHEDULING}/podgroups", f"{SCHEDULING}/workloads")
    async with asyncio.timeout(120):
        while any([await listed(plane, path) for path in paths]):
            await asyncio.sleep(0.2)
