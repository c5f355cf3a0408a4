"""An eviction writes its reason, deletes exactly that pod, and nothing else."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from phalanx.kube import evictor as evictor_module
from phalanx.kube.errors import NotFound
from phalanx.kube.evictor import (
    EVICT_ATTEMPTS_MAX,
    EVICT_CONCURRENCY,
    EVICT_CONCURRENCY_PER_NAMESPACE,
    Evictor,
)
from phalanx.model.decisions import Evict, EvictionReason
from phalanx.model.names import GangId, PodUid
from phalanx.ports import Response

from tests.kube.faults import FaultyTransport, Send, answer, applied_but_lost, held_until, lost, not_sent
from tests.kube.reports import Reports
from tests.kube.test_binder import SwitchFence
from tests.kube.world import World
from tests.write_context import write_context

_numbers = itertools.count()


@asynccontextmanager
async def evicting(
    transport: FaultyTransport,
    fence: SwitchFence | None = None,
    *,
    objection: str | None = None,
    when_recorded: Callable[[GangId, Callable[[], None]], None] = lambda _, resume: resume(),
) -> AsyncIterator[tuple[Evictor, Reports]]:
    reports = Reports()
    context = write_context(transport, reports=reports, fence=fence or SwitchFence())
    evictor = Evictor(context, objection=lambda _eviction: objection, when_recorded=when_recorded)
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
        reason=EvictionReason.PREEMPTED,
        message="capacity for ns/other",
    )


@pytest_asyncio.fixture
async def other(transport: FaultyTransport) -> AsyncIterator[World]:
    """The namespace of another tenant."""
    made = World(transport, namespace=f"other-{next(_numbers)}")
    await made.create_namespace()
    transport.sent.clear()
    yield made
    await made.remove()


async def is_gone(world: World, name: str) -> bool:
    try:
        await world.get_pod(name)
    except NotFound:
        return True
    return False


async def test_the_reason_is_written_and_the_pod_deleted(world: World, transport: FaultyTransport) -> None:
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction written")
    assert await is_gone(world, "a")
    assert [method for method, _, _ in transport.sent] == ["PATCH", "DELETE"]
    assert b"DisruptionTarget" in transport.sent[0][2]


async def test_no_pod_is_deleted_before_the_record_of_its_gang_is_stored(
    world: World, transport: FaultyTransport
) -> None:
    waiting: list[Callable[[], None]] = []
    async with evicting(transport, when_recorded=lambda _, resume: waiting.append(resume)) as (
        evictor,
        reports,
    ):
        evictor.submit([await eviction(world, "a"), await eviction(world, "b")])
        while transport.count("PATCH", "/pods/") < 2:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert transport.count("DELETE", "/pods/") == 0
        (resume,) = waiting
        resume()
        await reports.until("eviction written", 2)
    assert transport.count("DELETE", "/pods/") == 2


async def test_an_eviction_that_is_no_longer_needed_is_dropped(
    world: World, transport: FaultyTransport
) -> None:
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


async def test_a_recreated_pod_of_the_same_name_is_not_deleted(
    world: World, transport: FaultyTransport
) -> None:
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


async def test_the_eviction_of_a_deleted_pod_succeeds(world: World, transport: FaultyTransport) -> None:
    async with evicting(transport) as (evictor, reports):
        old = await eviction(world, "a")
        await world.delete_pod("a")
        evictor.submit([old])
        await reports.until("eviction written")


@pytest.mark.parametrize("fault", [applied_but_lost, not_sent, answer(503)])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_transient_error_is_retried(
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


async def test_all_reasons_are_written_before_the_first_pod_is_deleted(
    world: World, transport: FaultyTransport
) -> None:
    names = [f"pod-{index}" for index in range(EVICT_CONCURRENCY + 2)]
    transport.fault("PATCH", "/pods/pod-3", answer(503))
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, name) for name in names])
        await reports.until("eviction written", len(names))
    sent = [method for method, _, _ in transport.sent]
    assert sent == ["PATCH"] * (len(names) + 1) + ["DELETE"] * len(names)


async def test_a_failed_reason_write_does_not_stop_the_other_evictions(
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
async def test_a_wrong_reply_about_the_pod_does_not_stop_its_eviction(
    world: World, transport: FaultyTransport, method: str, status: int
) -> None:
    transport.fault(method, "/pods/a", answer(status))
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, "a")])
        await reports.until("eviction written")
    assert await is_gone(world, "a")


async def test_refused_evictions_delay_no_other_eviction(
    world: World, other: World, transport: FaultyTransport
) -> None:
    names = [f"bad-{index}" for index in range(EVICT_CONCURRENCY)]
    for name in names:
        transport.fault("PATCH", f"/pods/{name}/", *[answer(403)] * EVICT_ATTEMPTS_MAX)
    async with evicting(transport) as (evictor, reports):
        for name in names:
            evictor.submit([await eviction(world, name)])
        evictor.submit([await eviction(other, "good")])
        await reports.until("eviction written")
    assert await is_gone(other, "good")
    assert reports.counts["eviction gave-up"] == 0
    assert max(transport.count("PATCH", f"/pods/{name}/") for name in names) < EVICT_ATTEMPTS_MAX


async def test_requests_that_hang_delay_no_other_namespace(
    world: World, other: World, transport: FaultyTransport
) -> None:
    released = asyncio.Event()
    transport.fault("PATCH", "/pods/bad-", *[held_until(released)] * EVICT_CONCURRENCY)
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, f"bad-{index}") for index in range(EVICT_CONCURRENCY)])
        evictor.submit([await eviction(other, "good")])
        await reports.until("eviction written")
        assert await is_gone(other, "good")
        assert transport.count("PATCH", "/pods/bad-") == EVICT_CONCURRENCY_PER_NAMESPACE
        released.set()
        await reports.until("eviction written", EVICT_CONCURRENCY + 1)


async def test_an_eviction_that_fails_permanently_is_given_up(
    world: World, transport: FaultyTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport.fault("PATCH", "/pods/a/", *[answer(403)] * EVICT_ATTEMPTS_MAX)
    transport.fault("DELETE", "/pods/b", *[answer(403)] * (EVICT_ATTEMPTS_MAX - 1))
    monkeypatch.setattr(evictor_module, "EVICT_BACKOFF_FIRST_S", 0.0)
    async with evicting(transport) as (evictor, reports):
        evictor.submit([await eviction(world, "a"), await eviction(world, "b")])
        await reports.until("eviction gave-up")
        await reports.until("eviction written")
    assert transport.count("PATCH", "/pods/a/") == EVICT_ATTEMPTS_MAX
    assert (await is_gone(world, "a"), await is_gone(world, "b")) == (False, True)


async def test_stopping_finishes_started_evictions_and_drops_the_rest(
    world: World, transport: FaultyTransport
) -> None:
    released, is_sent = asyncio.Event(), asyncio.Event()

    async def held(send: Send) -> Response:
        is_sent.set()
        await released.wait()
        response: Response = await send()
        return response

    transport.fault("PATCH", "/pods/started-", *[held] * EVICT_CONCURRENCY_PER_NAMESPACE)
    async with evicting(transport) as (evictor, reports):
        names = [f"started-{index}" for index in range(EVICT_CONCURRENCY_PER_NAMESPACE)]
        evictor.submit([await eviction(world, name) for name in names])
        evictor.submit([await eviction(world, "late")])
        await is_sent.wait()
        stopping = asyncio.create_task(evictor.stop(within=30))
        await reports.until("eviction dropped")
        assert not stopping.done()
        released.set()
        await stopping
    assert [await is_gone(world, name) for name in (*names, "late")] == [*[True] * len(names), False]
    assert transport.count("PATCH", "/pods/late") == 0


async def test_stopping_takes_bounded_time(world: World, transport: FaultyTransport) -> None:
    transport.fault("PATCH", "/pods/a/", *[lost] * EVICT_ATTEMPTS_MAX)
    async with evicting(transport) as (evictor, _):
        evictor.submit([await eviction(world, "a")])
        while not transport.sent or transport.sent[-1][0] != "PATCH":
            await asyncio.sleep(0)
        await evictor.stop(within=0)
    assert not await is_gone(world, "a")
