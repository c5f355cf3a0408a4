"""Records of gangs reach the ConfigMap in few writes, and each caller that waits is informed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from phalanx.kube.client import Patch
from phalanx.kube.errors import Conflict, Forbidden
from phalanx.kube.record_store import LoadedRecords, RecordStore
from phalanx.model.names import GangId
from phalanx.model.records import GangRecord, PlacedMembers
from phalanx.model.stored_records import ABOUT, RECORDS_NAME, Changes, read_records
from phalanx.ports import OutcomeUnknown

from tests.kube.faults import FaultyTransport, answer, applied_but_lost, held_until, lost
from tests.kube.reports import Reports
from tests.kube.test_binder import SwitchFence
from tests.kube.world import TIMEOUT, World
from tests.write_context import write_context


class Storing:
    """A store that runs, and what it reported."""

    def __init__(self, world: World, transport: FaultyTransport) -> None:
        self.world = world
        self.fence = SwitchFence()
        self.reports = Reports()
        self.stored: list[Changes] = []
        self.path = world.path("ConfigMap", RECORDS_NAME)
        self.loaded = LoadedRecords({}, is_first=False)
        context = write_context(transport, reports=self.reports, fence=self.fence)
        self.store = RecordStore(context, namespace=world.namespace, on_stored=self.stored.append)

    def put(self, *gangs: str, bound: int = 2) -> None:
        for gang in gangs:
            self.store.put("team", GangId(gang), record(bound))

    async def written(self, gang: str) -> None:
        """Wait as the binder does, which tries again."""
        while await self.answer(gang) is not None:
            pass

    async def answer(self, gang: str) -> Exception | None:
        answered: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.store.when_stored(GangId(gang), answered.set_result)
        async with asyncio.timeout(30):
            return await answered

    async def content(self) -> dict[str, GangRecord]:
        found = await self.world.get(self.path)
        return {gang: each for part in read_records(found["data"]).values() for gang, each in part.items()}

    async def edit(self, data: dict[str, Any]) -> None:
        body = msgspec.json.encode({"data": data})
        await self.world.client.patch(self.path, body, how=Patch.MERGE, timeout=TIMEOUT)


def record(bound: int) -> GangRecord:
    return GangRecord(5, (PlacedMembers("", "", {"cpu": 1000}, bound),))


@asynccontextmanager
async def storing(world: World, transport: FaultyTransport) -> AsyncIterator[Storing]:
    made = Storing(world, transport)
    made.loaded = await made.store.load()
    task = asyncio.create_task(made.store.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.asyncio
async def test_the_first_start_is_marked_once(world: World, transport: FaultyTransport) -> None:
    async with storing(world, transport) as first:
        assert first.loaded == LoadedRecords({}, is_first=True)
        await first.reports.until("records written")
        assert (await world.get(first.path))["data"] == ABOUT
    async with storing(world, transport) as second:
        assert second.loaded == LoadedRecords({}, is_first=False)
        await second.store.flush(within=1)
    assert transport.count("POST", "configmaps") == 1
    assert transport.count("PATCH", "configmaps") == 0


@pytest.mark.asyncio
async def test_all_gangs_of_a_cycle_share_a_write(world: World, transport: FaultyTransport) -> None:
    gangs = [f"g{number}" for number in range(100)]
    async with storing(world, transport) as running:
        running.put(*gangs)
        await asyncio.gather(*(running.written(gang) for gang in gangs))
        assert await running.content() == {gang: record(2) for gang in gangs}
        assert running.stored == [{gang: record(2) for gang in gangs}]
        running.put(*gangs)
        assert await running.answer("g0") is None
    assert transport.count("POST", "configmaps") == 1
    assert transport.count("PATCH", "configmaps") == 0


@pytest.mark.asyncio
async def test_the_next_leader_reads_what_was_written(world: World, transport: FaultyTransport) -> None:
    async with storing(world, transport) as first:
        first.put("a", "b")
        await first.written("b")
        first.store.remove(GangId("a"))
        await first.store.flush(within=30)
    async with storing(world, transport) as second:
        assert second.loaded == LoadedRecords({GangId("b"): record(2)}, is_first=False)
        second.put("c")
        await second.written("c")
        assert await second.content() == {"b": record(2), "c": record(2)}
        assert second.stored == [{"c": record(2)}]


@pytest.mark.asyncio
async def test_a_change_during_a_write_is_written_next(world: World, transport: FaultyTransport) -> None:
    async with storing(world, transport) as running:
        answered = asyncio.Event()
        transport.fault("POST", "configmaps", held_until(answered))
        running.put("a")
        first = asyncio.ensure_future(running.answer("a"))
        await _until(lambda: transport.count("POST", "configmaps") == 1)
        running.put("a", bound=3)
        second = asyncio.ensure_future(running.answer("a"))
        answered.set()
        assert await first is None
        assert await second is None
        assert await running.content() == {"a": record(3)}


@pytest.mark.asyncio
async def test_the_content_of_the_leader_counts(world: World, transport: FaultyTransport) -> None:
    """A write that the last leader sent late is undone: no bind followed it."""
    async with storing(world, transport) as running:
        running.put("a")
        await running.written("a")
        await running.edit({"team": None, "late": '{"gangs":{"x":[1,0,[]]}}'})
        running.put("b")
        assert isinstance(await running.answer("b"), Conflict)
        await running.written("b")
        assert await running.content() == {"a": record(2), "b": record(2)}


@pytest.mark.asyncio
async def test_a_deleted_object_is_written_again(world: World, transport: FaultyTransport) -> None:
    async with storing(world, transport) as running:
        running.put("a")
        await running.written("a")
        uid = (await world.get(running.path))["metadata"]["uid"]
        await world.client.delete(running.path, uid=uid, timeout=TIMEOUT)
        running.put("b")
        assert isinstance(await running.answer("b"), Conflict)
        await running.written("b")
        assert await running.content() == {"a": record(2), "b": record(2)}


@pytest.mark.asyncio
@pytest.mark.parametrize("fault", [lost, applied_but_lost])
async def test_an_unknown_outcome_is_read_back(world: World, transport: FaultyTransport, fault: Any) -> None:
    async with storing(world, transport) as running:
        transport.fault("POST", "configmaps", fault)
        running.put("a")
        assert isinstance(await running.answer("a"), OutcomeUnknown)
        await running.written("a")
        assert await running.content() == {"a": record(2)}


@pytest.mark.asyncio
async def test_each_caller_that_waits_is_informed_that_it_is_forbidden(
    world: World, transport: FaultyTransport
) -> None:
    async with storing(world, transport) as running:
        transport.fault("POST", "configmaps", answer(403))
        running.put("a")
        assert isinstance(await running.answer("a"), Forbidden)
        assert running.reports.counts["records refused"] == 1
        await running.written("a")


@pytest.mark.asyncio
async def test_nothing_is_read_before_the_server_answers(world: World, transport: FaultyTransport) -> None:
    transport.fault("GET", "configmaps", answer(503), lost)
    async with storing(world, transport) as running:
        assert running.loaded.is_first
    assert transport.count("GET", "configmaps") == 3


@pytest.mark.asyncio
async def test_nothing_is_written_without_leadership(world: World, transport: FaultyTransport) -> None:
    async with storing(world, transport) as running:
        running.fence.leads = False
        running.put("a")
        assert await running.answer("a") is not None
    assert transport.count("POST", "configmaps") == 0


async def _until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)
