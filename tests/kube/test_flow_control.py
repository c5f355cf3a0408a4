"""Tenants take turns, and no tenant occupies all workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from phalanx.kube.flow_control import FairQueue


class Recorder:
    """Work items that were started, in order; each ends at once, or when a test ends it."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.started: list[str] = []
        self.changed = asyncio.Event()
        self._at_once = at_once
        self._ends: dict[str, asyncio.Event] = {}

    async def do(self, work: str) -> None:
        self.started.append(work)
        self.changed.set()
        if not self._at_once:
            await self._ends.setdefault(work, asyncio.Event()).wait()

    def end(self, work: str) -> None:
        self._ends[work].set()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(30):
            while len(self.started) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.started


@asynccontextmanager
async def running(queue: FairQueue[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def put(queue: FairQueue[str], *works: str) -> None:
    """The first letter is the tenant."""
    for work in works:
        queue.put(work[0], work)


async def test_tenants_take_turns_and_each_keeps_its_order() -> None:
    recorder = Recorder()
    queue = FairQueue(recorder.do, workers=1, workers_per_tenant=1)
    put(queue, "a1", "a2", "a3", "b1", "c1", "b2")
    async with running(queue):
        assert await recorder.until(6) == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_no_tenant_occupies_all_workers() -> None:
    recorder = Recorder(at_once=False)
    queue = FairQueue(recorder.do, workers=3, workers_per_tenant=2)
    put(queue, "a1", "a2", "a3")
    async with running(queue):
        assert await recorder.until(2) == ["a1", "a2"]
        put(queue, "b1", "b2")
        assert await recorder.until(3) == ["a1", "a2", "b1"]
        recorder.end("a2")
        assert await recorder.until(4) == ["a1", "a2", "b1", "a3"]
        recorder.end("a1")
        assert await recorder.until(5) == ["a1", "a2", "b1", "a3", "b2"]


async def test_an_item_in_backoff_does_not_occupy_a_worker() -> None:
    recorder = Recorder()
    queue = FairQueue(recorder.do, workers=1, workers_per_tenant=1)
    queue.put_later("a", "a1", delay=0.01)
    put(queue, "a2", "a3")
    async with running(queue):
        assert await recorder.until(3) == ["a2", "a3", "a1"]
