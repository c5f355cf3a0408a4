"""No bind of a gang is sent before its record is stored; other gangs do not wait for it."""

import asyncio

import pytest
from msgspec.structs import replace
from phalanx.kube.binding import BindAborted, Bound, Resume
from phalanx.kube.errors import Conflict, Forbidden
from phalanx.model.api.pod_groups import PodGroupStatus
from phalanx.model.conversion.records import written_record
from phalanx.model.decisions import Placement
from phalanx.model.records import GangRecord, PlacedMembers
from phalanx.ports import OutcomeUnknown

from tests.kube.faults import FaultyTransport
from tests.kube.test_binder import binding
from tests.kube.test_status import status_writing
from tests.kube.world import World

pytestmark = pytest.mark.asyncio

RECORD = GangRecord(1_767_312_000, (PlacedMembers("worker", "left", {"cpu": 1500, "memory": 1 << 30}, 2, 1),))


class Waiting:
    """The callers that wait for a record."""

    def __init__(self) -> None:
        self.resumes: list[Resume] = []
        self.came = asyncio.Event()

    def when_recorded(self, placement: Placement, resume: Resume) -> None:
        assert placement.record == RECORD
        self.resumes.append(resume)
        self.came.set()

    async def next(self) -> Resume:
        async with asyncio.timeout(30):
            await self.came.wait()
        self.came.clear()
        return self.resumes.pop()


async def test_binds_follow_the_record(world: World, transport: FaultyTransport) -> None:
    waiting = Waiting()
    async with binding(world, transport, when_recorded=waiting.when_recorded, concurrency=1) as bench:
        plan = replace(await bench.gang("a", "b"), record=RECORD)
        bench.binder.submit(plan)
        stored = await waiting.next()
        bench.binder.submit(await bench.gang("other"))
        await bench.reports.until("bind bound")
        assert set(bench.outcomes) == {"other"}, "no worker waits for the record"
        stored(None)
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in plan.binds} | {
            "other": bench.outcomes["other"]
        }


@pytest.mark.parametrize("error", [Conflict(code=409, reason="Conflict", message=""), OutcomeUnknown("lost")])
async def test_a_failed_write_delays_the_binds(
    world: World, transport: FaultyTransport, error: Exception
) -> None:
    waiting = Waiting()
    async with binding(world, transport, when_recorded=waiting.when_recorded) as bench:
        bench.binder.submit(replace(await bench.gang("a", "b"), record=RECORD))
        (await waiting.next())(error)
        stored = await waiting.next()
        assert transport.count("POST", "/binding") == 0
        stored(None)
        await bench.settled()
        assert all(isinstance(outcome, Bound) for outcome in bench.outcomes.values())


async def test_no_bind_is_sent_if_the_record_is_refused(world: World, transport: FaultyTransport) -> None:
    waiting = Waiting()
    async with binding(world, transport, when_recorded=waiting.when_recorded) as bench:
        bench.binder.submit(replace(await bench.gang("a", "b"), record=RECORD))
        (await waiting.next())(Forbidden(code=403, reason="Forbidden", message="no right"))
        await bench.settled()
        for outcome in bench.outcomes.values():
            assert isinstance(outcome, BindAborted)
            assert outcome.reason == "the gang's record cannot be written: 403 Forbidden: no right"
    assert transport.count("POST", "/binding") == 0


async def test_a_binder_that_stops_waits_for_no_record(world: World, transport: FaultyTransport) -> None:
    waiting = Waiting()
    async with binding(world, transport, when_recorded=waiting.when_recorded) as bench:
        bench.binder.submit(replace(await bench.gang("a"), record=RECORD))
        await waiting.next()
        await bench.binder.stop(within=0.1)
        assert isinstance(bench.outcomes["a"], BindAborted)
    assert transport.count("POST", "/binding") == 0


async def test_the_status_of_a_pod_group_gets_the_record_with_the_placement(
    world: World, transport: FaultyTransport
) -> None:
    await world.install_crds()
    group = await world.pod_group("g")
    async with binding(world, transport) as bench:
        plan = replace(await bench.gang("a", "b"), record=RECORD)
        bench.binder.submit(plan, pod_group=bench.ref_of(group))
        await bench.settled()
    assert [method for method, _, _ in transport.sent] == ["PATCH", "POST", "POST"]
    written = (await world.get(world.path("PodGroup", "g")))["status"]["record"]
    assert written == {
        "queuedSince": "2026-01-02T00:00:00Z",
        "placed": [
            {
                "role": "worker",
                "subgroup": "left",
                "requests": {"cpu": "1500m", "memory": "1073741824"},
                "bound": 2,
                "reserved": 1,
            }
        ],
    }


async def test_a_placement_that_is_written_late_replaces_no_newer_record(
    world: World, transport: FaultyTransport
) -> None:
    """A later cycle has placed more members of the gang, whose placement was written first."""
    await world.install_crds()
    group = await world.pod_group("g")
    more = (replace(RECORD.placed[0], bound=3),)
    newer = replace(RECORD, placed=more)
    async with binding(world, transport, newest_record=lambda _: newer) as bench:
        late = replace(await bench.gang("a", "b"), record=RECORD)
        bench.binder.submit(late, pod_group=bench.ref_of(group))
        await bench.settled()
    written = (await world.get(world.path("PodGroup", "g")))["status"]["record"]
    assert [each["bound"] for each in written["placed"]] == [3]


async def test_a_status_write_replaces_no_newer_record(world: World, transport: FaultyTransport) -> None:
    """The status was computed before the placement was written, and is sent after it."""
    await world.install_crds()
    group = await world.pod_group("g")
    async with status_writing(world, transport) as writing, binding(world, transport) as bench:
        seen = await writing.group("g")
        plan = replace(await bench.gang("a"), record=RECORD)
        bench.binder.submit(plan, pod_group=bench.ref_of(group))
        await bench.settled()
        older = GangRecord(RECORD.queued_since)
        writing.status.pod_group(seen, PodGroupStatus(phase="Pending", record=written_record(older)))
        await writing.written()
        found = (await writing.group("g")).status
        assert (found.record, found.phase) == (written_record(RECORD), None)
        now = await writing.group("g")
        writing.status.pod_group(now, PodGroupStatus(phase="Running", record=written_record(older)))
        await writing.written()
        assert (await writing.group("g")).status.record == written_record(older)
