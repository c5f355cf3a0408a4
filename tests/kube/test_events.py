"""Events are what `kubectl describe pod` shows; a series when repeated, never in the way of binds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from phalanx.kube.background_writer import BackgroundWriter, WriteQueue
from phalanx.kube.events import EventSource, PodEvents, PodRef

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, not_sent
from tests.kube.reports import Reports
from tests.kube.world import World
from tests.write_context import write_context


class Office:
    """Events being written."""

    def __init__(self, world: World, transport: FaultyTransport, *, waiting: int, period: float) -> None:
        self.world = world
        self.reports = Reports()
        self.binds_idle = asyncio.Event()
        self.binds_idle.set()
        context = write_context(transport, reports=self.reports)
        queue = WriteQueue("event", 2, waiting, "EVENTS_WAITING_MAX", per_second=1000, burst=100)
        self.writer = BackgroundWriter(context, queue, binds_idle=self.binds_idle)
        source = EventSource(controller="phalanx", instance="phalanx-one")
        self.events = PodEvents(context, writer=self.writer, source=source, repeat_period=period)

    async def pod(self, name: str) -> PodRef:
        return PodRef(self.world.namespace, name, await self.world.pod(name))

    async def of(self, name: str) -> list[dict[str, Any]]:
        async with asyncio.timeout(30):
            await self.writer.idle.wait()
        return await self.world.events_of(name)


@asynccontextmanager
async def office(
    world: World, transport: FaultyTransport, *, waiting: int = 100, period: float = 0.0
) -> AsyncIterator[Office]:
    made = Office(world, transport, waiting=waiting, period=period)
    task = asyncio.create_task(made.writer.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_scheduled_reads_as_users_know_it(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport) as desk:
        pod = await desk.pod("a")
        desk.events.scheduled(pod, node="n1")
        (event,) = await desk.of("a")
    assert event["type"] == "Normal"
    assert event["reason"] == "Scheduled"
    assert event["action"] == "Binding"
    assert event["note"] == f"Successfully assigned {world.namespace}/a to n1"
    assert event["reportingController"] == "phalanx"
    assert event["regarding"]["uid"] == pod.uid
    assert event["regarding"]["kind"] == "Pod"


async def test_events_show_where_kubectl_describe_looks(world: World, transport: FaultyTransport) -> None:
    """kubectl asks the core API for events whose involved object is the pod."""
    async with office(world, transport) as desk:
        desk.events.failed_scheduling(await desk.pod("a"), message="0/3 nodes fit")
        await desk.of("a")
    core = await world.get(f"/api/v1/namespaces/{world.namespace}/events")
    (event,) = core["items"]
    assert event["involvedObject"]["name"] == "a"
    assert event["message"] == "0/3 nodes fit"
    assert event["type"] == "Warning"


async def test_a_repeated_event_is_one_series(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport) as desk:
        pod = await desk.pod("a")
        for _ in range(3):
            desk.events.failed_scheduling(pod, message="0/3 nodes fit")
            (event,) = await desk.of("a")
        assert event["series"]["count"] == 3
        assert event["reason"] == "FailedScheduling"
        assert event["action"] == "Scheduling"


async def test_a_repeated_event_is_not_written_within_its_period(
    world: World, transport: FaultyTransport
) -> None:
    async with office(world, transport, period=3600) as desk:
        pod = await desk.pod("a")
        for _ in range(50):
            desk.events.failed_scheduling(pod, message="0/3 nodes fit")
        (event,) = await desk.of("a")
        assert not event.get("series")
    assert transport.count("POST", "/events") + transport.count("PATCH", "/events") == 1


async def test_another_message_is_another_event(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport, period=3600) as desk:
        pod = await desk.pod("a")
        desk.events.failed_scheduling(pod, message="0/3 nodes fit")
        desk.events.failed_scheduling(pod, message="1/3 nodes fit")
        events = await desk.of("a")
        assert {event["note"] for event in events} == {"0/3 nodes fit", "1/3 nodes fit"}


async def test_a_series_whose_event_has_expired_begins_anew(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport) as desk:
        pod = await desk.pod("a")
        desk.events.failed_scheduling(pod, message="m")
        (first,) = await desk.of("a")
        path = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events/{first['metadata']['name']}"
        await world.client.delete(path, uid=first["metadata"]["uid"], timeout=30)
        desk.events.failed_scheduling(pod, message="m")
        (second,) = await desk.of("a")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_long_note_is_shortened(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport) as desk:
        desk.events.failed_scheduling(await desk.pod("a"), message="ü" * 2000)
        (event,) = await desk.of("a")
        assert len(event["note"].encode()) <= 1024
        assert event["note"].endswith("ü...")


@pytest.mark.parametrize(
    "name", ["a" * 253, "a" * 235 + "-" * 5 + "b" * 10], ids=["longest", "cut-at-a-dash"]
)
async def test_the_longest_name_of_a_pod_leaves_room_for_that_of_its_event(
    world: World, transport: FaultyTransport, name: str
) -> None:
    async with office(world, transport) as desk:
        desk.events.failed_scheduling(await desk.pod(name), message="m")
        assert len(await desk.of(name)) == 1


@pytest.mark.parametrize("fault", [applied_but_lost, not_sent, answer(503), answer(429)])
async def test_passing_trouble_makes_one_event(world: World, transport: FaultyTransport, fault: Any) -> None:
    transport.fault("POST", "/events", fault)
    async with office(world, transport) as desk:
        desk.events.scheduled(await desk.pod("a"), node="n1")
        assert len(await desk.of("a")) == 1
        assert desk.reports.counts["event written"] == 1


async def test_a_refused_event_is_counted_and_blocks_nothing(
    world: World, transport: FaultyTransport
) -> None:
    transport.fault("POST", "/events", answer(403))
    async with office(world, transport) as desk:
        desk.events.scheduled(await desk.pod("a"), node="n1")
        await desk.reports.until("event refused")
        desk.events.scheduled(await desk.pod("b"), node="n1")
        assert len(await desk.of("b")) == 1
        assert await desk.of("a") == []


async def test_too_many_events_drop_the_oldest(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport, waiting=2) as desk:
        desk.binds_idle.clear()
        pods = [await desk.pod(name) for name in ("a", "b", "c", "d", "e")]
        for pod in pods:
            desk.events.scheduled(pod, node="n1")
        assert desk.reports.counts["limit EVENTS_WAITING_MAX"] == 3
        desk.binds_idle.set()
        assert len(await desk.of("e")) == 1
        assert await desk.of("a") == []


async def test_events_wait_while_binds_are_under_way(world: World, transport: FaultyTransport) -> None:
    async with office(world, transport) as desk:
        desk.binds_idle.clear()
        desk.events.scheduled(await desk.pod("a"), node="n1")
        await asyncio.sleep(0.05)
        assert transport.count("POST", "/events") == 0
        desk.binds_idle.set()
        assert len(await desk.of("a")) == 1
