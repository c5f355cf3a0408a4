"""PodGroups of other projects on a real API server, with the permissions of `deploy/base`.

The test plays Volcano's controller: it creates the pods of a Job once the PodGroup is Inqueue.
"""

import asyncio
from typing import Any

import pytest
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.dialect_crds import (
    KAI,
    KAI_QUEUES,
    KAI_TOPOLOGIES,
    SCHEDULER_PLUGINS,
    VOLCANO,
    VOLCANO_JOBS,
    VOLCANO_QUEUES,
)
from tests.e2e.conftest import Cluster
from tests.e2e.pod_history import watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import create, create_cluster, fetched
from tests.fake_objects import fake_pod

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SPACE = "others"
VOLCANO_GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{SPACE}/podgroups"
PLUGINS_GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{SPACE}/podgroups"
KAI_GROUPS = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{SPACE}/podgroups"
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{SPACE}/jobs"

Manifest = dict[str, Any]


async def post(plane: ControlPlane, path: str, body: Manifest) -> Manifest:
    async with plane.session() as session, session.post(path, json=body, raise_for_status=True) as answer:
        created: Manifest = await answer.json()
        return created


async def serve(plane: ControlPlane, *crds: Manifest) -> None:
    async with plane.session() as session:
        await api.install(session, list(crds))


def group(name: str, *, minimum: int, owner: Manifest | None = None) -> Manifest:
    owners = [{**owner, "controller": True}] if owner is not None else []
    return {"metadata": {"name": name, "ownerReferences": owners}, "spec": {"minMember": minimum}}


async def create_job(plane: ControlPlane, name: str, *, scheduler_name: str) -> Manifest:
    """A Volcano Job; returns a reference to it."""
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    job = {**kind, "metadata": {"name": name}, "spec": {"schedulerName": scheduler_name}}
    created = await post(plane, JOBS, job)
    return {**kind, "name": name, "uid": created["metadata"]["uid"]}


def members(name: str, count: int, *, labels: Manifest, annotations: Manifest) -> list[Manifest]:
    made = [fake_pod(f"{name}-{i}", namespace=SPACE, requests={"cpu": "2"}) for i in range(count)]
    for each in made:
        each["metadata"].update(labels=labels, annotations=annotations)
    return made


async def until_phase(plane: ControlPlane, name: str, phase: str) -> Manifest:
    async with asyncio.timeout(60):
        while True:
            status: Manifest = (await fetched(plane, f"{VOLCANO_GROUPS}/{name}")).get("status") or {}
            if status.get("phase") == phase:
                return status
            await asyncio.sleep(0.1)


async def until_condition(plane: ControlPlane, name: str, expected: Manifest | None) -> None:
    """Wait for this scheduling condition of a PodGroup of KAI, or until it has none."""
    async with asyncio.timeout(60):
        while True:
            status = (await fetched(plane, f"{KAI_GROUPS}/{name}")).get("status") or {}
            seen = [
                {key: each[key] for key in expected or {}} for each in status.get("schedulingConditions", ())
            ]
            if seen == ([] if expected is None else [expected]):
                return
            await asyncio.sleep(0.1)


async def test_gangs_of_kai(shared_cluster: Cluster) -> None:
    """A gang waits for the Topology that it names, then for a rack, and says so in its condition."""
    plane = shared_cluster.plane
    await create_cluster(plane, count=2, cpu=4, space=SPACE)
    await serve(plane, KAI, KAI_TOPOLOGIES)
    kai = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    spec = {
        "minMember": 2,
        "topologyConstraint": {"topology": "net", "requiredTopologyLevel": "kubernetes.io/hostname"},
        "subGroups": [{"name": "workers", "minMember": 2}],
    }
    await post(plane, KAI_GROUPS, {**kai, "metadata": {"name": "rack"}, "spec": spec})
    await post(plane, KAI_GROUPS, {**kai, "metadata": {"name": "theirs"}, "spec": {"minMember": 1}})
    before = await fetched(plane, f"{KAI_GROUPS}/theirs")
    condition = {"type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True"}
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        labels, annotations = {"kai.scheduler/subgroup-name": "workers"}, {"pod-group-name": "rack"}
        await create(plane, *members("rack", 2, labels=labels, annotations=annotations))
        await until_condition(plane, "rack", {**condition, "transitionID": "1"})
        assert history.bound == {}
        level = {"nodeLabel": "kubernetes.io/hostname"}
        topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "net"}}
        await post(plane, TOPOLOGIES, {**topology, "spec": {"levels": [level]}})
        await history.until_bound(2, timeout=60)
        await until_condition(plane, "rack", None)
        assert len({pod.spec.node_name for pod in history.pods.values()}) == 1
    assert await fetched(plane, f"{KAI_GROUPS}/theirs") == before
    assert shared_cluster.audit.denied() == []


async def test_gangs_of_volcano_and_of_scheduler_plugins(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=2, cpu=4, space=SPACE)
    await serve(plane, VOLCANO, VOLCANO_JOBS, SCHEDULER_PLUGINS)
    theirs = await create_job(plane, "theirs", scheduler_name="volcano")
    ours = await create_job(plane, "ours", scheduler_name="phalanx")
    volcano = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    for name, owner in (("theirs", theirs), ("ours", ours)):
        await post(plane, VOLCANO_GROUPS, {**volcano, **group(name, minimum=3, owner=owner)})
    plugins = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    await post(plane, PLUGINS_GROUPS, {**plugins, **group("waits", minimum=2)})
    before = [await fetched(plane, f"{path}/{name}") for path, name in UNTOUCHED]
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await until_phase(plane, "ours", "Inqueue")
        await create(
            plane, *members("ours", 3, labels={}, annotations={"scheduling.k8s.io/group-name": "ours"})
        )
        await history.until_bound(3, timeout=60)
        status = await until_phase(plane, "ours", "Running")
        assert [each["type"] for each in status["conditions"]] == ["Scheduled"]
        label = {"scheduling.x-k8s.io/pod-group": "waits"}
        await create(plane, *members("waits", 2, labels=label, annotations={}))
        await history.until(lambda: "waits-0" in waiting(history.pods.values()), timeout=60)
        assert len(history.bound) == 3
    assert [await fetched(plane, f"{path}/{name}") for path, name in UNTOUCHED] == before
    assert shared_cluster.audit.denied() == []


async def test_queues_of_volcano_and_of_kai(shared_cluster: Cluster) -> None:
    """Each of them lets one of two pods start, and the configuration is what makes them count."""
    plane = shared_cluster.plane
    await create_cluster(plane, count=2, cpu=8, space=SPACE)
    await serve(plane, VOLCANO_QUEUES, KAI_QUEUES)
    free = {"quota": 0, "limit": -1}
    resources = {"gpu": free, "memory": free, "cpu": {**free, "limit": 3000}}
    queues = {
        "volcano": (VOLCANO_QUEUE_PATH, {"capability": {"cpu": "3"}}),
        "kai": (KAI_QUEUE_PATH, {"resources": resources}),
    }
    for name, (path, spec) in queues.items():
        version = path.removeprefix("/apis/").removesuffix("/queues")
        body = {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        await post(plane, path, body)
    before = [await fetched(plane, f"{path}/{name}") for name, (path, _) in queues.items()]
    config = "queueDialects: [scheduling.volcano.sh, scheduling.run.ai]"
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig, config=config):
        for name in queues:
            labels = {"scheduling.phalanx.dev/queue": name}
            await create(plane, *members(f"in-{name}", 2, labels=labels, annotations={}))
        await history.until_bound(2, timeout=60)
        await history.until(lambda: len(refused(history.pods.values(), "QueueLimit")) == 2, timeout=60)
        found = {pod.metadata.labels["scheduling.phalanx.dev/queue"] for pod in history.pods.values()}
        assert (found, len(history.bound)) == ({"volcano", "kai"}, 2)
    assert [await fetched(plane, f"{path}/{name}") for name, (path, _) in queues.items()] == before
    assert shared_cluster.audit.denied() == []


VOLCANO_QUEUE_PATH = "/apis/scheduling.volcano.sh/v1beta1/queues"
KAI_QUEUE_PATH = "/apis/scheduling.run.ai/v2/queues"
UNTOUCHED = ((VOLCANO_GROUPS, "theirs"), (PLUGINS_GROUPS, "waits"))


def waiting(pods: Any) -> set[str]:
    """Names of pods that the scheduler has refused for lack of capacity."""
    return refused(pods, "InsufficientCapacity")


def refused(pods: Any, reason: str) -> set[str]:
    """Names of pods that the scheduler has refused for a reason."""
    return {
        pod.metadata.name
        for pod in pods
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and reason in condition.message
    }
