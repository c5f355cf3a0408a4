"""Pods that request an extended resource get devices of its class on a real control plane.

kube-controller-manager takes the devices back and the garbage collector deletes the claims.
"""

import pytest

from tests.e2e.conftest import Cluster
from tests.e2e.devices import DRIVER, allocated_devices, claims_in, device_class, node_slice, until
from tests.e2e.pod_history import watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import create, create_cluster, delete, listed, members, pod_group

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SPACE = "extended-resources"
GPU = "gpu.example.com/card"
NODES = [f"node-{index:04d}" for index in range(2)]


async def test_a_gang_gets_devices_for_an_extended_resource(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=len(NODES), cpu=8, space=SPACE)
    gpus = device_class("card", DRIVER)
    gpus["spec"]["extendedResourceName"] = GPU
    await create(plane, gpus, *(node_slice(node, count=4) for node in NODES))
    pods = members("g", space=SPACE, size=4, requests={"cpu": "1", GPU: "2"})
    await create(plane, pod_group("g", space=SPACE, size=4), *pods)
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await history.until_bound(4, timeout=120)
        claims = await claims_in(plane, SPACE)
        assert len(claims) == 4
        assert len(allocated_devices(claims)) == 8
        by_pod = {claim["metadata"]["ownerReferences"][0]["uid"]: claim for claim in claims}
        for pod in await listed(plane, f"/api/v1/namespaces/{SPACE}/pods"):
            claim = by_pod[pod["metadata"]["uid"]]
            named = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert named == claim["metadata"]["name"]
            results = claim["status"]["allocation"]["devices"]["results"]
            assert {each["pool"] for each in results} == {pod["spec"]["nodeName"]}
        for pod in history.members(f"{SPACE}/g"):
            await delete(plane, f"/api/v1/namespaces/{SPACE}/pods/{pod.metadata.name}")

        async def is_all_gone() -> bool:
            return not await claims_in(plane, SPACE)

        await until(is_all_gone)
    assert shared_cluster.audit.denied() == []
