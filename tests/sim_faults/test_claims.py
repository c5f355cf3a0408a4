"""F14, and the provisioners, drivers and kubelets that it affects: nothing of a fault remains afterwards."""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.campaigns.claims import (
    DEVICE_DRIVER,
    DISK_DRIVER,
    EXTENDED,
    LOCAL,
    PROVISIONED,
    manifests,
)
from phalanx_simulator.embedded.controllers.device_driver import DeviceDriver
from phalanx_simulator.embedded.controllers.ephemeral_claims import EphemeralClaims
from phalanx_simulator.embedded.controllers.provisioner import LocalVolumes, Provisioner
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS as DEVICE_CLAIMS
from phalanx_simulator.embedded.controllers.resource_claims import SLICES, ResourceClaims, serve
from phalanx_simulator.embedded.controllers.volumes import CLAIMS, VOLUMES
from phalanx_simulator.embedded.manifests import pod
from phalanx_simulator.embedded.pod_claims import EXTENDED as EXTENDED_CLAIM
from phalanx_simulator.embedded.provisioned_volumes import SELECTED_NODE
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import with_metadata, with_spec

from tests.sim_faults.conftest import RACK, FaultCluster, Play

COUNT = 4
CAPACITIES = "csistoragecapacities.storage.k8s.io"


def equipped(cluster: FaultCluster) -> None:
    serve(cluster.server)
    client = cluster.client
    EphemeralClaims(client)
    Provisioner(client, driver=DISK_DRIVER, delay_s=2.0, space_gib=20)
    LocalVolumes(client)
    ResourceClaims(client)
    DeviceDriver(client, driver=DEVICE_DRIVER, count=COUNT)
    nodes = [cluster.node(name) for name in "abcd"]
    kinds = {(kind.api_version, kind.kind): kind.resource for kind in cluster.server.types.all()}
    for each in manifests(nodes, block=RACK):
        resource = kinds[each["apiVersion"], each["kind"]]
        client.create(resource, each["metadata"].get("namespace", ""), each)


def with_disk(cluster: FaultCluster, name: str, storage_class: str = PROVISIONED, size: str = "10Gi") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    disk = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    cluster.create(pod(name, volumes=[disk]))


def select(cluster: FaultCluster, name: str, node: str) -> None:
    key = Key(CLAIMS, "default", f"{name}-data")
    cluster.client.update(key, lambda it: with_metadata(it, "annotations", **{SELECTED_NODE: node}))


def claim(cluster: FaultCluster, name: str) -> Object:
    found = cluster.client.get(Key(CLAIMS, "default", f"{name}-data"))
    assert found is not None
    return found


def volume_of(cluster: FaultCluster, name: str) -> str:
    return str(claim(cluster, name)["spec"].get("volumeName", ""))


async def selected(cluster: FaultCluster, name: str, node: str, **disk: str) -> None:
    """A pod whose claim waits for a volume of this node."""
    with_disk(cluster, name, **disk)
    await asyncio.sleep(1)
    select(cluster, name, node)


def left(cluster: FaultCluster, node: str) -> str:
    found = cluster.client.get(Key(CAPACITIES, "kube-system", f"{PROVISIONED}-{node}"))
    assert found is not None
    return str(found["capacity"])


def test_a_provisioner_has_limited_space_and_publishes_it(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        await selected(cluster, "p", "a")
        await selected(cluster, "q", "a", size="15Gi")
        await asyncio.sleep(15)
        assert volume_of(cluster, "p")
        assert SELECTED_NODE not in claim(cluster, "q")["metadata"]["annotations"]
        assert (left(cluster, "a"), left(cluster, "b")) == ("10Gi", "20Gi")
        cluster.client.delete(
            Key("pods", "default", "p"), uid=cluster.get("Pod", "p", "default")["metadata"]["uid"]
        )
        await asyncio.sleep(15)
        assert left(cluster, "a") == "20Gi"

    play(scenario)


def test_a_slow_provisioner_goes_on_when_the_fault_ends(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        task = cluster.start("provisioner-slow", seconds=60, delay_s=700)
        await selected(cluster, "p", "a")
        await asyncio.sleep(50)
        assert not volume_of(cluster, "p")
        await task
        await asyncio.sleep(10)
        assert volume_of(cluster, "p")

    play(scenario)


def test_a_provisioner_fails_for_its_targets(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        task = cluster.start("provisioner-fails", "a", seconds=30)
        await selected(cluster, "p", "a")
        await selected(cluster, "q", "b")
        await asyncio.sleep(10)
        assert SELECTED_NODE not in claim(cluster, "p")["metadata"]["annotations"]
        assert volume_of(cluster, "q")
        await task
        select(cluster, "p", "a")
        await asyncio.sleep(10)
        assert volume_of(cluster, "p")

    play(scenario)


def test_local_volumes_are_taken_freed_and_cleaned(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        await asyncio.sleep(1)
        keys = cluster.client.keys(VOLUMES)

        def references() -> list[Any]:
            volumes = [cluster.client.get(key) for key in keys]
            return [each["spec"]["claimRef"] for each in volumes if each and "claimRef" in each["spec"]]

        task = cluster.start("volume-taken", seconds=30, count=3)
        await asyncio.sleep(1)
        assert len(references()) == 3
        await task
        assert references() == []
        with_disk(cluster, "p", LOCAL)
        await asyncio.sleep(1)
        reference = {"namespace": "default", "name": "p-data", "uid": claim(cluster, "p")["metadata"]["uid"]}
        cluster.client.update(keys[0], lambda it: with_spec(it, claimRef=reference))
        await asyncio.sleep(10)
        assert volume_of(cluster, "p") == keys[0].name
        cluster.client.delete(
            Key("pods", "default", "p"), uid=cluster.get("Pod", "p", "default")["metadata"]["uid"]
        )
        await asyncio.sleep(20)
        assert references() == []
        assert cluster.client.keys(VOLUMES) == keys

    play(scenario)


def devices(cluster: FaultCluster, node: str) -> dict[str, bool]:
    """The published devices of a node, and whether each has a taint; of the newest generation."""
    found = [cluster.client.get(key) for key in cluster.client.keys(SLICES)]
    specs = [each["spec"] for each in found if each and each["spec"].get("nodeName") == node]
    newest = max((spec["pool"]["generation"] for spec in specs), default=0)
    return {
        device["name"]: "taints" in device
        for spec in specs
        if spec["pool"]["generation"] == newest
        for device in spec["devices"]
    }


ALL = {f"device-{number}": False for number in range(COUNT)}


@pytest.mark.parametrize(
    ("kind", "settings", "then"),
    [
        ("devices-fewer", {"count": 1}, {"device-0": False}),
        ("devices-tainted", {"count": 2}, {**ALL, "device-0": True, "device-1": True}),
        ("driver-stopped", {}, {}),
    ],
)
def test_a_driver_publishes_other_devices_for_a_while(
    play: Play, kind: str, settings: dict[str, int], then: dict[str, bool]
) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        await asyncio.sleep(5)
        assert devices(cluster, "a") == ALL
        task = cluster.start(kind, "a", seconds=30, **settings)
        await asyncio.sleep(5)
        assert devices(cluster, "a") == then
        assert devices(cluster, "b") == ALL
        await task
        await asyncio.sleep(5)
        assert devices(cluster, "a") == ALL

    play(scenario)


def reserve(cluster: FaultCluster, name: str) -> None:
    """Allocate the claims of a pod and reserve them for it."""
    found = cluster.get("Pod", name, "default")
    user = {"resource": "pods", "name": name, "uid": found["metadata"]["uid"]}
    for each in found["status"]["resourceClaimStatuses"]:
        key = Key(DEVICE_CLAIMS, "default", each["resourceClaimName"])
        cluster.client.update_status(key, allocation={"devices": {"results": []}}, reservedFor=[user])


def test_a_pod_starts_when_its_claims_can_be_prepared(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        cluster.create(pod("p", resourceClaims=[{"name": "nic", "resourceClaimTemplateName": "one-nic"}]))
        await asyncio.sleep(1)
        cluster.bind("p", "a")

        def phase() -> str:
            return str(cluster.get("Pod", "p", "default")["status"]["phase"])

        await asyncio.sleep(5)
        assert phase() == "Pending"
        task = cluster.start("claims-refused", "a", seconds=20)
        reserve(cluster, "p")
        await asyncio.sleep(10)
        assert phase() == "Pending"
        await task
        await asyncio.sleep(5)
        assert phase() == "Running"
        cluster.client.delete(
            Key("pods", "default", "p"), uid=cluster.get("Pod", "p", "default")["metadata"]["uid"]
        )
        await asyncio.sleep(5)
        assert cluster.client.keys(DEVICE_CLAIMS) == []

    play(scenario)


def test_a_pod_that_is_deleted_while_it_waits_for_its_claims_has_failed(play: Play) -> None:
    """Its Job would wait for ever for the end of a pod that it replaces only when it has failed."""

    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        waiting = pod("p", resourceClaims=[{"name": "nic", "resourceClaimTemplateName": "one-nic"}])
        waiting["metadata"]["finalizers"] = ["example.com/counted"]
        cluster.create(waiting)
        cluster.bind("p", "a")
        await asyncio.sleep(1)
        uid = cluster.get("Pod", "p", "default")["metadata"]["uid"]
        cluster.client.delete(Key("pods", "default", "p"), uid=uid)
        await asyncio.sleep(5)
        assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Failed"

    play(scenario)


def special(cluster: FaultCluster, name: str, *, is_named: bool = True) -> None:
    """A pod that requests the extended resource, with its claim, as a scheduler makes it."""
    cluster.create(pod(name, requests={"cpu": "1", EXTENDED: "1"}))
    uid = cluster.get("Pod", name, "default")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    meta = {"name": f"{name}-claim", "annotations": {EXTENDED_CLAIM: "true"}, "ownerReferences": [owner]}
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": {}}
    finalizers = {
        **document,
        "metadata": {**meta, "finalizers": ["resource.kubernetes.io/delete-protection"]},
    }
    cluster.client.create(DEVICE_CLAIMS, "default", finalizers)
    user = {"resource": "pods", "name": name, "uid": uid}
    key = Key(DEVICE_CLAIMS, "default", f"{name}-claim")
    cluster.client.update_status(key, allocation={"devices": {"results": []}}, reservedFor=[user])
    if is_named:
        mapping = {"containerName": "main", "resourceName": EXTENDED, "requestName": "r"}
        status = {"resourceClaimName": f"{name}-claim", "requestMappings": [mapping]}
        cluster.client.update_status(Key("pods", "default", name), extendedResourceClaimStatus=status)


def test_a_pod_uses_devices_for_an_extended_resource_and_gives_them_back(play: Play) -> None:
    """Its node does not offer the resource. The claim is deleted when the pod has ended."""

    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        special(cluster, "p")
        task = cluster.start("claims-refused", "a", seconds=20)
        await asyncio.sleep(1)
        cluster.bind("p", "a")
        await asyncio.sleep(10)
        assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Pending"
        await task
        await asyncio.sleep(5)
        assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Running"
        assert len(cluster.client.keys(DEVICE_CLAIMS)) == 1
        cluster.client.update_status(Key("pods", "default", "p"), phase="Succeeded")
        await asyncio.sleep(5)
        assert cluster.client.keys(DEVICE_CLAIMS) == []

    play(scenario)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_claim_for_extended_resources_is_deleted_with_its_pod(play: Play, is_named: bool) -> None:
    """Also if the status of the pod does not name it: then the garbage collector deletes it."""

    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        special(cluster, "p", is_named=is_named)
        await asyncio.sleep(5)
        assert len(cluster.client.keys(DEVICE_CLAIMS)) == 1
        uid = cluster.get("Pod", "p", "default")["metadata"]["uid"]
        cluster.client.delete(Key("pods", "default", "p"), uid=uid)
        await asyncio.sleep(5)
        assert cluster.client.keys(DEVICE_CLAIMS) == []

    play(scenario)


def test_a_kubelet_rejects_a_pod_without_devices_for_what_its_node_does_not_offer(play: Play) -> None:
    async def scenario(cluster: FaultCluster) -> None:
        equipped(cluster)
        cluster.create(pod("p", requests={"cpu": "1", EXTENDED: "1"}))
        cluster.bind("p", "a")
        await asyncio.sleep(5)
        assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Failed"

    play(scenario)
