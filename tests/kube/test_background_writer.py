"""Background writes: one per object at a time, the newest only, and no old write after a newer one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from phalanx.kube.background_writer import BACKGROUND_ATTEMPTS_MAX, BackgroundWriter, WriteQueue
from phalanx.ports import RequestNotSent

from tests.kube.reports import Reports
from tests.write_context import NoTransport, write_context


@asynccontextmanager
async def writing(
    reports: Reports, *, none_due: asyncio.Event | None = None
) -> AsyncIterator[BackgroundWriter]:
    idle = none_due or asyncio.Event()
    if none_due is None:
        idle.set()
    queue = WriteQueue("status", 3, 100, "STATUS_WAITING_MAX", per_second=1000, burst=100)
    writer = BackgroundWriter(write_context(NoTransport(), reports=reports), queue, none_due=idle)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.wait((task,))


class Journal:
    """What was written, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str, *, gate: asyncio.Event | None = None) -> Callable[[], Awaitable[None]]:
        async def write() -> None:
            self.lines.append(line)
            if gate is not None:
                await gate.wait()

        return write

    def fail(self, line: str) -> Callable[[], Awaitable[None]]:
        async def write() -> None:
            self.lines.append(line)
            raise RequestNotSent("fault")

        return write


async def turns() -> None:
    """Let every task that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_write_per_object_at_a_time() -> None:
    journal, gate = Journal(), asyncio.Event()
    async with writing(Reports()) as writer:
        writer.put("a", journal.write("a1", gate=gate))
        await turns()
        writer.put("a", journal.write("a2"))
        writer.put("a", journal.write("a3"))
        writer.put("b", journal.write("b1"))
        await turns()
        assert journal.lines == ["a1", "b1"]
        gate.set()
        await writer.idle.wait()
        assert journal.lines == ["a1", "b1", "a3"]


async def test_an_old_write_is_not_repeated_after_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.kube.background_writer.BACKGROUND_BACKOFF_FIRST_S", 0.02)
    journal, gate, reports = Journal(), asyncio.Event(), Reports()
    async with writing(reports) as writer:
        writer.put("a", journal.fail("old"))
        await turns()
        writer.put("a", journal.write("new", gate=gate))
        await asyncio.sleep(0.05)
        gate.set()
        await writer.idle.wait()
        assert journal.lines == ["old", "new"]


async def test_a_dropped_write_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.kube.background_writer.BACKGROUND_BACKOFF_FIRST_S", 0.02)
    journal = Journal()
    async with writing(Reports()) as writer:
        writer.put("a", journal.fail("old"))
        await turns()
        assert writer.drop("a")
        assert writer.idle.is_set()
        await asyncio.sleep(0.05)
        assert journal.lines == ["old"]


async def test_a_write_that_yields_to_binds_can_be_dropped() -> None:
    journal, none_due = Journal(), asyncio.Event()
    async with writing(Reports(), none_due=none_due) as writer:
        writer.put("a", journal.write("a"))
        await turns()
        assert writer.drop("a"), "the bind must wait for the write"
        none_due.set()
        await writer.idle.wait()
        assert journal.lines == []


async def test_a_write_that_keeps_failing_is_given_up_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.kube.background_writer.BACKGROUND_BACKOFF_FIRST_S", 0.001)
    journal, reports, lost = Journal(), Reports(), []
    async with writing(reports) as writer:
        writer.put("a", journal.fail("a"), on_lost=lambda: lost.append("a"))
        await writer.idle.wait()
        assert journal.lines == ["a"] * BACKGROUND_ATTEMPTS_MAX
        assert lost == ["a"]
        assert reports.counts["status gave-up"] == 1
        assert reports.depths["status"] == 0


async def test_writes_in_backoff_count_towards_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that throttles for minutes must not make us keep more than the bound says."""
    monkeypatch.setattr("phalanx.kube.background_writer.BACKGROUND_BACKOFF_FIRST_S", 1000.0)
    monkeypatch.setattr("phalanx.kube.background_writer.BACKGROUND_BACKOFF_LONGEST_S", 1000.0)
    journal, reports, lost = Journal(), Reports(), list[int]()
    async with writing(reports) as writer:
        for number in range(90):
            writer.put(number, journal.fail(str(number)), on_lost=lambda number=number: lost.append(number))
        while len(journal.lines) < 90:
            await asyncio.sleep(0)
        for number in range(90, 120):
            writer.put(number, journal.write(str(number)))
        assert lost == list(range(20)), "the oldest are dropped first"
        assert reports.counts["limit STATUS_WAITING_MAX"] == 20
