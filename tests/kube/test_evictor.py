"""An eviction says why, deletes that very pod, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from phalanx.clock import SystemClock, seeded_random
from phalanx.kube.client import Client
from phalanx.kube.errors import NotFound
from phalanx.kube.evictor import Evictor
from phalanx.limits import EVICT_CONCURRENCY
from phalanx.model.decisions import Evict
from phalanx.model.names import GangId, PodUid
from phalanx.ports import Response
from tests.kube.faults import FaultyTransport, Send, answer, applied_but_lost, not_sent
from tests.kube.reports import Reports
from tests.kube.test_binder import SwitchFence
from tests.kube.world import World


@asynccontextmanager
async def evicting(
    transport: FaultyTransport, fence: SwitchFence | None = None, *, objection: str | None = None
) -> AsyncIterator[tuple[Evictor, Reports]]:
    reports = Reports()
    evictor = Evictor(
        client=Client(transport),
        fence=fence or SwitchFence(),
        reports=reports,
        clock=SystemClock(),
        jitter=seeded_random(1).random,
        why_not=lambda _eviction: objection,
    )
    task = asyncio.create_task(evictor.run())
    try:
        yield evictor, reports
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def eviction(world: World, name: str) -> Evict:
    return Evict(
        pod=PodUid(await world.pod(name)),
        namespace=world.namespace,
        name=name,
        gang=GangId("g"),
        cycle=1,
        reason="PreemptionByScheduler",
        message="room for ns/other",
    )


async def is_gone(world: World, name: str) -> bool:
    try:
        await world.get_pod(name)
    except NotFound:
        return True
    return False


async def test_the_pod_is_told_and_deleted(world: World, transport: FaultyTransport) -> None:
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction written")
    assert await is_gone(world, "a")
    assert [method for method, _, _ in transport.sent] == ["PATCH", "DELETE"]
    assert b"DisruptionTarget" in transport.sent[0][2]


async def test_what_has_become_needless_is_not_done(world: World, transport: FaultyTransport) -> None:
    async with evicting(transport, objection="the gang is finishing") as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction dropped")
    assert transport.sent == []


async def test_nothing_is_deleted_after_leadership_was_lost(world: World, transport: FaultyTransport) -> None:
    fence = SwitchFence()

    async def frozen(send: Send) -> Response:
        response: Response = await send()
        fence.leads = False
        return response

    transport.fault("PATCH", "/pods/", frozen)
    async with evicting(transport, fence) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction fenced")
    assert transport.count("DELETE", "/pods/") == 0


async def test_a_pod_of_the_same_name_is_left_alone(world: World, transport: FaultyTransport) -> None:
    async with evicting(transport) as (evictor, reports):
        old = await eviction(world, "a")
        await world.delete_pod("a")
        await world.pod("a")
        evictor.submit([old])
        await reports.until("eviction written")
    found = await world.get_pod("a")
    assert "deletionTimestamp" not in found["metadata"]
    assert not found["status"].get("conditions")
    assert [method for method, _, _ in transport.sent] == ["PATCH", "GET"]


async def test_a_pod_that_is_gone_is_done(world: World, transport: FaultyTransport) -> None:
    async with evicting(transport) as (evictor, reports):
        old = await eviction(world, "a")
        await world.delete_pod("a")
        evictor.submit([old])
        await reports.until("eviction written")


@pytest.mark.parametrize("fault", [applied_but_lost, not_sent, answer(503)])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_passing_trouble_is_overcome(
    world: World, transport: FaultyTransport, method: str, fault: Any
) -> None:
    transport.fault(method, "/pods/a", fault)
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction written")
    assert await is_gone(world, "a")


async def test_nothing_is_sent_without_leadership(world: World, transport: FaultyTransport) -> None:
    fence = SwitchFence()
    fence.leads = False
    async with evicting(transport, fence) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction fenced")
    assert transport.sent == []


async def test_all_are_told_before_the_first_is_deleted(world: World, transport: FaultyTransport) -> None:
    names = [f"pod-{index}" for index in range(EVICT_CONCURRENCY + 2)]
    transport.fault("PATCH", "/pods/pod-3", answer(503))
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, name) for name in names])
        await reports.until("eviction written", len(names))
    sent = [method for method, _, _ in transport.sent]
    assert sent == ["PATCH"] * (len(names) + 1) + ["DELETE"] * len(names)


async def test_one_that_cannot_be_told_does_not_spare_the_others(
    world: World, transport: FaultyTransport
) -> None:
    async with evicting(transport) as (evictor, reports):
        gone, there = await eviction(world, "a"), await eviction(world, "b")
        await world.delete_pod("a")
        evictor.submit([gone, there])
        await reports.until("eviction written", 2)
    assert await is_gone(world, "b")


@pytest.mark.parametrize("status", [404, 409, 422])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_reply_that_errs_about_the_pod_saves_it_not(
    world: World, transport: FaultyTransport, method: str, status: int
) -> None:
    transport.fault(method, "/pods/a", answer(status))
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction written")
    assert await is_gone(world, "a")
