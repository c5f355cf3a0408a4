"""No pod of a gang is bound before the devices of all its claims are ready, and nobody waits for ever.

What the cache knows of claims is said by these tests. Claims are written to a real API server.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from phalanx.kube.binding import BindAborted, Bound, LeadershipLost
from phalanx.kube.devices import device_waits
from phalanx.model.decisions import Bind
from phalanx.model.events import Applied
from phalanx.model.supplies.devices.api import ResourceClaim
from phalanx.model.supplies.devices.claims import AwaitedClaim, ClaimGrant
from phalanx_controlplane.controlplane import ControlPlane

from tests.kube.faults import FaultyTransport
from tests.kube.test_binder import Bench, binding
from tests.kube.test_claims import claim, device_class, needs_class, new_claim, request
from tests.kube.world import World

__all__ = ["device_class"]

pytestmark = pytest.mark.controlplane
WHY = "device gpu-0: its binding condition attached is not true yet"


@pytest.fixture
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Only the real API server: it validates what is written."""
    return Path(control_plane.kubeconfig_path)


class Devices:
    """What the cache is said to know of the claims of gangs, and the events about them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.grants: dict[str, tuple[ClaimGrant, ...]] = {}
        self.awaited: dict[str, bool] = {}
        """Claims that are not ready, and whether they can only wait."""
        self.looks: dict[str, int] = {}

    async def claims_of(self, *pods: str, ready: bool = False) -> None:
        for pod in pods:
            self.grants[pod] = (await new_claim(self.world, f"c-{pod}", request("a")),)
            if not ready:
                self.awaited[f"c-{pod}"] = True

    def of(self, bind: Bind) -> tuple[AwaitedClaim, ...]:
        self.looks[bind.name] = self.looks.get(bind.name, 0) + 1
        return tuple(
            AwaitedClaim(grant.namespace, grant.name, WHY, self.awaited[grant.name])
            for grant in bind.grants
            if grant.name in self.awaited
        )

    def text(self, name: str) -> str:
        return f"ResourceClaim {self.world.namespace}/{name}: {WHY}"

    def event(self, name: str, *, is_kept: bool = True, deleting: bool = False) -> Applied:
        meta: dict[str, Any] = {"namespace": self.world.namespace, "name": name}
        if deleting:
            meta["deletionTimestamp"] = "2026-11-26T00:00:00Z"
        status = {"allocation": {}} if is_kept else {}
        return Applied(msgspec.convert({"metadata": meta, "status": status}, ResourceClaim))


async def waiting(bench: Bench) -> None:
    """Until the gang waits, and nothing else is to do."""
    async with asyncio.timeout(60):
        await bench.binder.none_due.wait()


@needs_class
async def test_no_pod_is_bound_before_the_devices_of_all_are_ready(
    world: World, transport: FaultyTransport
) -> None:
    devices = Devices(world)
    await devices.claims_of("a", "b")
    await devices.claims_of("c", "other", ready=True)
    async with binding(world, transport, grants=devices.grants, awaited_claims=devices.of) as bench:
        plan = await bench.gang("a", "b", "c", "d")
        bench.binder.submit(plan)
        await waiting(bench)
        assert not bench.binder.idle.is_set()
        assert (await claim(world, "c-c"))["status"]["reservedFor"], "all claims are written at once"
        bench.binder.submit(await bench.gang("other"))
        await waiting(bench)
        assert list(bench.outcomes) == ["other"], "no other gang waits for these devices"
        bench.binder.notice(devices.event("c-b"))
        del devices.awaited["c-a"]
        bench.binder.notice(devices.event("c-a"))
        looks = dict(devices.looks)
        bench.binder.notice(devices.event("c-other"))
        bench.binder.notice(devices.event("unknown"))
        await waiting(bench)
        assert list(bench.outcomes) == ["other"]
        assert devices.looks == looks, "an event that concerns nobody costs nothing"
        del devices.awaited["c-b"]
        bench.binder.notice(devices.event("c-b"))
        await bench.settled()
        assert {name: bench.outcomes[name] for name in "abcd"} == {
            bind.name: Bound(bind) for bind in plan.binds
        }
        assert bench.awaited == [devices.text("c-a"), devices.text("c-b"), ""]
    assert transport.count("POST", "/binding") == 5


@needs_class
async def test_a_gang_goes_on_after_the_devices_of_one_pod_were_looked_at_again(
    world: World, transport: FaultyTransport
) -> None:
    """Many events of one claim do not bind a pod twice."""
    devices = Devices(world)
    await devices.claims_of("a")
    async with binding(world, transport, grants=devices.grants, awaited_claims=devices.of) as bench:
        bench.binder.submit(await bench.gang("a", "b"))
        await waiting(bench)
        devices.awaited["c-a"] = False
        for _ in range(3):
            bench.binder.notice(devices.event("c-a"))
        await waiting(bench)
        devices.awaited.clear()
        for _ in range(3):
            bench.binder.notice(devices.event("c-a"))
        await bench.settled()
        assert all(isinstance(each, Bound) for each in bench.outcomes.values())
    assert transport.count("POST", "/binding") == 2


@needs_class
async def test_a_placement_ends_only_while_its_gang_waits_for_devices(
    world: World, transport: FaultyTransport
) -> None:
    devices = Devices(world)
    await devices.claims_of("a", "b", "other")
    async with binding(world, transport, grants=devices.grants, awaited_claims=devices.of) as bench:
        plan, other = await bench.gang("a", "b", "c"), await bench.gang("other")
        bench.binder.submit(plan)
        bench.binder.submit(other)
        await waiting(bench)
        bench.binder.withdraw([bind.pod for bind in plan.binds[:1]], "for a better one")
        assert bench.outcomes == {
            bind.name: BindAborted(bind, "for a better one", is_withdrawn=True) for bind in plan.binds
        }
        devices.awaited.clear()
        bench.binder.notice(devices.event("c-other"))
        await bench.settled()
        bench.binder.withdraw([bind.pod for bind in other.binds], "too late")
        assert bench.outcomes["other"] == Bound(other.binds[0])
        assert "reservedFor" not in (await claim(world, "c-a"))["status"], "its claims are given back"
    assert transport.count("POST", "/binding") == 1


@needs_class
async def test_all_claims_of_a_gang_are_given_back_when_one_device_has_failed(
    world: World, transport: FaultyTransport
) -> None:
    devices = Devices(world)
    await devices.claims_of("a")
    await devices.claims_of("ready", ready=True)
    async with binding(world, transport, grants=devices.grants, awaited_claims=devices.of) as bench:
        bench.binder.submit(await bench.gang("a", "ready"))
        await waiting(bench)
        bench.plans.gang_problem = "the device broke"
        devices.awaited["c-a"] = False
        bench.binder.notice(devices.event("c-a"))
        await bench.settled()
        reasons = {each.reason for each in bench.outcomes.values() if isinstance(each, BindAborted)}
        assert reasons == {"the device broke"}
    assert transport.count("POST", "/binding") == 0
    for name in ("c-a", "c-ready"):
        assert not (await claim(world, name)).get("status")


@needs_class
async def test_devices_that_are_not_ready_in_time_are_given_back(
    world: World, transport: FaultyTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = Devices(world)
    await devices.claims_of("a", "b")
    monkeypatch.setattr(device_waits, "DEVICE_BIND_TIMEOUT_S", 0.001)
    monkeypatch.setattr(device_waits, "CLAIM_CHECK_PERIOD_S", 0.001)
    async with binding(world, transport, grants=devices.grants, awaited_claims=devices.of) as bench:
        bench.binder.submit(await bench.gang("a", "b"))
        await bench.settled()
        reasons = {each.reason for each in bench.outcomes.values() if isinstance(each, BindAborted)}
        assert reasons == {f"{devices.text('c-a')} after 0 seconds"}
    assert not (await claim(world, "c-a")).get("status")
    assert not (await claim(world, "c-b")).get("status")


@needs_class
@pytest.mark.parametrize("leads", [True, False])
async def test_a_gang_that_waits_does_not_outlive_the_leader(
    world: World, transport: FaultyTransport, leads: bool
) -> None:
    """The next leader owns the claims; one that stops in order gives them back."""
    devices = Devices(world)
    await devices.claims_of("a")
    async with binding(world, transport, grants=devices.grants, awaited_claims=devices.of) as bench:
        bench.binder.submit(await bench.gang("a"))
        await waiting(bench)
        bench.fence.leads = leads
        await bench.binder.stop(within=30)
        await bench.settled()
        expected = BindAborted if leads else LeadershipLost
        assert [type(each) for each in bench.outcomes.values()] == [expected]
    assert bool((await claim(world, "c-a")).get("status")) is not leads
