"""Events as `kubectl describe pod` shows them: a series when repeated, and never delaying binds."""

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


class EventWriting:
    """A running event writer."""

    def __init__(self, world: World, transport: FaultyTransport, *, waiting: int, period: float) -> None:
        self.world = world
        self.reports = Reports()
        self.none_due = asyncio.Event()
        self.none_due.set()
        context = write_context(transport, reports=self.reports)
        queue = WriteQueue("event", 2, waiting, "EVENTS_WAITING_MAX", per_second=1000, burst=100)
        self.writer = BackgroundWriter(context, queue, none_due=self.none_due)
        source = EventSource(controller="phalanx", instance="phalanx-one")
        self.events = PodEvents(context, writer=self.writer, source=source, repeat_period=period)

    async def pod(self, name: str) -> PodRef:
        return PodRef(self.world.namespace, name, await self.world.pod(name))

    async def of(self, name: str) -> list[dict[str, Any]]:
        async with asyncio.timeout(30):
            await self.writer.idle.wait()
        return await self.world.events_of(name)


@asynccontextmanager
async def event_writing(
    world: World, transport: FaultyTransport, *, waiting: int = 100, period: float = 0.0
) -> AsyncIterator[EventWriting]:
    writing = EventWriting(world, transport, waiting=waiting, period=period)
    task = asyncio.create_task(writing.writer.run())
    try:
        yield writing
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_scheduled_event_has_the_text_of_kube_scheduler(
    world: World, transport: FaultyTransport
) -> None:
    async with event_writing(world, transport) as writing:
        pod = await writing.pod("a")
        writing.events.scheduled(pod, node="n1")
        (event,) = await writing.of("a")
    assert event["type"] == "Normal"
    assert event["reason"] == "Scheduled"
    assert event["action"] == "Binding"
    assert event["note"] == f"Successfully assigned {world.namespace}/a to n1"
    assert event["reportingController"] == "phalanx"
    assert event["regarding"]["uid"] == pod.uid
    assert event["regarding"]["kind"] == "Pod"


async def test_events_are_visible_to_kubectl_describe(world: World, transport: FaultyTransport) -> None:
    """kubectl asks the core API for events whose involved object is the pod."""
    async with event_writing(world, transport) as writing:
        writing.events.failed_scheduling(await writing.pod("a"), message="0/3 nodes fit")
        await writing.of("a")
    core = await world.get(f"/api/v1/namespaces/{world.namespace}/events")
    (event,) = core["items"]
    assert event["involvedObject"]["name"] == "a"
    assert event["message"] == "0/3 nodes fit"
    assert event["type"] == "Warning"


async def test_a_repeated_event_is_one_series(world: World, transport: FaultyTransport) -> None:
    async with event_writing(world, transport) as writing:
        pod = await writing.pod("a")
        for _ in range(3):
            writing.events.failed_scheduling(pod, message="0/3 nodes fit")
            (event,) = await writing.of("a")
        assert event["series"]["count"] == 3
        assert event["reason"] == "FailedScheduling"
        assert event["action"] == "Scheduling"


async def test_a_repeated_event_is_not_written_within_its_period(
    world: World, transport: FaultyTransport
) -> None:
    async with event_writing(world, transport, period=3600) as writing:
        pod = await writing.pod("a")
        for _ in range(50):
            writing.events.failed_scheduling(pod, message="0/3 nodes fit")
        (event,) = await writing.of("a")
        assert not event.get("series")
    assert transport.count("POST", "/events") + transport.count("PATCH", "/events") == 1


async def test_another_message_is_another_event(world: World, transport: FaultyTransport) -> None:
    async with event_writing(world, transport, period=3600) as writing:
        pod = await writing.pod("a")
        writing.events.failed_scheduling(pod, message="0/3 nodes fit")
        writing.events.failed_scheduling(pod, message="1/3 nodes fit")
        events = await writing.of("a")
        assert {event["note"] for event in events} == {"0/3 nodes fit", "1/3 nodes fit"}


async def test_a_series_whose_event_has_expired_starts_again(
    world: World, transport: FaultyTransport
) -> None:
    async with event_writing(world, transport) as writing:
        pod = await writing.pod("a")
        writing.events.failed_scheduling(pod, message="m")
        (first,) = await writing.of("a")
        path = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events/{first['metadata']['name']}"
        await world.client.delete(path, uid=first["metadata"]["uid"], timeout=30)
        writing.events.failed_scheduling(pod, message="m")
        (second,) = await writing.of("a")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_long_note_is_shortened(world: World, transport: FaultyTransport) -> None:
    async with event_writing(world, transport) as writing:
        writing.events.failed_scheduling(await writing.pod("a"), message="ü" * 2000)
        (event,) = await writing.of("a")
        assert len(event["note"].encode()) <= 1024
        assert event["note"].endswith("ü...")


@pytest.mark.parametrize(
    "name", ["a" * 253, "a" * 235 + "-" * 5 + "b" * 10], ids=["longest", "cut-at-a-dash"]
)
async def test_the_event_of_a_pod_with_the_longest_name_has_a_valid_name(
    world: World, transport: FaultyTransport, name: str
) -> None:
    async with event_writing(world, transport) as writing:
        writing.events.failed_scheduling(await writing.pod(name), message="m")
        assert len(await writing.of(name)) == 1


@pytest.mark.parametrize("fault", [applied_but_lost, not_sent, answer(503), answer(429)])
async def test_a_retry_after_a_transient_error_makes_one_event(
    world: World, transport: FaultyTransport, fault: Any
) -> None:
    transport.fault("POST", "/events", fault)
    async with event_writing(world, transport) as writing:
        writing.events.scheduled(await writing.pod("a"), node="n1")
        assert len(await writing.of("a")) == 1
        assert writing.reports.counts["event written"] == 1


async def test_a_refused_event_is_counted_and_blocks_nothing(
    world: World, transport: FaultyTransport
) -> None:
    transport.fault("POST", "/events", answer(403))
    async with event_writing(world, transport) as writing:
        writing.events.scheduled(await writing.pod("a"), node="n1")
        await writing.reports.until("event refused")
        writing.events.scheduled(await writing.pod("b"), node="n1")
        assert len(await writing.of("b")) == 1
        assert await writing.of("a") == []


async def test_too_many_events_drop_the_oldest(world: World, transport: FaultyTransport) -> None:
    async with event_writing(world, transport, waiting=2) as writing:
        writing.none_due.clear()
        pods = [await writing.pod(name) for name in ("a", "b", "c", "d", "e")]
        for pod in pods:
            writing.events.scheduled(pod, node="n1")
        assert writing.reports.counts["limit EVENTS_WAITING_MAX"] == 3
        writing.none_due.set()
        assert len(await writing.of("e")) == 1
        assert await writing.of("a") == []


async def test_events_wait_while_binds_are_under_way(world: World, transport: FaultyTransport) -> None:
    async with event_writing(world, transport) as writing:
        writing.none_due.clear()
        writing.events.scheduled(await writing.pod("a"), node="n1")
        await asyncio.sleep(0.05)
        assert transport.count("POST", "/events") == 0
        writing.none_due.set()
        assert len(await writing.of("a")) == 1
