"""Claims to devices on a real control plane, where kube-controller-manager makes claims and deletes them.

ResourceSlices are as a driver publishes them. No kubelet prepares devices.
"""

import asyncio
from collections import Counter

import pytest
from phalanx.kube.devices.claim_documents import FINALIZER
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.conftest import Cluster
from tests.e2e.devices import (
    DRIVER,
    FABRIC,
    PATH,
    SLICED,
    allocated_devices,
    channel,
    claiming_gang,
    claims_in,
    create_devices,
    device_class,
    sliced_gpu,
    template,
    until,
)
from tests.e2e.pod_history import PodHistory, watching
from tests.e2e.scheduler_process import scheduler
from tests.e2e.workloads import Manifest, create, create_cluster, delete

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("e2e")]

SPACE = "devices"
NODES = [f"node-{index:04d}" for index in range(4)]
QUARTER = {"name": "gpu", "resourceClaimTemplateName": "quarter"}
OWN = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
SHARED = {"name": "rack", "resourceClaimName": "rack"}


async def check_claims(plane: ControlPlane, history: PodHistory, gang: str) -> None:
    """Each pod holds its own claim, whose device is on its node, and all of them the shared one."""
    pods = {pod.metadata.uid: pod for pod in history.members(f"{SPACE}/{gang}")}
    for claim in await claims_in(plane, SPACE):
        users = [each["uid"] for each in claim["status"].get("reservedFor", ())]
        (device,) = claim["status"]["allocation"]["devices"]["results"]
        if claim["metadata"]["name"] == "rack":
            assert sorted(users) == sorted(pods)
            assert (device["driver"], device["pool"]) == (FABRIC, "rack")
        else:
            (user,) = users
            assert device["driver"] == DRIVER
            assert device["pool"] == pods[user].spec.node_name


async def delete_pods(plane: ControlPlane, history: PodHistory, gang: str) -> None:
    for pod in history.members(f"{SPACE}/{gang}"):
        await delete(plane, f"/api/v1/namespaces/{SPACE}/pods/{pod.metadata.name}")


async def reserve_as_a_dead_leader(plane: ControlPlane) -> None:
    """A claim is allocated for a pod that was not bound afterwards, and the shared claim as well."""

    async def are_made() -> bool:
        return len(await claims_in(plane, SPACE)) == 9

    await until(are_made)
    for claim in (await claims_in(plane, SPACE))[0], (await claims_in(plane, SPACE))[-1]:
        name, is_shared = claim["metadata"]["name"], claim["metadata"]["name"] == "rack"
        (owner,) = (await claims_in(plane, SPACE))[0]["metadata"]["ownerReferences"]
        device = (FABRIC, "rack", "channel") if is_shared else (DRIVER, "node-0001", "gpu-0")
        result = dict(zip(("request", "driver", "pool", "device"), ("device", *device), strict=True))
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}],
        }
        path = f"{PATH}/namespaces/{SPACE}/resourceclaims/{name}"
        await merge(plane, path, {"metadata": {"finalizers": [FINALIZER]}})
        await merge(plane, f"{path}/status", {"status": status})


async def merge(plane: ControlPlane, path: str, body: Manifest) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    async with plane.session() as session, session.patch(path, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


async def report(plane: ControlPlane, condition: str, *, ended: asyncio.Event | None = None) -> None:
    """The driver of the channel reports, once the channel is allocated to the shared claim.

    Nothing is reported if `ended` is set before.
    """
    found: list[Manifest] = []

    async def is_over() -> bool:
        (rack,) = [each for each in await claims_in(plane, SPACE) if each["metadata"]["name"] == "rack"]
        status = rack.get("status", {})
        if "allocation" in status and not status.get("devices"):
            (result,) = status["allocation"]["devices"]["results"]
            if "bindingConditions" in result:  # else it is that of the dead leader
                found.append(result)
        return bool(found) or (ended is not None and ended.is_set())

    await until(is_over)
    if not found:
        return
    (result,) = found
    assert result["bindingConditions"] == ["attached"]
    assert result["bindingFailureConditions"] == ["broken"]
    said = {"type": condition, "status": "True", "reason": "Tried", "message": "by the fabric"}
    written = {"conditions": [{**said, "lastTransitionTime": "2026-11-26T00:00:00Z"}]}
    device = {name: result[name] for name in ("driver", "pool", "device")} | written
    path = f"{PATH}/namespaces/{SPACE}/resourceclaims/rack/status"
    await merge(plane, path, {"status": {"devices": [device]}})


async def is_nothing_allocated(plane: ControlPlane) -> bool:
    return not allocated_devices(await claims_in(plane, SPACE))


async def check_failed_preparation(plane: ControlPlane, history: PodHistory) -> None:
    """The channel cannot be prepared, so its driver taints it: the claims of all members are given back."""
    await report(plane, "broken")
    taint = {"key": "broken", "effect": "NoSchedule"}
    path = f"{PATH}/resourceslices/rack"
    await merge(plane, path, {"spec": {"devices": [channel(taint)]}})
    await until(lambda: is_nothing_allocated(plane))
    assert not any(pod.spec.node_name for pod in history.members(f"{SPACE}/first"))
    await merge(plane, path, {"spec": {"devices": [channel()]}})


async def check_shares(plane: ControlPlane, history: PodHistory) -> None:
    """A gang gets all shares of the GPUs that kube-scheduler has not given to its pod."""
    before = len(history.bound)
    await create(
        plane,
        device_class("sliced", SLICED),
        *map(sliced_gpu, NODES),
        template("quarter", space=SPACE, device_class="sliced", capacity={"requests": {"memory": "11Gi"}}),
    )
    (_, foreign) = claiming_gang("foreign", space=SPACE, size=1, claims=[QUARTER])
    foreign["metadata"]["labels"] = {}
    foreign["spec"]["schedulerName"] = "default-scheduler"
    await create(plane, foreign)
    await history.until_bound(before + 1, timeout=120)
    await create(plane, *claiming_gang("third", space=SPACE, size=15, claims=[QUARTER]))
    await history.until_bound(before + 16, timeout=120)
    results = {
        claim["metadata"]["ownerReferences"][0]["name"]: result
        for claim in await claims_in(plane, SPACE)
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    }
    of_device = Counter(each["pool"] for each in results.values())
    assert of_device == dict.fromkeys(NODES, 4)
    assert len({each["shareID"] for each in results.values()}) == 16
    # Written as kube-scheduler writes it.
    (theirs,) = [each for name, each in results.items() if name == "foreign-0"]
    for each in results.values():
        assert each.keys() == theirs.keys()
        assert each["consumedCapacity"] == theirs["consumedCapacity"] == {"memory": "20Gi"}
    await delete_pods(plane, history, "third")
    await delete(plane, f"/api/v1/namespaces/{SPACE}/pods/foreign-0")


async def test_a_gang_gets_its_devices_and_gives_them_back(shared_cluster: Cluster) -> None:
    plane = shared_cluster.plane
    await create_cluster(plane, count=len(NODES), cpu=4, space=SPACE)
    await create_devices(plane, space=SPACE, nodes=NODES, count=2)
    await create(plane, *claiming_gang("first", space=SPACE, size=8, claims=[OWN, SHARED]))
    await reserve_as_a_dead_leader(plane)
    async with watching(plane) as history, scheduler(plane, shared_cluster.kubeconfig):
        await check_failed_preparation(plane, history)
        await report(plane, "attached")
        await history.until_bound(8, timeout=120)
        claims = await claims_in(plane, SPACE)
        gpus = [(DRIVER, node, f"gpu-{index}") for node in NODES for index in range(2)]
        assert allocated_devices(claims) == [(FABRIC, "rack", "channel"), *gpus]
        await check_claims(plane, history, "first")

        # The next gang waits for these devices, and gets them when the first is deleted.
        await create(plane, *claiming_gang("second", space=SPACE, size=8, claims=[OWN, SHARED]))
        await delete_pods(plane, history, "first")
        # It may get the channel while the last pods of the first gang still have it.
        ended = asyncio.Event()
        driver = asyncio.create_task(report(plane, "attached", ended=ended))
        await history.until_bound(16, timeout=120)
        ended.set()
        await driver
        await delete_pods(plane, history, "second")
        await check_shares(plane, history)

        async def is_all_given_back() -> bool:
            (*made, _) = left = await claims_in(plane, SPACE)
            return not made and not allocated_devices(left)

        await until(is_all_given_back)
    assert shared_cluster.audit.denied() == []
