"""Allocations of claims are written to a real API server, once, and given back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace
from phalanx.kube.binding import BindAborted, BindRefused, Bound, LeadershipLost
from phalanx.kube.client import Patch
from phalanx.kube.devices.claim_documents import FINALIZER, ClaimLost
from phalanx.kube.devices.claim_writer import ClaimWriter
from phalanx.kube.errors import Conflict
from phalanx.model.decisions import Bind, GiveBack
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Requirement, Term
from phalanx.model.supplies.devices import api
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation, ClaimGrant
from phalanx.model.supplies.devices.pools import Binding, NodeChoice
from phalanx.model.supplies.devices.read import read_resource_claim, read_unbound
from phalanx.ports import OutcomeUnknown, Response
from phalanx_controlplane.controlplane import ControlPlane

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, held_until, lost
from tests.kube.reports import Reports
from tests.kube.test_binder import Bench, binding, placement
from tests.kube.world import World
from tests.write_context import write_context

pytestmark = pytest.mark.controlplane

DRIVER = "gpu.example.com"
CLASS = "kube-claims.example.com"
HERE = NodeChoice(node="n1")


@pytest.fixture
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Only the real API server: it validates what is written."""
    return Path(control_plane.kubeconfig_path)


@pytest_asyncio.fixture
async def device_class(world: World) -> None:
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    opaque = {"driver": DRIVER, "parameters": {"kind": "ClassConfig"}}
    body = {"metadata": {"name": CLASS}, "spec": {"config": [{"opaque": opaque}]}}
    try:
        await world.create(path, body)
    except Conflict:
        return


needs_class = pytest.mark.usefixtures("device_class")


def request(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": CLASS, **more}}


async def new_claim(world: World, name: str, *requests: dict[str, Any], **more: Any) -> ClaimGrant:
    """Create a claim, and decide devices of "n1" for its requests."""
    spec = {"devices": {"requests": list(requests), **more}}
    created = await world.create(world.path("ResourceClaim"), {"metadata": {"name": name}, "spec": spec})
    devices = tuple(
        AllocatedDevice(each["name"], (DRIVER, "n1", f"gpu-{index}")) for index, each in enumerate(requests)
    )
    return ClaimGrant(world.namespace, name, created["metadata"]["uid"], Allocation(devices, HERE))


def bind_of(world: World, name: str) -> Bind:
    return Bind(PodUid(f"uid-{name}"), world.namespace, name, NodeName("n1"))


def writer(transport: FaultyTransport) -> ClaimWriter:
    return ClaimWriter(write_context(transport, reports=Reports()))


async def claim(world: World, name: str) -> dict[str, Any]:
    return await world.get(world.path("ResourceClaim", name))


@needs_class
async def test_an_allocation_is_written_with_configuration_and_consumer(
    world: World, transport: FaultyTransport
) -> None:
    opaque = {"driver": DRIVER, "parameters": {"kind": "ClaimConfig"}}
    grant = await new_claim(
        world,
        "c",
        request("a", tolerations=[{"key": "k", "operator": "Exists"}]),
        request("b"),
        config=[{"opaque": opaque, "requests": ["b"]}],
    )
    await writer(transport).reserve(grant, [bind_of(world, "p")])
    found = await claim(world, "c")
    assert found["metadata"]["finalizers"] == [FINALIZER]
    status = found["status"]
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    devices = status["allocation"]["devices"]
    assert [each["device"] for each in devices["results"]] == ["gpu-0", "gpu-1"]
    assert devices["results"][0]["tolerations"][0]["key"] == "k"
    assert "allocationTimestamp" in status["allocation"]
    assert [(each["source"], each.get("requests")) for each in devices["config"]] == [
        ("FromClass", None),
        ("FromClaim", ["b"]),
    ]
    read = read_resource_claim(msgspec.convert(found, api.ResourceClaim))
    assert grant.allocation is not None
    assert read.allocation is not None
    assert {each.device for each in read.allocation.devices} == {
        each.device for each in grant.allocation.devices
    }
    assert read.allocation.nodes.terms == (
        Term((Requirement("metadata.name", "In", ("n1",), on_field=True),)),
    )


@needs_class
async def test_all_members_of_a_gang_may_use_one_claim(world: World, transport: FaultyTransport) -> None:
    grant = await new_claim(world, "shared", request("a"))
    claims = writer(transport)
    await claims.reserve(grant, [bind_of(world, name) for name in ("p", "q")])
    await claims.reserve(grant, [bind_of(world, "p")])
    await claims.reserve(replace(grant, allocation=None), [bind_of(world, "late")])
    found = (await claim(world, "shared"))["status"]
    assert [each["name"] for each in found["reservedFor"]] == ["p", "q", "late"]
    await claims.give_back(grant, bind_of(world, "p").pod)
    await claims.give_back(grant, bind_of(world, "stranger").pod)
    found = (await claim(world, "shared"))["status"]
    assert [each["name"] for each in found["reservedFor"]] == ["q", "late"]
    assert found["allocation"]["devices"]["results"]


@needs_class
async def test_the_last_consumer_gives_the_devices_back(world: World, transport: FaultyTransport) -> None:
    grant = await new_claim(world, "c", request("a"))
    claims = writer(transport)
    await claims.reserve(grant, [bind_of(world, "p")])
    await claims.give_back(grant, bind_of(world, "p").pod)
    found = await claim(world, "c")
    assert not found.get("status")
    assert FINALIZER not in found["metadata"].get("finalizers", ())
    await claims.give_back(grant, bind_of(world, "p").pod)
    await claims.reserve(grant, [bind_of(world, "q")])
    await claims.give_back(replace(grant, allocation=None), bind_of(world, "q").pod)
    assert "allocation" in (await claim(world, "c"))["status"]


@needs_class
async def test_binding_conditions_are_written_and_what_the_driver_says_of_them_is_given_back(
    world: World, transport: FaultyTransport
) -> None:
    """The API server takes conditions only of devices that are allocated."""
    grant = await new_claim(world, "c", request("a"), request("b"))
    assert grant.allocation is not None
    first, second = grant.allocation.devices
    prepared = replace(first, binding=Binding(("attached", "linked"), ("broken",)))
    grant = replace(grant, allocation=Allocation((prepared, second), HERE))
    claims = writer(transport)
    await claims.reserve(grant, [bind_of(world, "p")])
    results = (await claim(world, "c"))["status"]["allocation"]["devices"]["results"]
    kinds = ("bindingConditions", "bindingFailureConditions")
    assert [[each.get(kind) for kind in kinds] for each in results] == [
        [["attached", "linked"], ["broken"]],
        [None, None],
    ]
    await says(world, "c", attached="True", linked="False")
    unbound, has_failed = read_unbound(await status_of(world, "c"))
    assert (unbound, has_failed) == ("device gpu-0: its binding condition linked is not true yet", False)
    await says(world, "c", attached="True", linked="True", broken="True")
    assert read_unbound(await status_of(world, "c"))[1]
    await claims.give_back(grant, bind_of(world, "p").pod)
    assert not (await claim(world, "c")).get("status")
    await claims.reserve(grant, [bind_of(world, "q")])
    assert not (await claim(world, "c"))["status"].get("devices"), "nothing is left of the first attempt"


async def status_of(world: World, name: str) -> api.ResourceClaimStatus:
    return msgspec.convert(await claim(world, name), api.ResourceClaim).status


async def says(world: World, name: str, **conditions: str) -> None:
    """A driver writes the conditions of the first device."""
    found = await claim(world, name)
    first = found["status"]["allocation"]["devices"]["results"][0]
    more = {"reason": "Said", "message": "by the driver", "lastTransitionTime": "2026-11-26T00:00:00Z"}
    written = [{"type": kind, "status": status, **more} for kind, status in conditions.items()]
    device = {key: first[key] for key in ("driver", "pool", "device")} | {"conditions": written}
    path = world.path("ResourceClaim", name, "status")
    body = msgspec.json.encode({"status": {"devices": [device]}})
    await world.client.patch(path, body, how=Patch.MERGE, timeout=30)


@needs_class
async def test_a_new_leader_gives_back_what_the_last_one_reserved_for_a_waiting_pod(
    world: World, transport: FaultyTransport
) -> None:
    """A pod that was bound after all keeps its claim, and so does one that the binder binds."""
    claims = writer(transport)
    async with binding(world, transport) as bench:
        held = []
        for name in ("waits", "bound"):
            grant = await new_claim(world, name, request("a"))
            bind = await bench.bind(name)
            await claims.reserve(grant, [bind])
            held.append(GiveBack(bind.pod, bind.namespace, bind.name, (grant,)))
        bench.binder.submit(replace(placement(bind), level="", domain=""))
        await bench.settled()
        bench.binder.give_back(held)
        bench.binder.give_back(held)
        await bench.settled()
    assert not (await claim(world, "waits")).get("status")
    assert (await claim(world, "bound"))["status"]["allocation"]["devices"]["results"]


@needs_class
async def test_each_claim_is_reported_as_it_was_read_and_written(
    world: World, transport: FaultyTransport
) -> None:
    grant = await new_claim(world, "c", request("a"))
    seen: list[api.ResourceClaim] = []
    claims = ClaimWriter(write_context(transport, reports=Reports()), seen.append)
    await claims.reserve(grant, [bind_of(world, "p")])
    await claims.give_back(grant, bind_of(world, "p").pod)
    allocations = [each.status.allocation is not None for each in seen]
    assert allocations == [False, False, True, True, False, False]
    versions = [int(each.metadata.resource_version) for each in seen]
    assert versions == sorted(versions)


@needs_class
async def test_another_scheduler_was_first(world: World, transport: FaultyTransport) -> None:
    grant = await new_claim(world, "c", request("a"))
    claims = writer(transport)
    other = Allocation((AllocatedDevice("a", (DRIVER, "n1", "gpu-7")),), HERE)
    await claims.reserve(replace(grant, allocation=other), [bind_of(world, "theirs")])
    with pytest.raises(ClaimLost, match=r"c was allocated by another scheduler meanwhile"):
        await claims.reserve(grant, [bind_of(world, "ours")])
    await claims.give_back(grant, bind_of(world, "ours").pod)
    assert (await claim(world, "c"))["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-7"


@needs_class
async def test_what_is_gone_or_refused_is_lost(world: World, transport: FaultyTransport) -> None:
    claims = writer(transport)
    grant = await new_claim(world, "c", request("a"))
    for changed, why in (
        (replace(grant, name="gone"), "not found"),
        (replace(grant, uid="other"), "the name belongs to another claim now"),
        (replace(grant, allocation=None), "is not allocated any more"),
        (
            replace(grant, allocation=Allocation((AllocatedDevice("b", (DRIVER, "n1", "g")),), HERE)),
            "request",
        ),
    ):
        with pytest.raises(ClaimLost, match=why):
            await claims.reserve(changed, [bind_of(world, "p")])
    await claims.give_back(replace(grant, name="gone"), bind_of(world, "p").pod)
    await claims.give_back(replace(grant, uid="other"), bind_of(world, "p").pod)


@needs_class
async def test_a_write_of_unknown_outcome_is_repeated(world: World, transport: FaultyTransport) -> None:
    grant = await new_claim(world, "c", request("a"))
    transport.fault("PATCH", "/status", applied_but_lost)
    with pytest.raises(OutcomeUnknown):
        await writer(transport).reserve(grant, [bind_of(world, "p")])
    await writer(transport).reserve(grant, [bind_of(world, "p")])
    assert [each["name"] for each in (await claim(world, "c"))["status"]["reservedFor"]] == ["p"]
    assert transport.count("PATCH", "/status") == 1


@needs_class
async def test_a_claim_that_changed_meanwhile_is_read_again(world: World, transport: FaultyTransport) -> None:
    grant = await new_claim(world, "c", request("a"))

    async def changed_before(send: Callable[[], Any]) -> Response:
        await world.label("ResourceClaim", "c", changed="yes")
        response: Response = await send()
        return response

    transport.fault("PATCH", "/status", changed_before)
    with pytest.raises(Conflict):
        await writer(transport).reserve(grant, [bind_of(world, "p")])
    assert "status" not in await claim(world, "c") or not (await claim(world, "c"))["status"]
    await writer(transport).reserve(grant, [bind_of(world, "p")])
    assert (await claim(world, "c"))["status"]["reservedFor"]


# --- with the binder ----------------------------------------------------------------------------------------


@asynccontextmanager
async def granting(
    world: World, transport: FaultyTransport, grants: dict[str, tuple[ClaimGrant, ...]]
) -> AsyncIterator[Bench]:
    """A binder that reserves these claims, by the names of the pods."""

    async with binding(world, transport, grants=grants) as bench:
        yield bench


@needs_class
async def test_all_claims_are_reserved_before_the_first_bind(
    world: World, transport: FaultyTransport
) -> None:
    shared, own = await new_claim(world, "shared", request("a")), await new_claim(world, "own", request("a"))
    transport.fault("PATCH", "/resourceclaims/own/status", answer(503), answer(409))
    async with granting(world, transport, {"a": (shared, own), "b": (shared,)}) as bench:
        bench.binder.submit(await bench.gang("a", "b", "c"))
        await bench.settled()
        assert all(isinstance(each, Bound) for each in bench.outcomes.values())
    kinds = ["bind" if path.endswith("/binding") else "claim" for _, path, _ in transport.sent]
    assert kinds.index("bind") == kinds.count("claim")
    found = {name: (await claim(world, name))["status"]["reservedFor"] for name in ("shared", "own")}
    assert {each["name"] for each in found["shared"]} == {"a", "b"}
    assert [each["name"] for each in found["own"]] == ["a"]
    assert transport.count("PATCH", "/resourceclaims/shared/status") == 1


@needs_class
async def test_a_lost_claim_gives_up_the_placement_and_the_other_claims(
    world: World, transport: FaultyTransport
) -> None:
    mine, gone = await new_claim(world, "mine", request("a")), await new_claim(world, "gone", request("a"))
    other = Allocation((AllocatedDevice("a", (DRIVER, "n1", "gpu-7")),), HERE)
    await writer(transport).reserve(replace(gone, allocation=other), [bind_of(world, "theirs")])
    async with granting(world, transport, {"a": (mine,), "b": (gone,)}) as bench:
        bench.binder.submit(await bench.gang("a", "b"))
        await bench.settled()
        reasons = {each.reason for each in bench.outcomes.values() if isinstance(each, BindAborted)}
    assert reasons == {f"{gone} was allocated by another scheduler meanwhile"}
    assert transport.count("POST", "/binding") == 0
    assert not (await claim(world, "mine")).get("status")
    assert [each["name"] for each in (await claim(world, "gone"))["status"]["reservedFor"]] == ["theirs"]


@needs_class
async def test_a_pod_that_is_not_bound_gives_its_claim_back(world: World, transport: FaultyTransport) -> None:
    first, second = await new_claim(world, "c1", request("a")), await new_claim(world, "c2", request("a"))
    transport.fault("PATCH", "/resourceclaims/c2/status", passed, lost)
    async with granting(world, transport, {"a": (first,), "b": (second,)}) as bench:
        plan = await bench.gang("a", "b")
        await world.bind_elsewhere("b", "n2")
        bench.binder.submit(plan)
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
        assert isinstance(bench.outcomes["b"], BindRefused)
    assert (await claim(world, "c1"))["status"]["reservedFor"]
    assert not (await claim(world, "c2")).get("status")


@needs_class
async def test_a_claim_stays_reserved_if_its_pod_may_be_bound_when_the_scheduler_stops(
    world: World, transport: FaultyTransport
) -> None:
    grant = await new_claim(world, "c", request("a"))
    transport.fault("POST", "/pods/a/binding", held_until(asyncio.Event()))
    async with granting(world, transport, {"a": (grant,)}) as bench:
        bench.binder.submit(await bench.gang("a"))
        while not transport.count("POST", "/binding"):
            await asyncio.sleep(0)
        await bench.binder.stop(within=0.05)
        await bench.settled()
        assert isinstance(bench.outcomes["a"], LeadershipLost)
    assert (await claim(world, "c"))["status"]["reservedFor"]


async def passed(send: Callable[[], Any]) -> Response:
    response: Response = await send()
    return response
