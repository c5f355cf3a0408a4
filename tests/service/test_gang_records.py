"""Records are stored where the gang has a place for them; pods bound before there were records count."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.deciders.inline import InlineDecider
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.client import Client
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.pod_groups import PodGroup, PodGroupStatus
from phalanx.model.conversion.records import written_record
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.names import GangId
from phalanx.model.records import GangRecord, PlacedMembers
from phalanx.model.stored_records import RECORDS_NAME, read_records
from phalanx.service.cluster_state import ClusterState
from phalanx.service.gang_records import GangRecords
from phalanx.service.limits import RECORDS_OF_ABSENT_KEPT_S
from phalanx_simulator.embedded.apiserver.server import ApiServer

from tests.cache.world import new_cache
from tests.in_memory_transport import InMemoryTransport
from tests.kube.reports import Reports
from tests.kube.test_binder import placement
from tests.manual_clock import ManualClock
from tests.model.written import controlled_by, job, label, pod, pod_group
from tests.write_context import AlwaysLeading

LABELLED = GangId("team/o1")
PATH = KINDS["ConfigMap"].path(namespace="kube-system", name=RECORDS_NAME)


def member(name: str, *, node: str = "", owner: str = "o1") -> Applied:
    """A pod of the gang that its owner makes, which has the label min-member."""
    where = {"nodeName": node} if node else {}
    return Applied(pod(name, owner=owner, labels={label("min-member"): "2"}, requests={"cpu": 1}, **where))


def of_group(name: str, *, node: str = "") -> Applied:
    where = {"nodeName": node} if node else {}
    return Applied(pod(name, labels={label("pod-group"): "g"}, requests={"cpu": 1}, **where))


def record(bound: int, *, queued: int = 5) -> GangRecord:
    return GangRecord(queued, (PlacedMembers("", "", {"cpu": 1000}, bound),) if bound else ())


class Leader:
    """A process that leads, with the objects that it sees."""

    def __init__(self, server: ApiServer, *events: Any) -> None:
        cache = new_cache()
        self.clock = ManualClock()
        self.client = Client(InMemoryTransport(server))
        self.state = ClusterState(cache=cache, decider=InlineDecider(cache=cache, config=SchedulerConfig()))
        context = WriteContext(self.client, AlwaysLeading(), self.clock, Reports(), jitter=lambda: 0.0)
        self.records = GangRecords(context, state=self.state, namespace="kube-system")
        self.state.start_reporting()
        for event in events:
            self.state.apply(event)

    async def leads(self) -> "Leader":
        await self.records.load()
        self.task = asyncio.create_task(self.records.run())
        await self.records.flush(within=30)
        return self

    def die(self) -> None:
        self.task.cancel()

    async def decides(self, **records: GangRecord) -> None:
        """End a cycle with these records; "o1" names the gang of this owner, "g" the PodGroup."""
        known = {GangId("uid-g" if name == "g" else f"team/{name}"): each for name, each in records.items()}
        self.records.cycle_finished(CycleResult(cycle=1, memory=Memory(records=known)))
        await self.records.flush(within=30)

    async def stored(self) -> dict[str, GangRecord]:
        found: dict[str, Any] = await self.client.get(PATH, msgspec.json.decode)
        return {gang: each for part in read_records(found["data"]).values() for gang, each in part.items()}

    def seen(self, gang: str) -> GangRecord | None:
        """The record that the next cycle finds."""
        found = self.state.cache.gang(GangId(gang))
        assert found is not None
        return found.record

    def status(self, before: PodGroupStatus) -> PodGroupStatus:
        return self.records.in_status(GangId("uid-g"), PodGroupStatus(phase="Running"), before=before)


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(clock=ManualClock())


def group_with(record: GangRecord | None) -> PodGroup:
    written = written_record(record) if record is not None else None
    return msgspec.structs.replace(pod_group(minMember=2), status=PodGroupStatus(record=written))


def playing(test: Callable[..., Any]) -> Callable[[ApiServer], None]:
    def play(server: ApiServer) -> None:
        asyncio.run(test(server))

    play.__name__, play.__doc__ = test.__name__, test.__doc__
    return play


@playing
async def test_the_next_leader_finds_what_the_last_one_decided(server: ApiServer) -> None:
    first = await Leader(server, member("a"), member("b")).leads()
    await first.decides(o1=record(2))
    assert await first.stored() == {LABELLED: record(2)}
    assert first.seen(LABELLED) == record(2)
    first.die()
    second = await Leader(server, member("a"), member("b")).leads()
    assert second.seen(LABELLED) == record(2)
    await second.decides(o1=record(0))
    assert await second.stored() == {LABELLED: record(0)}
    second.die()


@playing
async def test_a_placement_is_written_with_the_record_of_the_last_cycle(server: ApiServer) -> None:
    """Its gang may have got more members since."""
    leader = await Leader(server, Applied(group_with(None)), of_group("a"), of_group("b")).leads()
    late = msgspec.structs.replace(placement(), gang=GangId("uid-g"), record=record(1))
    assert leader.records.newest(late) == record(1)
    await leader.decides(g=record(2))
    assert leader.records.newest(late) == record(2)
    leader.die()


@playing
async def test_pods_bound_before_there_were_records_count_once(server: ApiServer) -> None:
    there = (member("a", node="n1"), member("b", node="n2"), member("c"), member("x", owner="o2"))
    first = await Leader(server, *there).leads()
    found = first.seen(LABELLED)
    assert found is not None
    assert [(each.bound, each.requests["cpu"]) for each in found.placed] == [(2, 1000)]
    assert await first.stored() == {LABELLED: found}
    first.die()
    later = (*there, member("y", node="n1", owner="o3"), member("z", node="n1", owner="o3"))
    second = await Leader(server, *later).leads()
    assert second.seen(LABELLED) == found
    assert second.seen("team/o3") is None
    second.die()


@playing
async def test_a_pod_group_keeps_its_adopted_record_until_its_status_has_it(server: ApiServer) -> None:
    bound = (of_group("a", node="n1"), of_group("b", node="n1"))
    first = await Leader(server, Applied(group_with(None)), *bound).leads()
    found = first.seen("uid-g")
    assert found is not None
    assert await first.stored() == {"uid-g": found}
    first.die()  # before the status is written
    second = await Leader(server, Applied(group_with(None)), *bound).leads()
    assert second.seen("uid-g") == found
    await second.decides(g=found)
    assert second.status(PodGroupStatus()).record == written_record(found)
    assert await second.stored() == {"uid-g": found}
    second.state.apply(Applied(group_with(found)))
    await second.decides(g=found)
    assert await second.stored() == {}
    assert second.seen("uid-g") == found
    second.die()


@playing
async def test_an_eviction_is_stored_until_the_status_of_the_pod_group_knows_its_outcome(
    server: ApiServer,
) -> None:
    first = await Leader(server, Applied(group_with(record(2))), of_group("a"), of_group("b")).leads()
    resumed = asyncio.Event()
    evicting = msgspec.structs.replace(record(2), evicting=2)
    deciding = asyncio.create_task(first.decides(g=evicting))
    await asyncio.sleep(0)
    first.records.when_eviction_stored(GangId("uid-g"), resumed.set)
    assert not resumed.is_set()
    await deciding
    assert resumed.is_set()
    await first.decides(g=record(0))
    assert await first.stored() == {"uid-g": evicting}, "the status still counts the members"
    first.die()
    second = await Leader(server, Applied(group_with(record(2))), of_group("a"), of_group("b")).leads()
    assert second.seen("uid-g") == evicting
    await second.decides(g=record(0))
    second.state.apply(Applied(group_with(record(0))))
    await second.decides(g=record(0))
    assert await second.stored() == {}
    second.die()


@playing
async def test_the_status_of_a_pod_group_has_the_record_of_the_last_cycle(server: ApiServer) -> None:
    leader = await Leader(server, Applied(group_with(record(2))), of_group("a", node="n1")).leads()
    older = PodGroupStatus(record=written_record(record(1)))
    leader.state.take_changed()
    assert leader.status(older).record == older.record, "no cycle has decided yet"
    await leader.decides(g=record(2))
    assert leader.state.take_changed() == ("uid-g",)
    assert leader.status(older).record == written_record(record(2))
    await leader.decides()
    assert leader.status(older).record == older.record, "no cycle knows the gang any more"
    assert await leader.stored() == {}
    leader.die()


@playing
async def test_records_of_gangs_that_are_gone_go(server: ApiServer) -> None:
    first = await Leader(server, member("a"), member("x", owner="o2")).leads()
    await first.decides(o1=record(1), o2=record(2))
    await first.decides(o1=record(1))
    assert await first.stored() == {LABELLED: record(1)}
    first.die()


@playing
async def test_records_of_gangs_without_pods_stay_for_ten_minutes_after_a_change_of_leader(
    server: ApiServer,
) -> None:
    first = await Leader(server, member("a"), member("x", owner="o2")).leads()
    await first.decides(o1=record(1), o2=record(2))
    first.die()
    second = await Leader(server).leads()
    await second.decides()
    assert await second.stored() == {LABELLED: record(1), "team/o2": record(2)}
    second.state.apply(member("a2"))
    assert second.seen(LABELLED) == record(1)
    second.clock.seconds += RECORDS_OF_ABSENT_KEPT_S
    await second.decides(o1=record(1))
    assert await second.stored() == {LABELLED: record(1)}
    second.state.apply(member("x", owner="o2"))
    assert second.seen("team/o2") is None
    second.die()


@pytest.mark.parametrize("is_new", [False, True])
def test_the_age_of_a_gang_stays_while_the_job_exists_that_makes_its_pods(
    server: ApiServer, *, is_new: bool
) -> None:
    """The Job is suspended, with or without a change of leader."""

    async def part() -> None:
        train, gang = job("train", parallelism=2, completions=2), GangId("Job.batch:team/uid-train")
        made = pod("a", requests={"cpu": 1}, meta=controlled_by("train"))
        leader = await Leader(server, Relisted("Job.batch", (train,)), Applied(made)).leads()
        leader.records.cycle_finished(CycleResult(cycle=1, memory=Memory(records={gang: record(2)})))
        await leader.records.flush(within=30)
        assert await leader.stored() == {gang: record(2)}
        leader.state.apply(Deleted("Pod", "team", "a"))
        if is_new:
            leader.die()
            leader = await Leader(server, Relisted("Job.batch", (train,))).leads()
        for _ in range(3):
            leader.clock.seconds += RECORDS_OF_ABSENT_KEPT_S
            await leader.decides()
        assert await leader.stored() == {gang: record(0)}
        leader.state.apply(Deleted("Job.batch", "team", "train"))
        leader.clock.seconds += RECORDS_OF_ABSENT_KEPT_S
        await leader.decides()
        assert await leader.stored() == {}
        leader.die()

    asyncio.run(part())


@playing
async def test_what_a_cycle_does_not_keep_of_a_gang_with_pods_goes_at_once(server: ApiServer) -> None:
    first = await Leader(server, member("a")).leads()
    await first.decides(o1=record(1))
    first.die()
    second = await Leader(server, member("a")).leads()
    await second.decides()
    assert await second.stored() == {}
    assert second.seen(LABELLED) is None
    second.die()


@playing
async def test_the_record_of_a_gang_that_has_lost_all_pods_changes(server: ApiServer) -> None:
    leader = await Leader(server, member("a")).leads()
    await leader.decides(o1=record(1))
    leader.state.apply(Deleted("Pod", "team", "a"))
    await leader.decides(o1=record(0))
    assert await leader.stored() == {LABELLED: record(0)}
    await leader.decides(o1=record(0), o2=record(1))
    assert await leader.stored() == {LABELLED: record(0)}
    leader.die()


@playing
async def test_the_only_pod_of_a_controller_costs_no_write(server: ApiServer) -> None:
    alone = Applied(pod("a", owner="o1", labels={label("min-member"): "1"}, requests={"cpu": 1}))
    leader = await Leader(server, alone).leads()
    await leader.decides(o1=record(1))
    assert await leader.stored() == {}
    leader.state.apply(member("b"))
    await leader.decides(o1=record(2))
    await leader.decides(o1=record(1, queued=6))
    assert await leader.stored() == {LABELLED: record(1, queued=6)}
    leader.die()


@playing
async def test_single_pods_cost_no_request(server: ApiServer) -> None:
    pods = [Applied(pod(f"p{number}", requests={"cpu": 1}, nodeName="n1")) for number in range(1000)]
    first = await Leader(server, *pods).leads()
    await first.decides()
    assert await first.stored() == {}
    version = (await first.client.get(PATH, msgspec.json.decode))["metadata"]["resourceVersion"]
    first.state.apply(Deleted("Pod", "team", "p0"))
    await first.decides()
    first.die()
    second = await Leader(server, *pods).leads()
    await second.decides()
    assert (await second.client.get(PATH, msgspec.json.decode))["metadata"]["resourceVersion"] == version
    second.die()
