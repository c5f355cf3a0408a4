"""Gangs are bound completely or given back completely, and every bind ends with the outcome that is true."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.kube.binder import Binder
from phalanx.kube.binding import (
    BindAborted,
    BinderCallbacks,
    BindOutcome,
    BindRefused,
    Bound,
    LeadershipLost,
    PodGroupRef,
    WhenRecorded,
)
from phalanx.limits import BIND_ATTEMPTS_MAX
from phalanx.model.decisions import Bind, Certificate, Placement
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import Device
from phalanx.model.records import GangRecord
from phalanx.model.supplies.devices.claims import AwaitedClaim, ClaimGrant
from phalanx.model.supplies.volumes.published import UnboundClaim

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, held_until, lost, not_sent
from tests.kube.reports import Reports
from tests.kube.world import World
from tests.write_context import write_context

CERTIFICATE = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


class SwitchFence:
    """A leadership fence that a test can close."""

    epoch = 7

    def __init__(self) -> None:
        self.leads = True
        self.seconds_left = 20.0

    def may_write(self) -> bool:
        return self.leads

    def remaining(self) -> float:
        return self.seconds_left


class Plans:
    """A plan check that accepts everything until a test sets a problem."""

    def __init__(self) -> None:
        self.gang_problem: str | None = None
        self.bind_problems: dict[str, str] = {}

    def gang(self, placement: Placement) -> str | None:
        return self.gang_problem

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        return self.bind_problems.get(bind.name)


class Bench:
    """A running binder and its outcomes."""

    def __init__(
        self,
        world: World,
        transport: FaultyTransport,
        *,
        try_acquire: Callable[[PodUid], bool] = lambda _: True,
        unbound_claims: Callable[[Bind], tuple[UnboundClaim, ...] | None] = lambda _: (),
        awaited_claims: Callable[[Bind], tuple[AwaitedClaim, ...]] = lambda _: (),
        grants: Mapping[str, tuple[ClaimGrant, ...]] = MappingProxyType({}),
        when_recorded: WhenRecorded = lambda _, resume: resume(None),
        newest_record: Callable[[Placement], GangRecord | None] = lambda placement: placement.record,
        **options: Any,
    ) -> None:
        self.world = world
        self._grants = grants
        self.fence = SwitchFence()
        self.plans = Plans()
        self.reports = Reports()
        self.outcomes: dict[str, BindOutcome] = {}
        self.order: list[str] = []
        self.awaited: list[str] = []
        """For what the gang was said to wait."""
        self.versions: dict[str, str] = {}
        self.binder = Binder(
            write_context(transport, reports=self.reports, fence=self.fence),
            BinderCallbacks(
                check=self.plans,
                on_outcome=self._note,
                pod_group_version=lambda group: self.versions.get(group.uid, ""),
                try_acquire=try_acquire,
                when_recorded=when_recorded,
                newest_record=newest_record,
                unbound_claims=unbound_claims,
                awaited_claims=awaited_claims,
                on_awaited=lambda _, why: self.awaited.append(why),
            ),
            **options,
        )

    def _note(self, placement: Placement, outcome: BindOutcome) -> None:
        assert outcome.bind.name not in self.outcomes, "one outcome for each bind"
        self.outcomes[outcome.bind.name] = outcome
        self.order.append(outcome.bind.name)

    def ref_of(self, group: dict[str, Any]) -> PodGroupRef:
        """The PodGroup in the version that was observed."""
        meta = group["metadata"]
        self.versions[meta["uid"]] = meta["resourceVersion"]
        return PodGroupRef(meta["namespace"], meta["name"], meta["uid"])

    async def gang(self, *names: str, node: str = "n1") -> Placement:
        """Create the pods and place them."""
        binds = [await self.bind(name, node=node) for name in names]
        return placement(*binds)

    async def bind(self, name: str, *, node: str = "n1") -> Bind:
        uid, granted = PodUid(await self.world.pod(name)), self._grants.get(name, ())
        return Bind(uid, self.world.namespace, name, NodeName(node), grants=granted)

    async def settled(self) -> None:
        async with asyncio.timeout(60):
            await self.binder.idle.wait()


def placement(*binds: Bind) -> Placement:
    return Placement(
        gang=GangId("g"),
        group="ns/g",
        cycle=3,
        cause="start",
        binds=binds,
        certificate=CERTIFICATE,
        level="rack",
        domain="r1",
    )


@asynccontextmanager
async def binding(world: World, transport: FaultyTransport, **options: Any) -> AsyncIterator[Bench]:
    bench = Bench(world, transport, **options)
    task = asyncio.create_task(bench.binder.run())
    try:
        yield bench
        assert not task.done(), "the binder has crashed"
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_gang_is_bound(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        plan = await bench.gang("a", "b", "c")
        bench.binder.submit(plan)
        assert bench.binder.is_open(plan.binds[0].pod)
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in plan.binds}
        assert [await world.node_of(name) for name in "abc"] == ["n1"] * 3
        assert not bench.binder.is_open(plan.binds[0].pod)


async def test_a_gpu_share_gets_its_device_together_with_its_node(
    world: World, transport: FaultyTransport
) -> None:
    async with binding(world, transport) as bench:
        share, plain = await bench.bind("a"), await bench.bind("b")
        share = replace(share, device=Device(index=3, taken=250))
        bench.binder.submit(placement(share, plain))
        await bench.settled()
        assert bench.outcomes == {"a": Bound(share), "b": Bound(plain)}
    prefix = "scheduling.phalanx.dev/gpu"
    before = (await world.get_pod("b"))["metadata"].get("annotations", {})
    annotations = (await world.get_pod("a"))["metadata"]["annotations"]
    assert annotations == {**before, f"{prefix}-index": "3", f"{prefix}-taken": "250"}


async def test_the_placement_is_written_before_the_first_bind(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    group = await world.pod_group("g")
    async with binding(world, transport) as bench:
        ref = bench.ref_of(group)
        bench.binder.submit(await bench.gang("a", "b"), pod_group=ref)
        await bench.settled()
    assert [method for method, _, _ in transport.sent] == ["PATCH", "POST", "POST"]
    status = (await world.get(world.path("PodGroup", "g")))["status"]
    assert status["placement"] == {"level": "rack", "domain": "r1"}
    assert status["placementEpoch"] == {"leader": 7, "decision": "cycle-3"}


async def test_a_recreated_podgroup_of_the_same_name_is_another_gang(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    old = await world.pod_group("g")
    await world.client.delete(world.path("PodGroup", "g"), uid=old["metadata"]["uid"], timeout=30)
    await world.pod_group("g")
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a", "b"), pod_group=bench.ref_of(old))
        await bench.settled()
        assert all(isinstance(outcome, BindAborted) for outcome in bench.outcomes.values())
    assert "status" not in await world.get(world.path("PodGroup", "g"))
    assert transport.count("POST", "/binding") == 0


async def test_a_podgroup_that_was_edited_in_the_meantime(world: World, transport: FaultyTransport) -> None:
    await world.install_crds()
    group = await world.pod_group("g")
    await world.label("PodGroup", "g", colour="red")
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a"), pod_group=bench.ref_of(group))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
    assert [method for method, _, _ in transport.sent] == ["PATCH", "GET", "PATCH", "POST"]
    assert (await world.get(world.path("PodGroup", "g")))["status"]["placementEpoch"]["leader"] == 7


async def test_a_podgroup_write_is_based_on_its_last_observed_version(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    group = await world.pod_group("g")
    await world.label("PodGroup", "g", colour="red")
    edited = await world.get(world.path("PodGroup", "g"))
    async with binding(world, transport) as bench:
        placed = await bench.gang("a")
        bench.binder.submit(placed, pod_group=bench.ref_of(group))
        bench.ref_of(edited)
        await bench.settled()
    assert [method for method, _, _ in transport.sent] == ["PATCH", "POST"]


async def test_the_gang_of_a_deleted_podgroup_is_given_back(world: World, transport: FaultyTransport) -> None:
    await world.install_crds()
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a"), pod_group=PodGroupRef(world.namespace, "g", "u"))
        await bench.settled()
        outcome = bench.outcomes["a"]
        assert isinstance(outcome, BindAborted)
        assert "NotFound" in outcome.reason


async def test_the_placement_write_is_retried_after_a_transient_error(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    group = await world.pod_group("g")
    transport.fault("PATCH", "/podgroups/g/status", not_sent, applied_but_lost, answer(503), answer(429))
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a"), pod_group=bench.ref_of(group))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
    assert transport.count("PATCH", "/podgroups/g/status") == 5


@pytest.mark.parametrize(
    ("fault", "binds", "reads"),
    [
        (applied_but_lost, 1, 1),
        (lost, 2, 1),
        (not_sent, 2, 0),
        (answer(500), 2, 1),
        (answer(503, b"overloaded"), 2, 1),
        (answer(401), 2, 0),
        (answer(429, b"{}", retry_after="1"), 2, 0),
    ],
    ids=["applied-but-lost", "lost", "not-sent", "500", "503", "401", "429"],
)
async def test_a_transient_error_is_retried(
    world: World, transport: FaultyTransport, fault: Any, binds: int, reads: int
) -> None:
    transport.fault("POST", "/binding", fault)
    async with binding(world, transport) as bench:
        plan = await bench.gang("a")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == Bound(plan.binds[0])
    assert await world.node_of("a") == "n1"
    assert transport.count("POST", "/binding") == binds
    assert transport.count("GET", "/pods/a") == reads


def recording_times(moments: list[float], fault: Any = None) -> Any:
    """Record the time of a request, then apply the fault, if any."""

    async def noted(send: Any) -> Any:
        moments.append(asyncio.get_running_loop().time())
        return await (fault(send) if fault is not None else send())

    return noted


async def test_retry_after_is_obeyed(world: World, transport: FaultyTransport) -> None:
    moments: list[float] = []
    busy = answer(429, b"{}", retry_after="1")
    transport.fault("POST", "/binding", recording_times(moments, busy), recording_times(moments))
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
    assert moments[1] - moments[0] >= 0.99


async def test_two_throttled_pods_in_a_row_delay_all_binds(world: World, transport: FaultyTransport) -> None:
    moments: list[float] = []
    busy = recording_times(moments, answer(429, b"{}", retry_after="1"))
    transport.fault("POST", "/binding", busy, busy, recording_times(moments))
    async with binding(world, transport, concurrency=1) as bench:
        bench.binder.submit(await bench.gang("a", "b", "c"))
        await bench.settled()
    assert moments[2] - moments[1] >= 0.99


async def test_one_throttled_pod_delays_no_other_pod(world: World, transport: FaultyTransport) -> None:
    transport.fault("POST", "/pods/b/binding", answer(429, b"{}", retry_after="3600"))
    async with binding(world, transport, concurrency=1) as bench:
        bench.binder.submit(await bench.gang("a", "b", "c"))
        await bench.reports.until("bind bound", 2)
        assert bench.order == ["a", "c"]


async def test_the_bind_rate_is_limited(
    world: World, transport: FaultyTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.kube.binder.WRITE_BURST", 1)
    moments: list[float] = []
    transport.fault("POST", "/binding", *[recording_times(moments)] * 4)
    async with binding(world, transport, per_second=20) as bench:
        bench.binder.submit(await bench.gang("a", "b", "c", "d"))
        await bench.settled()
    assert moments[3] - moments[0] >= 2 / 20


async def test_a_write_times_out_before_leadership_ends(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        bench.fence.seconds_left = 1.5
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
    assert transport.timeouts == [1.5]


async def test_an_unknown_outcome_is_read_back_until_known(world: World, transport: FaultyTransport) -> None:
    transport.fault("POST", "/binding", applied_but_lost)
    transport.fault("GET", "/pods/a", not_sent, lost, answer(500), answer(403))
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
    assert transport.count("POST", "/binding") == 1
    assert transport.count("GET", "/pods/a") == 5


async def test_a_server_error_after_the_bind_was_applied(world: World, transport: FaultyTransport) -> None:
    async def applied_then_error(send: Any) -> Any:
        await send()
        return await answer(504)(send)

    transport.fault("POST", "/binding", applied_then_error)
    async with binding(world, transport) as bench:
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
    assert transport.count("POST", "/binding") == 1


async def test_a_pod_that_another_scheduler_bound(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        plan = await bench.gang("a", "b")
        await world.bind_elsewhere("a", "n9")
        bench.binder.submit(plan)
        await bench.settled()
        refused = bench.outcomes["a"]
        assert isinstance(refused, BindRefused)
        assert refused.reason == "AlreadyBound"
        assert refused.pod is not None
        assert refused.pod.spec.node_name == "n9"
        assert isinstance(bench.outcomes["b"], Bound)


async def test_a_pod_that_is_already_bound_to_the_chosen_node(
    world: World, transport: FaultyTransport
) -> None:
    async with binding(world, transport) as bench:
        plan = await bench.gang("a")
        await world.bind_elsewhere("a", "n1")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == Bound(plan.binds[0])


async def test_a_deleted_pod(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        plan = await bench.gang("a")
        await world.delete_pod("a")
        bench.binder.submit(plan)
        await bench.settled()
        refused = bench.outcomes["a"]
        assert isinstance(refused, BindRefused)
        assert refused.reason == "NotFound"


async def test_a_recreated_pod_of_the_same_name_is_another_pod(
    world: World, transport: FaultyTransport
) -> None:
    async with binding(world, transport) as bench:
        plan = await bench.gang("a")
        await world.delete_pod("a")
        await world.pod("a")
        bench.binder.submit(plan)
        await bench.settled()
        refused = bench.outcomes["a"]
        assert isinstance(refused, BindRefused)
        assert refused.reason == "Recreated"
    assert await world.node_of("a") == ""


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_permanent_refusal_blocks_no_other_pod(
    world: World, transport: FaultyTransport, status: int
) -> None:
    body = b'{"kind":"Status","reason":"Denied","message":"policy says no"}'
    transport.fault("POST", "/pods/a/binding", answer(status, body))
    async with binding(world, transport, concurrency=1) as bench:
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == BindRefused(plan.binds[0], "Denied", "policy says no")
        assert isinstance(bench.outcomes["b"], Bound)


async def test_a_failing_pod_does_not_delay_other_pods(world: World, transport: FaultyTransport) -> None:
    transport.fault("POST", "/pods/a/binding", *[answer(503)] * 3)
    async with binding(world, transport, concurrency=1) as bench:
        bench.binder.submit(await bench.gang("a"))
        bench.binder.submit(await bench.gang("b"))
        await bench.settled()
        assert bench.order == ["b", "a"]


async def test_a_bind_that_keeps_failing_is_given_up(world: World, transport: FaultyTransport) -> None:
    transport.fault("POST", "/binding", *[not_sent] * BIND_ATTEMPTS_MAX)
    async with binding(world, transport) as bench:
        bench.binder._new_backoff = lambda: _NoDelay()  # type: ignore[method-assign, return-value, assignment]
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
        refused = bench.outcomes["a"]
        assert isinstance(refused, BindRefused)
        assert refused.reason == "GaveUp"
    assert await world.node_of("a") == ""


class _NoDelay:
    def next(self, *, at_least: float | None = None) -> float:
        return 0.0


async def test_a_gang_whose_plan_is_no_longer_valid_is_given_back_completely(
    world: World, transport: FaultyTransport
) -> None:
    async with binding(world, transport) as bench:
        bench.plans.gang_problem = "node n1 is gone"
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes == {bind.name: BindAborted(bind, "node n1 is gone") for bind in plan.binds}
    assert transport.count("POST", "/binding") == 0


async def test_one_bind_that_is_no_longer_valid(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        bench.plans.bind_problems["a"] = "the pod is being deleted"
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == BindAborted(plan.binds[0], "the pod is being deleted")
        assert isinstance(bench.outcomes["b"], Bound)


async def test_nothing_is_sent_without_leadership(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        bench.fence.leads = False
        plan = await bench.gang("a")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == LeadershipLost(plan.binds[0], sent=False)
    assert transport.sent == []


async def test_leadership_lost_between_two_binds(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport, concurrency=1) as bench:

        async def then_lose(send: Any) -> Any:
            response = await send()
            bench.fence.leads = False
            return response

        transport.fault("POST", "/pods/a/binding", then_lose)
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == Bound(plan.binds[0])
        assert bench.outcomes["b"] == LeadershipLost(plan.binds[1], sent=False)


async def test_leadership_lost_while_an_outcome_is_unknown(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:

        async def lose_both(send: Any) -> Any:
            bench.fence.leads = False
            return await applied_but_lost(send)

        transport.fault("POST", "/binding", lose_both)
        plan = await bench.gang("a")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == Bound(plan.binds[0])


async def test_a_bind_that_was_not_applied_is_given_back_after_leadership_was_lost(
    world: World, transport: FaultyTransport
) -> None:
    """The lease may be renewed again: the pod must not stay assumed for ever."""
    async with binding(world, transport) as bench:

        async def lose_both(send: Any) -> Any:
            bench.fence.leads = False
            return await lost(send)

        transport.fault("POST", "/binding", lose_both)
        plan = await bench.gang("a")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes["a"] == LeadershipLost(plan.binds[0], sent=False)


async def test_stopping_finishes_the_started_gang_and_gives_back_the_other(
    world: World, transport: FaultyTransport
) -> None:
    release = asyncio.Event()
    async with binding(world, transport, concurrency=1) as bench:
        transport.fault("POST", "/pods/a/binding", held_until(release))
        started, waiting = await bench.gang("a", "b"), await bench.gang("c", "d")
        bench.binder.submit(started)
        bench.binder.submit(waiting)
        while not transport.count("POST", "/binding"):
            await asyncio.sleep(0)
        stopping = asyncio.create_task(bench.binder.stop(within=30))
        await asyncio.sleep(0)
        release.set()
        await stopping
        assert {name for name, outcome in bench.outcomes.items() if isinstance(outcome, Bound)} == {"a", "b"}
        assert {n for n, outcome in bench.outcomes.items() if isinstance(outcome, BindAborted)} == {"c", "d"}


async def test_stopping_takes_bounded_time(world: World, transport: FaultyTransport) -> None:
    never = asyncio.Event()
    async with binding(world, transport) as bench:
        transport.fault("POST", "/pods/a/binding", held_until(never))
        plan = await bench.gang("a")
        bench.binder.submit(plan)
        while not transport.count("POST", "/binding"):
            await asyncio.sleep(0)
        await bench.binder.stop(within=0.05)
        assert bench.outcomes["a"] == LeadershipLost(plan.binds[0], sent=True)


async def test_gangs_are_bound_one_after_the_other(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport, concurrency=1) as bench:
        first, second = await bench.gang("a", "b", "c"), await bench.gang("d", "e")
        bench.binder.submit(first)
        bench.binder.submit(second)
        await bench.settled()
        assert bench.order == ["a", "b", "c", "d", "e"]


async def test_a_started_gang_is_finished_before_the_next_starts(
    world: World, transport: FaultyTransport
) -> None:
    """The write of the first gang's PodGroup is slow, so the second starts; they must not interleave."""
    await world.install_crds()
    written, bound = asyncio.Event(), asyncio.Event()
    transport.fault("PATCH", "/podgroups/", held_until(written))
    transport.fault("POST", "/binding", held_until(bound), held_until(bound))
    async with binding(world, transport, concurrency=3) as bench:
        first, second = await bench.gang("a", "b", "c"), await bench.gang("d", "e", "f", "g")
        bench.binder.submit(first, pod_group=bench.ref_of(await world.pod_group("slow")))
        bench.binder.submit(second)
        async with asyncio.timeout(30):
            while transport.count("POST", "/binding") < 2:
                await asyncio.sleep(0.01)
        written.set()
        async with asyncio.timeout(30):
            while transport.count("POST", "/binding") < 3:
                await asyncio.sleep(0.01)
        bound.set()
        await bench.settled()
        sent = [path.split("/")[-2] for method, path, _ in transport.sent if path.endswith("/binding")]
        assert sent == ["d", "e", "f", "g", "a", "b", "c"]


async def test_the_number_of_concurrent_binds_is_limited(world: World, transport: FaultyTransport) -> None:
    under_way, most = 0, 0

    async def counted(send: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        response = await send()
        under_way -= 1
        return response

    names = [f"p{number}" for number in range(20)]
    transport.fault("POST", "/binding", *[counted] * len(names))
    async with binding(world, transport, concurrency=4) as bench:
        bench.binder.submit(await bench.gang(*names))
        await bench.settled()
        assert all(isinstance(outcome, Bound) for outcome in bench.outcomes.values())
    assert most == 4


async def test_a_pod_with_an_unfinished_bind_is_not_bound_twice(
    world: World, transport: FaultyTransport
) -> None:
    async with binding(world, transport) as bench:
        first, second = await bench.bind("a"), await bench.bind("b")
        bench.binder.submit(placement(first))
        bench.binder.submit(placement(first, second))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
        assert isinstance(bench.outcomes["b"], BindAborted)


async def test_a_bind_waits_for_a_status_write_on_its_pod(world: World, transport: FaultyTransport) -> None:
    asked: list[str] = []

    def try_acquire(pod: PodUid) -> bool:
        asked.append(pod)
        return len(asked) > 2

    async with binding(world, transport, try_acquire=try_acquire) as bench:
        bench.binder.submit(await bench.gang("a"))
        await bench.settled()
        assert isinstance(bench.outcomes["a"], Bound)
    assert len(asked) == 3


async def test_every_bind_names_the_pod_by_uid(world: World, transport: FaultyTransport) -> None:
    async with binding(world, transport) as bench:
        plan = await bench.gang("a")
        bench.binder.submit(plan)
        await bench.settled()
    (body,) = (msgspec.json.decode(body) for method, _, body in transport.sent if method == "POST")
    assert body["metadata"] == {"name": "a", "namespace": world.namespace, "uid": plan.binds[0].pod}
    assert body["target"] == {"name": "n1", "kind": "Node", "apiVersion": "v1"}
