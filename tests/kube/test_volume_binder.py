"""Claims are bound before pods: no pod of a gang is bound before all its claims, and failures strand nobody.

The view of claims is that of these tests, so that it may be late. Annotations are written to a real API
server, and to the embedded one.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from phalanx.kube import volume_binder
from phalanx.kube.binding import PROVISIONING_FAILED, BindAborted, BindRefused, Bound, LeadershipLost
from phalanx.kube.client import Patch
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Bind
from phalanx.model.supplies.volumes.published import UnboundClaim

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, not_sent
from tests.kube.test_binder import binding, placement
from tests.kube.world import World

SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at claims all the time, so that no test has to wait."""
    monkeypatch.setattr(volume_binder, "CLAIM_CHECK_PERIOD_S", 0.001)
    monkeypatch.setattr(volume_binder, "CLAIM_READ_PERIOD_S", 0.0)


def class_of(name: str) -> dict[str, Any]:
    """A StorageClass whose claims wait for a node."""
    return {
        "metadata": {"name": name},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


class Claims:
    """Claims in the API, one for each pod, and what the cache is said to know of them.

    Each test has a class of its own, since the volume controller binds claims to volumes of other tests too.
    It binds none before a volume names the claim.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.of_pod: dict[str, UnboundClaim] = {}
        self.looks = 0
        self.gone = False

    async def create(self, *pods: str) -> None:
        if not self.of_pod:
            await self.world.create(KINDS["StorageClass"].path(), class_of(self.world.namespace))
        for pod in pods:
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.world.namespace,
                "resources": {"requests": {"storage": "1Gi"}},
            }
            body = {"metadata": {"name": f"data-{pod}"}, "spec": spec}
            made = await self.world.create(self.world.path("PersistentVolumeClaim"), body)
            uid = made["metadata"]["uid"]
            self.of_pod[pod] = UnboundClaim(self.world.namespace, f"data-{pod}", uid)

    def unbound(self, bind: Bind) -> tuple[UnboundClaim, ...] | None:
        self.looks += 1
        claim = self.of_pod.get(bind.name)
        return None if self.gone else () if claim is None else (claim,)

    async def selected(self, pod: str) -> str | None:
        found = await self.world.get(self.world.path("PersistentVolumeClaim", f"data-{pod}"))
        node: str | None = found["metadata"].get("annotations", {}).get(SELECTED)
        return node

    async def annotate(self, pod: str, node: str | None) -> None:
        """Write the annotation, or remove it as a provisioner that gives up does."""
        body = msgspec.json.encode({"metadata": {"annotations": {SELECTED: node}}})
        path = self.world.path("PersistentVolumeClaim", f"data-{pod}")
        await self.world.client.patch(path, body, how=Patch.MERGE, timeout=30)

    async def until_selected(self, *pods: str, node: str = "n1") -> None:
        await self.until_async(lambda: self._are_selected(pods, node))

    async def _are_selected(self, pods: tuple[str, ...], node: str) -> bool:
        return all([await self.selected(pod) == node for pod in pods])

    async def until_async(self, so: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not await so():
                await asyncio.sleep(0)

    async def looked(self, times: int) -> None:
        """Wait until the binder has looked at claims so many times more."""
        until = self.looks + times
        async with asyncio.timeout(60):
            while self.looks < until:
                await asyncio.sleep(0)


async def test_no_pod_is_bound_before_all_claims_are(world: World, transport: FaultyTransport) -> None:
    claims = Claims(world)
    await claims.create("a", "b")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        plan = await bench.gang("a", "b", "c")
        bench.binder.submit(plan)
        await claims.until_selected("a", "b")
        del claims.of_pod["a"]
        await claims.looked(20)
        assert transport.count("POST", "/binding") == 0
        assert not bench.outcomes
        assert bench.binder.none_due.is_set(), "status and events need not wait for volumes"
        assert not bench.binder.idle.is_set()
        del claims.of_pod["b"]
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in plan.binds}
    assert transport.count("PATCH", "/persistentvolumeclaims/") == 2
    assert [await claims.selected(pod) for pod in "ab"] == ["n1", "n1"]


async def test_binds_are_due_while_only_some_gangs_wait_for_claims(
    world: World, transport: FaultyTransport
) -> None:
    claims = Claims(world)
    await claims.create("a")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        waits, goes = await bench.gang("a"), await bench.gang("b")
        bench.binder.submit(waits)
        await claims.until_selected("a")
        await bench.binder.none_due.wait()
        bench.binder.submit(goes)
        assert not bench.binder.none_due.is_set()
        await bench.binder.none_due.wait()
        assert bench.outcomes == {"b": Bound(goes.binds[0])}
        del claims.of_pod["a"]
        await bench.settled()
        assert bench.binder.none_due.is_set()


@pytest.mark.parametrize("fault", [not_sent, applied_but_lost, answer(500), answer(429), answer(401)])
async def test_a_write_that_may_have_failed_is_confirmed(
    world: World, transport: FaultyTransport, fault: Any
) -> None:
    claims = Claims(world)
    await claims.create("a")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        plan = await bench.gang("a")
        transport.fault("PATCH", "/persistentvolumeclaims/", fault)
        bench.binder.submit(plan)
        await claims.until_selected("a")
        del claims.of_pod["a"]
        await bench.settled()
        assert bench.outcomes == {"a": Bound(plan.binds[0])}


async def test_a_provisioner_that_gives_up_ends_the_placement_of_the_whole_gang(
    world: World, transport: FaultyTransport
) -> None:
    """The other claims lose their annotation, so that the gang may go elsewhere; bound ones keep it."""
    claims = Claims(world)
    await claims.create("a", "b", "c")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        bench.binder.submit(await bench.gang("a", "b", "c"))
        await claims.until_selected("a", "b", "c")
        await claims.annotate("b", None)
        await bench.settled()
        refused = bench.outcomes["b"]
        assert isinstance(refused, BindRefused)
        assert refused.reason == PROVISIONING_FAILED
        assert (
            f"PersistentVolumeClaim {world.namespace}/data-b: its provisioner has created no"
            in refused.message
        )
        assert all(isinstance(bench.outcomes[name], BindAborted) for name in "ac")
        await claims.until_selected("a", "b", "c", node=None)  # type: ignore[arg-type]
    assert transport.count("POST", "/binding") == 0


async def test_a_claim_that_cannot_be_bound_any_more_ends_the_placement(
    world: World, transport: FaultyTransport
) -> None:
    claims = Claims(world)
    await claims.create("a", "b")
    claims.of_pod["b"] = msgspec.structs.replace(claims.of_pod["b"], failure="its volume v is lost")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        bench.binder.submit(await bench.gang("a", "b"))
        await bench.settled()
        assert isinstance(bench.outcomes["b"], BindRefused)
        assert isinstance(bench.outcomes["a"], BindAborted)
    assert await claims.selected("a") is None


async def test_binding_that_does_not_end_is_given_up(
    world: World, transport: FaultyTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_binder, "CLAIM_BIND_TIMEOUT_S", 0.0)
    claims = Claims(world)
    await claims.create("a")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
        refused = bench.outcomes["a"]
        assert isinstance(refused, BindRefused)
        assert "was not bound within 0 seconds" in refused.message
        await claims.until_selected("a", node=None)  # type: ignore[arg-type]


async def test_a_gang_that_is_gone_leaves_no_annotation(world: World, transport: FaultyTransport) -> None:
    claims = Claims(world)
    await claims.create("a")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        bench.binder.submit(await bench.gang("a"))
        await claims.until_selected("a")
        claims.gone = True
        await bench.settled()
        assert isinstance(bench.outcomes["a"], BindAborted)
        await claims.until_selected("a", node=None)  # type: ignore[arg-type]


async def test_the_next_leader_goes_on_with_the_nodes_that_the_last_one_selected(
    world: World, transport: FaultyTransport
) -> None:
    claims = Claims(world)
    await claims.create("a", "b")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await claims.until_selected("a", "b")
        bench.fence.leads = False
        await bench.settled()
        assert bench.outcomes == {
            name: LeadershipLost(bind, sent=False) for name, bind in zip("ab", plan.binds, strict=True)
        }
    assert [await claims.selected(pod) for pod in "ab"] == ["n1", "n1"]
    known = {pod: msgspec.structs.replace(claim, selected_node="n1") for pod, claim in claims.of_pod.items()}
    claims.of_pod = known
    written = transport.count("PATCH", "/persistentvolumeclaims/")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        bench.binder.submit(plan)
        await claims.looked(10)
        claims.of_pod.clear()
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in plan.binds}
    assert transport.count("PATCH", "/persistentvolumeclaims/") == written


async def test_a_placement_is_checked_again_when_its_claims_are_bound(
    world: World, transport: FaultyTransport
) -> None:
    claims = Claims(world)
    await claims.create("a")
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        bench.binder.submit(await bench.gang("a"))
        await claims.until_selected("a")
        bench.plans.gang_problem = "node n1: the volume of claim data-a is not accessible"
        claims.of_pod.clear()
        await bench.settled()
        assert isinstance(bench.outcomes["a"], BindAborted)
    assert transport.count("POST", "/binding") == 0


async def test_pods_that_share_a_claim_ask_once(world: World, transport: FaultyTransport) -> None:
    claims = Claims(world)
    await claims.create("a")
    claims.of_pod["b"] = claims.of_pod["a"]
    async with binding(world, transport, unbound_claims=claims.unbound) as bench:
        binds = [await bench.bind("a", node="n1"), await bench.bind("b", node="n2")]
        bench.binder.submit(placement(*binds))
        await claims.until_selected("a")
        claims.of_pod.clear()
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in binds}
    assert transport.count("PATCH", "/persistentvolumeclaims/") == 1
