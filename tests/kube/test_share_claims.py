"""Shares of devices are written to a real API server, which validates devices, claims and allocations."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace
from phalanx.kube.devices.claim_documents import ClaimLost
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.claims import Claim, ClaimGrant
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState, grants
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.read import read_device_class, read_resource_claim, read_slice
from phalanx.ports import OutcomeUnknown
from phalanx_controlplane.controlplane import ControlPlane

from tests.kube.faults import FaultyTransport, applied_but_lost
from tests.kube.test_claims import bind_of, claim, writer
from tests.kube.world import TIMEOUT, World

pytestmark = pytest.mark.controlplane

RESOURCES = "/apis/resource.k8s.io/v1"
MATCHER = Matcher()


@pytest.fixture
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Only the real API server: it validates what is written."""
    return Path(control_plane.kubeconfig_path)


@pytest_asyncio.fixture(autouse=True)
async def withdrawn(world: World) -> AsyncIterator[None]:
    """What the test has published is deleted: it has no namespace."""
    yield
    for kind in ("resourceslices", "deviceclasses"):
        path = f"{RESOURCES}/{kind}/{world.namespace}"
        found = await world.get(path)
        await world.client.delete(path, uid=found["metadata"]["uid"], timeout=TIMEOUT)


async def publish(world: World, devices: list[dict[str, Any]]) -> None:
    """A class and a node with these devices, of which no other test knows."""
    name = world.namespace
    selectors = [{"cel": {"expression": f'device.driver == "{name}.example.com"'}}]
    await world.create(
        f"{RESOURCES}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": selectors}}
    )
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"{name}.example.com", "nodeName": name, "pool": pool, "devices": devices}
    await world.create(f"{RESOURCES}/resourceslices", {"metadata": {"name": name}, "spec": spec})


def shared(capacity: dict[str, Any]) -> dict[str, Any]:
    return {"name": "gpu", "allowMultipleAllocations": True, "capacity": capacity}


CAPACITY = {
    "memory": {
        "value": "80Gi",
        "requestPolicy": {"default": "10Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}},
    },
    "cores": {"value": "7", "requestPolicy": {"default": "1", "validValues": ["1", "2500m"]}},
    "links": {"value": "2", "requestPolicy": {"default": "0"}},
}


async def new_claim(world: World, name: str, **amounts: str) -> None:
    more = {"capacity": {"requests": amounts}} if amounts else {}
    request = {"name": "r", "exactly": {"deviceClassName": world.namespace, **more}}
    spec = {"devices": {"requests": [request]}}
    await world.create(world.path("ResourceClaim"), {"metadata": {"name": name}, "spec": spec})


async def state_of(world: World) -> DeviceState:
    """Devices as the API server shows them now."""
    name = world.namespace
    slices = await world.get(f"{RESOURCES}/resourceslices/{name}")
    device_class = await world.get(f"{RESOURCES}/deviceclasses/{name}")
    claims = (await world.get(world.path("ResourceClaim")))["items"]
    return DeviceState(
        ClusterDevices(
            slices=(read_slice(msgspec.convert(slices, api.ResourceSlice)),),
            classes={name: read_device_class(msgspec.convert(device_class, api.DeviceClass))},
            claims=tuple(read_resource_claim(msgspec.convert(each, api.ResourceClaim)) for each in claims),
        ),
        MATCHER,
    )


async def decide(world: World, name: str) -> ClaimGrant | None:
    """A share for the claim beside what is in use; None if there is none."""
    state = await state_of(world)
    found = state.claim(world.namespace, name)
    assert isinstance(found, Claim)
    node = Node(name=NodeName(world.namespace), uid="n", labels={})
    answer = state.allocate([found], state.on(node))
    assert not answer.is_error, answer.reason
    if answer.claims is None:
        return None
    (grant,) = grants([found], answer, node)
    return grant


async def reserved(world: World, transport: FaultyTransport, name: str) -> dict[str, Any]:
    """The result of the claim after it was decided and written."""
    grant = await decide(world, name)
    assert grant is not None
    await writer(transport).reserve(grant, [bind_of(world, f"pod-of-{name}")])
    (result,) = (await claim(world, name))["status"]["allocation"]["devices"]["results"]
    found: dict[str, Any] = result
    return found


async def test_shares_are_written_until_the_device_is_used_up(
    world: World, transport: FaultyTransport
) -> None:
    await publish(world, [shared(CAPACITY)])
    asked: dict[str, dict[str, str]] = {
        "a": {},
        "b": {"memory": "11Gi", "cores": "1100m"},
        "c": {"memory": "40Gi"},
        "d": {"memory": "1"},
        "e": {"memory": "6Gi", "links": "1"},
        "f": {"memory": "5Gi"},
    }
    for name, amounts in asked.items():
        await new_claim(world, name, **amounts)
    found = {name: await reserved(world, transport, name) for name in "abcd"}
    assert [each["consumedCapacity"] for each in found.values()] == [
        {"memory": "10Gi", "cores": "1", "links": "0"},
        {"memory": "15Gi", "cores": "2500m", "links": "0"},
        {"memory": "40Gi", "cores": "1", "links": "0"},
        {"memory": "5Gi", "cores": "1", "links": "0"},
    ]
    assert len({each["shareID"] for each in found.values()}) == 4
    assert await decide(world, "f") is not None
    assert (await reserved(world, transport, "e"))["consumedCapacity"]["memory"] == "10Gi"
    assert await decide(world, "f") is None
    held = await state_of(world)
    given = held.claim(world.namespace, "d")
    assert given is not None
    grant = ClaimGrant(given.namespace, given.name, given.uid, given.allocation)
    await writer(transport).give_back(grant, bind_of(world, "pod-of-d").pod)
    assert await decide(world, "f") is not None


async def test_a_repeated_write_has_the_same_share(world: World, transport: FaultyTransport) -> None:
    await publish(world, [shared({"memory": {"value": "3"}, "part": {"value": "1500u"}})])
    await new_claim(world, "c", memory="1", part="7n")
    grant = await decide(world, "c")
    assert grant is not None
    transport.fault("PATCH", "/status", applied_but_lost)
    with pytest.raises(OutcomeUnknown):
        await writer(transport).reserve(grant, [bind_of(world, "p")])
    (before,) = (await claim(world, "c"))["status"]["allocation"]["devices"]["results"]
    assert before["consumedCapacity"] == {"memory": "1", "part": "7n"}
    await writer(transport).reserve(grant, [bind_of(world, "p")])
    found = (await claim(world, "c"))["status"]
    assert found["allocation"]["devices"]["results"] == [before]
    assert [each["name"] for each in found["reservedFor"]] == ["p"]
    await writer(transport).give_back(grant, bind_of(world, "p").pod)
    assert not (await claim(world, "c")).get("status")


async def test_a_share_of_another_scheduler_is_not_given_back(
    world: World, transport: FaultyTransport
) -> None:
    """It differs only in its ID."""
    await publish(world, [shared({"memory": {"value": "3"}})])
    await new_claim(world, "c", memory="1")
    grant = await decide(world, "c")
    assert grant is not None
    assert grant.allocation is not None
    (own,) = grant.allocation.devices
    theirs = replace(own, share_id="11111111-2222-4333-8444-555555555555")
    other = replace(grant, allocation=replace(grant.allocation, devices=(theirs,)))
    await writer(transport).reserve(other, [bind_of(world, "theirs")])
    with pytest.raises(ClaimLost, match="was allocated by another scheduler meanwhile"):
        await writer(transport).reserve(grant, [bind_of(world, "ours")])
    await writer(transport).give_back(grant, bind_of(world, "theirs").pod)
    (result,) = (await claim(world, "c"))["status"]["allocation"]["devices"]["results"]
    assert result["shareID"] == theirs.share_id


async def test_a_device_without_capacity_has_shares_too(world: World, transport: FaultyTransport) -> None:
    await publish(world, [shared({})])
    for name in ("a", "b"):
        await new_claim(world, name)
        found = await reserved(world, transport, name)
        assert found["shareID"]
        assert "consumedCapacity" not in found
