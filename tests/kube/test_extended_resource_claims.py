"""Claims for extended resources are made on a real API server before the bind, and deleted without one."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.kube.binding import BindRefused, Bound
from phalanx.kube.devices.claim_documents import FINALIZER, ClaimLost
from phalanx.kube.errors import Conflict
from phalanx.model.decisions import Bind
from phalanx.model.names import NodeName, PodUid
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, ClaimGrant, extended_claim_uid
from phalanx.model.supplies.devices.extended_resources import (
    ContainerRequest,
    ExtendedRequests,
    extended_claim_name,
    extended_resource_claim,
)
from phalanx_controlplane.controlplane import ControlPlane

from tests.kube.faults import FaultyTransport, applied_but_lost
from tests.kube.test_binder import binding, placement
from tests.kube.test_claims import CLASS, DRIVER, HERE, device_class, needs_class, writer
from tests.kube.world import World

__all__ = ["device_class"]

pytestmark = pytest.mark.controlplane

GPU = "gpu.example.com/card"
ASKED = ExtendedRequests((ContainerRequest("main", 0, GPU, 1, 2),))


@pytest.fixture
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Only the real API server: it validates what is written."""
    return Path(control_plane.kubeconfig_path)


def grant_of(world: World, pod: str, *, gpus: tuple[str, ...] = ("gpu-0", "gpu-1")) -> ClaimGrant:
    devices = tuple(AllocatedDevice("container-0-request-1", (DRIVER, "n1", each)) for each in gpus)
    extended_claim = extended_resource_claim(ASKED, (GPU,), {GPU: CLASS})
    name = extended_claim_name(pod, world.namespace)
    return ClaimGrant(
        world.namespace, name, extended_claim_uid(pod), Allocation(devices, HERE), extended_claim
    )


async def requesting_pod(world: World, name: str) -> Bind:
    uid = await world.pod(name, requests={"cpu": "1", GPU: "2"})
    return Bind(PodUid(uid), world.namespace, name, NodeName("n1"))


async def claims(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.get(world.path("ResourceClaim")))["items"]
    return found


@needs_class
async def test_a_claim_is_made_allocated_and_named_in_the_status_of_the_pod(
    world: World, transport: FaultyTransport
) -> None:
    bind = await requesting_pod(world, "p")
    for _ in range(2):
        await writer(transport).reserve(grant_of(world, "p"), [bind])
    (claim,) = await claims(world)
    meta = claim["metadata"]
    assert meta["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert meta["generateName"] == "p-extended-resources-"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": bind.pod, "controller": True}
    assert meta["ownerReferences"] == [owner]
    assert meta["finalizers"] == [FINALIZER]
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 2}
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": bind.pod}]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [(each["request"], each["device"]) for each in results] == [
        ("container-0-request-1", "gpu-0"),
        ("container-0-request-1", "gpu-1"),
    ]
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-1"}
    assert (await world.get_pod("p"))["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": meta["name"],
        "requestMappings": [mapping],
    }


@needs_class
async def test_a_claim_is_deleted_with_its_finalizer_and_only_for_its_pod(
    world: World, transport: FaultyTransport
) -> None:
    bind, grant = await requesting_pod(world, "p"), grant_of(world, "p")
    claim_writer = writer(transport)
    await claim_writer.give_back(grant, bind.pod)
    await claim_writer.reserve(grant, [bind])
    await claim_writer.give_back(grant, PodUid("another"))
    assert len(await claims(world)) == 1
    await claim_writer.give_back(grant, bind.pod)
    assert not await claims(world)


@needs_class
async def test_a_name_that_is_in_use_is_not_taken_over(world: World, transport: FaultyTransport) -> None:
    bind, other = await requesting_pod(world, "p"), await requesting_pod(world, "q")
    await writer(transport).reserve(grant_of(world, "p"), [bind])
    with pytest.raises(ClaimLost, match="exists already"):
        await writer(transport).reserve(grant_of(world, "p"), [other])


@needs_class
async def test_a_gang_is_bound_after_its_claims_are_made(world: World, transport: FaultyTransport) -> None:
    transport.fault("POST", "/resourceclaims", applied_but_lost)
    grants = {name: grant_of(world, name, gpus=(f"gpu-{name}",)) for name in ("a", "b")}
    binds = [replace(await requesting_pod(world, name), grants=(grants[name],)) for name in ("a", "b")]
    async with binding(world, transport) as bench:
        await world.bind_elsewhere("b", "n2")
        bench.binder.submit(placement(*binds))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
        assert isinstance(bench.outcomes["b"], BindRefused)
    (left,) = await claims(world)
    assert left["metadata"]["name"] == grants["a"].name
    sent = [path.rpartition("/")[2] for method, path, _ in transport.sent if method in ("POST", "PATCH")]
    assert sent.index("binding") > max(index for index, each in enumerate(sent) if each == "status") - 1


@needs_class
async def test_a_pod_that_is_gone_gets_no_claim_that_stays(world: World, transport: FaultyTransport) -> None:
    bind = await requesting_pod(world, "p")
    await world.delete_pod("p")
    with pytest.raises((ClaimLost, Conflict)):  # the garbage collector may write at the same time
        await writer(transport).reserve(grant_of(world, "p"), [bind])
    for _ in range(5):
        with suppress(Conflict):
            await writer(transport).give_back(grant_of(world, "p"), bind.pod)
            break
    assert not await claims(world)
