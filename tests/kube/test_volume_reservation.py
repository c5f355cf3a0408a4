"""Volumes that exist already are reserved before pods are bound, and given back if nobody took them.

Where a test acts for the volume controller, the API server is the embedded one, beside which none runs.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from phalanx.kube import volume_binder
from phalanx.kube.binding import BindAborted, BindRefused, Bound, LeadershipLost
from phalanx.kube.client import Patch
from phalanx.model.decisions import Bind

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, not_sent
from tests.kube.test_binder import binding, placement
from tests.kube.test_volume_binder import Claims
from tests.kube.world import World

without_controller = pytest.mark.parametrize("kubeconfig", ["embedded_api"], indirect=True)
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at claims all the time, so that no test has to wait."""
    monkeypatch.setattr(volume_binder, "CLAIM_CHECK_PERIOD_S", 0.001)
    monkeypatch.setattr(volume_binder, "CLAIM_READ_PERIOD_S", 0.0)


class Volumes(Claims):
    """Claims of pods, with a volume that was decided for each. No provisioner is asked."""

    async def create(self, *pods: str) -> None:
        await super().create(*pods)
        for pod in pods:
            self.of_pod[pod] = msgspec.structs.replace(self.of_pod[pod], needs_node=False)
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.world.namespace,
                "hostPath": {"path": "/tmp/data"},
            }
            await self.world.create(VOLUMES, {"metadata": {"name": self.volume(pod)}, "spec": spec})
            await self.phase(pod, "Available")

    def volume(self, pod: str) -> str:
        return f"{self.world.namespace}-{pod}"

    def decided(self, bind: Bind, *, of: str = "") -> Bind:
        pair = (f"{self.world.namespace}/data-{of or bind.name}", self.volume(of or bind.name))
        return msgspec.structs.replace(bind, volumes=(pair,))

    async def phase(self, pod: str, phase: str) -> None:
        await self._change(pod, {"status": {"phase": phase}}, "/status")

    async def refer(self, pod: str, reference: dict[str, str] | None) -> None:
        await self._change(pod, {"spec": {"claimRef": reference}})

    async def _change(self, pod: str, change: dict[str, Any], subresource: str = "") -> None:
        path = f"{VOLUMES}/{self.volume(pod)}{subresource}"
        await self.world.client.patch(path, msgspec.json.encode(change), how=Patch.MERGE, timeout=30)

    async def reference(self, pod: str) -> dict[str, Any] | None:
        found: dict[str, Any] = await self.world.get(f"{VOLUMES}/{self.volume(pod)}")
        reference: dict[str, Any] | None = found["spec"].get("claimRef")
        return reference

    async def until_reserved(self, *pods: str) -> None:
        for pod in pods:
            await self.until_async(lambda pod=pod: self._is_reserved(pod))

    async def _is_reserved(self, pod: str) -> bool:
        reference = await self.reference(pod)
        return reference is not None and reference["uid"] == self.of_pod[pod].uid

    async def until_free(self, *pods: str) -> None:
        for pod in pods:
            await self.until_async(lambda pod=pod: self._is_free(pod))

    async def _is_free(self, pod: str) -> bool:
        return await self.reference(pod) is None

    async def remove(self, *pods: str) -> None:
        for pod in pods:
            path = f"{VOLUMES}/{self.volume(pod)}"
            found = await self.world.get(path)
            await self.world.client.delete(path, uid=found["metadata"]["uid"], timeout=30)


@pytest.fixture
async def volumes(world: World) -> AsyncIterator[Volumes]:
    made = Volumes(world)
    await made.create("a", "b")
    yield made
    await made.remove("a", "b")


async def test_no_pod_is_bound_before_all_volumes_are(
    world: World, transport: FaultyTransport, volumes: Volumes
) -> None:
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        binds = [volumes.decided(await bench.bind(name)) for name in "ab"]
        bench.binder.submit(placement(*binds))
        await volumes.until_reserved("a", "b")
        claims = dict(volumes.of_pod)
        del volumes.of_pod["a"]
        await volumes.looked(20)
        assert transport.count("POST", "/binding") == 0
        volumes.of_pod.clear()
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in binds}
        volumes.of_pod = claims
    assert transport.count("PATCH", "/persistentvolumes/") == 2
    found = await world.get(f"{VOLUMES}/{volumes.volume('a')}")
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert found["spec"]["claimRef"]["name"] == "data-a"


@pytest.mark.parametrize("fault", [not_sent, applied_but_lost, answer(500), answer(429), answer(409)])
async def test_a_write_that_may_have_failed_is_repeated(
    world: World, transport: FaultyTransport, volumes: Volumes, fault: Any
) -> None:
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        bind = volumes.decided(await bench.bind("a"))
        transport.fault("PATCH", "/persistentvolumes/", fault)
        bench.binder.submit(placement(bind))
        await volumes.until_reserved("a")
        claim = volumes.of_pod.pop("a")
        await bench.settled()
        assert bench.outcomes == {"a": Bound(bind)}
        volumes.of_pod["a"] = claim


@without_controller
async def test_a_volume_that_another_claim_took_ends_the_placement_and_frees_the_others(
    world: World, transport: FaultyTransport, volumes: Volumes
) -> None:
    await volumes.refer("b", {"namespace": "other", "name": "c", "uid": "1"})
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        bench.binder.submit(placement(*[volumes.decided(await bench.bind(name)) for name in "ab"]))
        await bench.settled()
        refused = bench.outcomes["b"]
        assert isinstance(refused, BindRefused)
        assert "was taken by claim other/c" in refused.message
        assert isinstance(bench.outcomes["a"], BindAborted)
        await volumes.until_free("a")
    reference = await volumes.reference("b")
    assert reference is not None
    assert reference["name"] == "c"
    assert transport.count("POST", "/binding") == 0


@without_controller
async def test_a_reservation_stays_when_the_volume_controller_has_started(
    world: World, transport: FaultyTransport, volumes: Volumes
) -> None:
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        bench.binder.submit(placement(*[volumes.decided(await bench.bind(name)) for name in "ab"]))
        await volumes.until_reserved("a", "b")
        await volumes.phase("a", "Bound")
        volumes.gone = True
        await bench.settled()
        await volumes.until_free("b")
    assert await volumes._is_reserved("a")
    assert "pv.kubernetes.io/bound-by-controller" not in (
        await world.get(f"{VOLUMES}/{volumes.volume('b')}")
    )["metadata"].get("annotations", {})


@without_controller
async def test_a_reservation_that_the_controller_removes_ends_the_placement(
    world: World, transport: FaultyTransport, volumes: Volumes
) -> None:
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        bench.binder.submit(placement(volumes.decided(await bench.bind("a"))))
        await volumes.until_reserved("a")
        await volumes.looked(3)
        await volumes.refer("a", None)
        await bench.settled()
        refused = bench.outcomes["a"]
        assert isinstance(refused, BindRefused)
        assert "was released by the volume controller" in refused.message


async def test_the_next_leader_finds_the_reservations_of_the_last_one(
    world: World, transport: FaultyTransport, volumes: Volumes
) -> None:
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        plan = placement(*[volumes.decided(await bench.bind(name)) for name in "ab"])
        bench.binder.submit(plan)
        await volumes.until_reserved("a", "b")
        bench.fence.leads = False
        await bench.settled()
        assert all(isinstance(outcome, LeadershipLost) for outcome in bench.outcomes.values())
    assert await volumes._is_reserved("a")
    written = transport.count("PATCH", "/persistentvolumes/")
    async with binding(world, transport, unbound_claims=volumes.unbound) as bench:
        bench.binder.submit(plan)
        await volumes.looked(10)
        claims = dict(volumes.of_pod)
        volumes.of_pod.clear()
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in plan.binds}
        volumes.of_pod = claims
    assert transport.count("PATCH", "/persistentvolumes/") == written
