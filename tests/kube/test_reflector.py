"""A reflector delivers one complete list, then every change, whatever happens to its watch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from phalanx.clock import seeded_random
from phalanx.kube.client import Client
from phalanx.kube.reflector import Reflector, WatchContext
from phalanx.model.api.kinds import KINDS
from phalanx.model.events import Applied, Deleted, NotListed, Relisted

from tests.kube.faults import FaultyTransport, answer
from tests.kube.reports import Reports
from tests.kube.world import World


class Mirror:
    """A sink that records the events and the objects of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.events: list[Applied | Deleted | Relisted] = []
        self.objects: dict[str, Any] = {}
        self._namespace = namespace
        self._changed = asyncio.Event()

    def __call__(self, event: Applied | Deleted | Relisted) -> None:
        self.events.append(event)
        match event:
            case Relisted(objects=objects, unreadable=unreadable):
                kept = {name: self.objects[name] for _, name in unreadable if name in self.objects}
                self.objects = kept | {o.metadata.name: o for o in objects if self._is_ours(o)}
            case Applied(object=present) if self._is_ours(present):
                self.objects[present.metadata.name] = present
            case Deleted(namespace=self._namespace, name=name):
                self.objects.pop(name, None)
        self._changed.set()

    def _is_ours(self, present: Any) -> bool:
        return bool(present.metadata.namespace == self._namespace)

    def relists(self) -> int:
        return sum(isinstance(event, Relisted) for event in self.events)

    async def until(self, holds: Callable[["Mirror"], object]) -> None:
        async with asyncio.timeout(30):
            while not holds(self):
                self._changed.clear()
                await self._changed.wait()

    async def until_names(self, *names: str) -> None:
        await self.until(lambda mirror: set(mirror.objects) == set(names))


@asynccontextmanager
async def reflecting(
    world: World, transport: FaultyTransport, *, kind: str = "Pod", **options: Any
) -> AsyncIterator[tuple[Mirror, Reflector, Reports]]:
    mirror, reports = Mirror(world.namespace), Reports()
    context = WatchContext(Client(transport), reports, seeded_random(1).random, **options)
    reflector = Reflector(KINDS[kind], mirror, context)
    task = asyncio.create_task(reflector.run())
    try:
        yield mirror, reflector, reports
    finally:
        task.cancel()
        await asyncio.wait((task,))


def problem_of(reflector: Reflector) -> str | None:
    return reflector.sync_error


async def test_the_initial_list_is_one_event_and_changes_follow(
    world: World, transport: FaultyTransport
) -> None:
    await world.pod("a")
    await world.pod("b")
    async with reflecting(world, transport) as (mirror, reflector, _):
        assert problem_of(reflector) == "pods are not listed yet"
        await reflector.synced.wait()
        assert isinstance(mirror.events[0], Relisted)
        assert set(mirror.objects) == {"a", "b"}
        assert problem_of(reflector) is None
        await world.pod("c")
        await world.label("Pod", "a", colour="red")
        await world.delete_pod("b")
        await mirror.until_names("a", "c")
        await mirror.until(lambda m: m.objects["a"].metadata.labels.get("colour") == "red")
        assert mirror.relists() == 1


async def test_pages_are_listed_if_watch_list_is_not_served(world: World, transport: FaultyTransport) -> None:
    await world.pod("a")
    transport.fault("WATCH", "/pods", answer(422, b'{"kind":"Status","reason":"Invalid","code":422}'))
    async with reflecting(world, transport) as (mirror, reflector, _):
        await reflector.synced.wait()
        await mirror.until_names("a")
        assert transport.count("GET", "/pods") == 1
        await world.pod("b")
        await mirror.until_names("a", "b")


async def test_pages_are_listed_after_an_initial_list_that_was_cut(
    world: World, transport: FaultyTransport
) -> None:
    """A busy API server closes the stream; the same request could fail again and again."""
    await world.pod("a")
    await world.pod("b")
    first = {"type": "ADDED", "object": await world.get(world.path("Pod", "a"))}
    transport.fault("WATCH", "/pods", answer(200, msgspec.json.encode(first)))
    async with reflecting(world, transport) as (mirror, reflector, _):
        await reflector.synced.wait()
        await mirror.until_names("a", "b")
        assert transport.count("GET", "/pods") >= 1
        await world.pod("c")
        await mirror.until_names("a", "b", "c")


async def test_a_cut_stream_resumes_at_its_resource_version(world: World, transport: FaultyTransport) -> None:
    async with reflecting(world, transport) as (mirror, reflector, reports):
        await reflector.synced.wait()
        await world.pod("a")
        await mirror.until_names("a")
        last: Any = mirror.events[-1]
        transport.cut_streams()
        await reports.until("failed OutcomeUnknown")
        await world.pod("b")
        await mirror.until_names("a", "b")
        assert mirror.relists() == 1
        started_at = int(transport.stream_queries[-1]["resourceVersion"])
        assert started_at >= int(last.object.metadata.resource_version)


async def test_a_silent_stream_is_opened_again(world: World, transport: FaultyTransport) -> None:
    quiet = "StorageClass"
    async with reflecting(world, transport, kind=quiet, idle_timeout=0.3) as (mirror, reflector, reports):
        await reflector.synced.wait()
        await reports.until("failed OutcomeUnknown", 2)
        assert mirror.relists() == 1
        assert len(transport.stream_queries) >= 2


async def test_an_expired_resource_version_causes_a_new_list(
    world: World, transport: FaultyTransport
) -> None:
    await world.pod("a")
    await world.pod("b")
    async with reflecting(world, transport) as (mirror, reflector, reports):
        await reflector.synced.wait()
        await world.delete_pod("b")
        await mirror.until_names("a")
        transport.rewrite_line = _gone_once(transport)
        await world.pod("c")
        await mirror.until(lambda m: m.relists() == 2)
        await mirror.until_names("a", "c")
        assert reports.counts["failed Gone"] == 1


def _gone_once(transport: FaultyTransport) -> Callable[[bytes], bytes]:
    """The next event becomes the in-stream error that an API server sends after compaction."""

    def rewrite(line: bytes) -> bytes:
        transport.rewrite_line = lambda other: other
        return (
            b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'
        )

    return rewrite


async def test_http_status_410_causes_a_new_list(world: World, transport: FaultyTransport) -> None:
    async with reflecting(world, transport) as (mirror, reflector, reports):
        await reflector.synced.wait()
        transport.fault("WATCH", "/pods", answer(410, b'{"kind":"Status","code":410,"reason":"Expired"}'))
        await world.pod("a")
        transport.cut_streams()
        await mirror.until(lambda m: m.relists() == 2)
        await mirror.until_names("a")
        assert reports.counts["failed Gone"] == 1


async def test_a_malformed_object_is_skipped_and_the_last_good_one_kept(
    world: World, transport: FaultyTransport
) -> None:
    await world.pod("a", labels={"colour": "red"})
    async with reflecting(world, transport) as (mirror, reflector, reports):
        await reflector.synced.wait()
        transport.rewrite_line = lambda line: line.replace(b'"colour":"blue"', b'"colour":7')
        await world.label("Pod", "a", colour="blue")
        await reports.until("unreadable Pod")
        transport.fault("WATCH", "/pods", answer(410, b'{"kind":"Status","code":410}'))
        transport.cut_streams()
        await mirror.until(lambda m: m.relists() == 2)
        assert mirror.events[-1].unreadable == ((world.namespace, "a"),)  # type: ignore[union-attr]
        assert mirror.objects["a"].metadata.labels == {"colour": "red"}
        assert reports.counts["unreadable Pod"] == 1, "one version is reported once"
        await world.pod("b")
        await mirror.until_names("a", "b")
        await world.delete_pod("a")
        await mirror.until_names("b")


async def test_a_malformed_object_in_a_page_is_skipped(world: World, transport: FaultyTransport) -> None:
    await world.pod("good")
    await world.pod("bad", labels={"colour": "blue"})

    async def spoil(send: Any) -> Any:
        response = await send()
        return type(response)(response.status, response.body.replace(b'"colour":"blue"', b'"colour":7'))

    transport.fault("GET", "/pods", spoil)
    async with reflecting(world, transport, use_watch_list=False) as (mirror, reflector, _):
        await reflector.synced.wait()
        assert set(mirror.objects) == {"good"}
        assert mirror.events[0].unreadable == ((world.namespace, "bad"),)  # type: ignore[union-attr]


async def test_a_kind_that_is_not_served_is_reported_and_tried_again(
    world: World, transport: FaultyTransport
) -> None:
    transport.fault("WATCH", "/podgroups", answer(404, b"404 page not found"))
    await world.install_crds()
    async with reflecting(world, transport, kind="PodGroup") as (_, reflector, reports):
        await reports.until("failed NotFound")
        assert "phalanx install --crds" in (problem_of(reflector) or "")
        await reflector.synced.wait()
        assert problem_of(reflector) is None


async def test_retry_after_is_obeyed(
    world: World, transport: FaultyTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("phalanx.kube.reflector.asyncio", _AsyncioWith(sleep))
    busy = b'{"kind":"Status","code":429,"details":{"retryAfterSeconds":77}}'
    transport.fault("WATCH", "/pods", answer(429, busy), answer(503, b""))
    async with reflecting(world, transport) as (_, reflector, reports):
        await reflector.synced.wait()
        assert reports.counts["failed TooManyRequests"] == 1
        assert reports.counts["failed ServerError"] == 1
    assert slept[0] == 77
    assert slept[1] < 1


class _AsyncioWith:
    """asyncio with another sleep, for one module."""

    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


async def test_many_objects_arrive_in_pages(world: World, transport: FaultyTransport) -> None:
    names = [f"p{number}" for number in range(7)]
    for name in names:
        await world.pod(name)
    client = Client(transport)
    pages = [page async for page in client.pages(world.path("Pod"), limit=3)]
    assert len(pages) == 3
    assert all(sum(page.count(f'"name":"{name}"'.encode()) > 0 for page in pages) == 1 for name in names)


async def test_a_kind_of_another_project_that_is_not_served_has_no_objects(
    world: World, transport: FaultyTransport
) -> None:
    async with reflecting(world, transport, kind="NodeResourceTopology") as (mirror, reflector, reports):
        async with asyncio.timeout(30):
            await reflector.synced.wait()
        assert problem_of(reflector) is None
        assert mirror.events == [Relisted("NodeResourceTopology", ())]
        assert not [report for report in reports.counts if report.startswith("failed")]


async def test_an_optional_kind_without_permission_does_not_stop_the_others(
    world: World, transport: FaultyTransport
) -> None:
    transport.fault("WATCH", "/noderesourcetopologies", answer(403))
    async with reflecting(world, transport, kind="NodeResourceTopology") as (mirror, reflector, reports):
        await reports.until("failed Forbidden")
        async with asyncio.timeout(30):
            await reflector.synced.wait()
        assert problem_of(reflector) is None
        assert [event for event in mirror.events if not isinstance(event, NotListed)] == []
        assert {event.kind for event in mirror.events} == {"NodeResourceTopology"}
