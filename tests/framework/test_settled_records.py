"""The records of gangs to which nothing happens are not computed again in each cycle."""

from msgspec.structs import replace
from phalanx.framework.member_records import MemberRecord, MemberRecords, SettledRecords
from phalanx.framework.session_cache import SessionCache
from phalanx.model.names import GangId
from phalanx.model.snapshot import Snapshot

from tests.builders import Scenario


def record_in(snapshot: Snapshot, cache: SessionCache) -> MemberRecord:
    """The record of the only gang."""
    (gang,) = snapshot.gangs.values()
    return MemberRecords(snapshot, lambda gang: gang, cache.kept).of(gang)


def seen_twice() -> tuple[Snapshot, SessionCache]:
    """The snapshot after two cycles with a gang that runs."""
    scenario = Scenario().nodes("n", 2, gpu=4).gang("a", 2, gpu=4)
    for _ in range(2):
        scenario.take(scenario.decide())
    return scenario.snapshot(), SessionCache()


def test_the_record_of_a_gang_that_runs_is_the_same_in_the_next_cycle() -> None:
    snapshot, cache = seen_twice()
    first = record_in(snapshot, cache)
    assert (first.is_running, first.lost) == (True, {})
    assert record_in(replace(snapshot, now=snapshot.now + 1000), cache) is first


def test_it_is_computed_again_after_a_change() -> None:
    snapshot, cache = seen_twice()
    first = record_in(snapshot, cache)
    (gang,) = snapshot.gangs.values()
    fewer = replace(snapshot, gangs={gang.id: replace(gang, members=gang.members[:1])})
    assert sum(record_in(fewer, cache).lost.values()) == 1
    memory = replace(snapshot.memory, records={gang.id: replace(first.record, finishing_since=1)})
    assert record_in(replace(snapshot, memory=memory), cache).record.finishing_since == 1


def test_a_loss_lapses_by_time_alone() -> None:
    snapshot, cache = seen_twice()
    (gang,) = snapshot.gangs.values()
    fewer = replace(snapshot, gangs={gang.id: replace(gang, members=gang.members[:1])})
    before = record_in(fewer, cache)
    memory = replace(fewer.memory, records={gang.id: before.record}, seen_members={gang.id: before.seen})
    known = replace(fewer, memory=memory)
    assert sum(record_in(known, cache).lost.values()) == 1
    assert not record_in(replace(known, now=known.now + 3_600_000), cache).lost


def test_gangs_that_are_gone_are_forgotten() -> None:
    snapshot, cache = seen_twice()
    first = record_in(snapshot, cache)
    others = ((replace(first.gang, id=GangId(f"other-{number}")), first) for number in range(10_000))
    for gang, record in others:
        cache.kept(SettledRecords).keep(gang, (record.seen, record))
    assert record_in(snapshot, cache) is not first
