"""The records of gangs to which nothing happens are not computed again in each cycle."""

from msgspec.structs import replace
from phalanx.framework.member_records import MemberRecord, MemberRecords, SettledRecords
from phalanx.model.snapshot import Snapshot

from tests.builders import Scenario


def record_in(snapshot: Snapshot, settled: SettledRecords) -> MemberRecord:
    """The record of the only gang."""
    (gang,) = snapshot.gangs.values()
    return MemberRecords(snapshot, lambda gang: gang, settled).of(gang)


def seen_twice() -> tuple[Snapshot, SettledRecords]:
    """The snapshot after two cycles with a gang that runs."""
    scenario = Scenario().nodes("n", 2, gpu=4).gang("a", 2, gpu=4)
    for _ in range(2):
        scenario.take(scenario.decide())
    return scenario.snapshot(), SettledRecords()


def test_the_record_of_a_gang_that_runs_is_the_same_in_the_next_cycle() -> None:
    snapshot, settled = seen_twice()
    first = record_in(snapshot, settled)
    assert (first.is_running, first.lost) == (True, {})
    assert record_in(replace(snapshot, now=snapshot.now + 1000), settled) is first


def test_it_is_computed_again_after_a_change() -> None:
    snapshot, settled = seen_twice()
    first = record_in(snapshot, settled)
    (gang,) = snapshot.gangs.values()
    fewer = replace(snapshot, gangs={gang.id: replace(gang, members=gang.members[:1])})
    assert sum(record_in(fewer, settled).lost.values()) == 1
    memory = replace(snapshot.memory, records={gang.id: replace(first.record, finishing_since=1)})
    assert record_in(replace(snapshot, memory=memory), settled).record.finishing_since == 1


def test_a_loss_lapses_by_time_alone() -> None:
    snapshot, settled = seen_twice()
    (gang,) = snapshot.gangs.values()
    fewer = replace(snapshot, gangs={gang.id: replace(gang, members=gang.members[:1])})
    before = record_in(fewer, settled)
    memory = replace(fewer.memory, records={gang.id: before.record}, seen_members={gang.id: before.seen})
    known = replace(fewer, memory=memory)
    assert sum(record_in(known, settled).lost.values()) == 1
    assert not record_in(replace(known, now=known.now + 3_600_000), settled).lost


def test_gangs_that_are_gone_are_forgotten() -> None:
    snapshot, settled = seen_twice()
    first = record_in(snapshot, settled)
    settled.forget_unused({})
    assert record_in(snapshot, settled) is not first
