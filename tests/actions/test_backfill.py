"""Backfill: the first waiting gang gets a reserved start, and no gang of its rank delays it."""

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.framework.config import BackfillConfig, SchedulerConfig
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.names import GangId
from phalanx.model.pods import PodPhase
from phalanx.model.queues import Backfill
from phalanx.model.reasons import Evidence, ExpectedStart, Reason
from phalanx.model.resources import GPU

from tests.actions.timeline import BEGIN, MINUTE, Timeline, Work, minute_of
from tests.builders import Scenario

EASY, CONSERVATIVE = Backfill.EASY, Backfill.CONSERVATIVE


def half_full(mode: Backfill | None = EASY) -> Timeline:
    """One of two nodes is used for an hour at most; a gang that needs both waits."""
    timeline = Timeline(2, 8, mode)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, estimate=30, runs=60, on=("n-0",)))
    return timeline.add(Work("big", 2, 8, runs=10, max=10))


@pytest.mark.parametrize(
    ("mode", "work", "passes"),
    [
        (None, Work("late", 1, 4), True),
        (Backfill.NONE, Work("late", 1, 4), True),
        (EASY, Work("late", 1, 4), False),
        (EASY, Work("late", 1, 4, max=51), False),
        (EASY, Work("late", 1, 4, max=50), True),
        (EASY, Work("late", 1, 4, estimate=50), True),
        (EASY, Work("late", 1, 4, estimate=20, max=51), False),
        (CONSERVATIVE, Work("late", 1, 4, max=50), True),
        (CONSERVATIVE, Work("late", 1, 4, max=51), False),
        (EASY, Work("late", 1, 4, queue="default"), False),
        (EASY, Work("late", 1, 4, priority=-1), False),
        (EASY, Work("late", 1, 4, priority=1), True),
    ],
)
def test_a_gang_is_backfilled_if_it_does_not_delay_the_reservation(
    mode: Backfill | None, work: Work, *, passes: bool
) -> None:
    timeline = half_full(mode)
    timeline.step()
    decided = timeline.add(work).step()
    assert decided.placed() == (["late"] if passes else [])
    assert passes or decided.verdict("late").reason is Reason.WOULD_DELAY_RESERVATION


def test_capacity_beside_the_reservation_is_free_for_all_gangs() -> None:
    timeline = half_full()
    timeline.scenario.nodes("m", 1, gpu=4)
    timeline.step()
    assert timeline.add(Work("late", 1, 4)).step().where("late") == {"m": 1}


def test_a_repair_is_backfilled() -> None:
    timeline = Timeline(1, 8, EASY).add(Work("torn", 2, 4, arrives=-10, max=60, on=("n-0", "n-0")))
    timeline.add(Work("big", 1, 8)).step()
    timeline.scenario.change("torn", runtime=Runtime(max="600m")).lose("torn")
    assert timeline.step().placed() == ["torn"]


def test_surplus_is_backfilled_if_its_gang_ends_before_the_reserved_start() -> None:
    timeline = half_full()
    timeline.add(Work("grows", 1, 1, arrives=-10, max=60, on=("n-1",)))
    timeline.step()
    timeline.scenario.role("grows", 1, gpu=1, cpu=0, memory=0)
    assert timeline.step().placed() == ["grows"]


def test_capacity_of_a_backfilled_gang_counts_as_free_after_its_end() -> None:
    """`long` gets what `big` leaves free on n-1, though `quick` uses the rest until then."""
    timeline = Timeline(2, 8, EASY)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",)), Work("big", 2, 6)).step()
    timeline.add(Work("huge", 1, 8), Work("quick", 1, 6, arrives=1, max=20), Work("long", 1, 2, arrives=2))
    timeline.minute = 2
    assert timeline.step().placed() == ["quick", "long"]


def test_a_gang_that_ends_before_a_reserved_start_reserves_the_gap() -> None:
    timeline = Timeline(2, 8, CONSERVATIVE).add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",)))
    timeline.add(Work("other", 1, 8, arrives=-10, max=30, on=("n-1",)), Work("big", 2, 8, max=60))
    timeline.add(Work("small", 1, 8, arrives=1, max=30), Work("long", 1, 8, arrives=1, max=31))
    timeline.minute = 1
    timeline.step()
    starts = {name: minute_of(timeline.reservation(name)) for name in ("big", "small", "long")}
    assert starts == {"big": 50, "small": 20, "long": 110}


def test_a_queue_of_higher_priority_is_backfilled() -> None:
    timeline = half_full()
    timeline.scenario.queue("vip", priority=1)
    timeline.step()
    assert timeline.add(Work("late", 1, 4, queue="vip")).step().placed() == ["late"]


def test_the_verdict_reports_the_expected_start() -> None:
    timeline = half_full()
    verdict = timeline.step().verdict("big")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message.endswith(
        "missing; expected to start at 1971-11-26T11:30:00Z, between 1971-11-26T11:00:00Z and "
        "1971-11-26T11:30:00Z (maximum run times)"
    )
    assert verdict.evidence[-1] == Evidence(
        "gang team/run", "ends before, at 1971-11-26T11:30:00Z (maximum run time)"
    )
    assert verdict.start == ExpectedStart(
        at=BEGIN + 50 * MINUTE,
        earliest=BEGIN + 20 * MINUTE,
        latest=BEGIN + 50 * MINUTE,
        method="maximum run times",
    )
    assert timeline.step().verdict("big") == verdict
    assert minute_of(timeline.reservation("big")) == 50


def test_the_verdict_names_the_gang_that_would_be_delayed() -> None:
    timeline = half_full()
    timeline.step()
    verdict = timeline.add(Work("late", 1, 4, max=90)).step().verdict("late")
    assert verdict.message == ("capacity is free until 1971-11-26T11:30:00Z, then reserved for gang team/big")
    assert verdict.evidence == (Evidence("gang team/big", "starts at 1971-11-26T11:30:00Z on 2 nodes"),)
    assert verdict.next_step == (
        "Wait until that gang has started, or set spec.runtime.max to at most 50m if it ends by then"
    )


def test_the_reserved_gang_starts_when_the_running_gang_ends() -> None:
    timeline = half_full().add(
        *(Work(f"s{index}", 1, 4, arrives=index, max=25, runs=25) for index in range(9))
    )
    timeline.run(until=70)
    assert timeline.started["big"] == 50
    assert [timeline.started[f"s{index}"] for index in range(5)] == [0, 1, 25, 60, 60]


def test_a_reservation_ends_when_its_gang_starts() -> None:
    timeline = half_full()
    timeline.scenario.nodes("m", 1, gpu=8, used={GPU: 4})
    timeline.step()
    timeline.minute = 50
    decided = timeline.add(Work("late", 1, 4, arrives=50)).step()
    assert decided.placed() == ["big", "late"]
    assert decided.result.memory.reserved_starts == {}


def test_the_order_of_the_input_does_not_matter() -> None:
    timeline = half_full(CONSERVATIVE)
    timeline.add(*(Work(f"w{index}", 1 + index % 2, 3 + index, max=20 * index + 1) for index in range(6)))
    timeline.step()
    results = {msgspec.json.encode(timeline.scenario.decide(shuffle=number).result) for number in range(5)}
    assert len(results) == 1
    assert len(timeline.scenario.memory.reserved_starts) > 2


def test_gangs_without_a_run_time_are_assumed_to_end() -> None:
    """Only gangs with a declared run time are backfilled: the assumed run time does not allow it."""
    timeline = Timeline(2, 8, EASY).add(Work("run", 1, 8, arrives=-10, on=("n-0",)), Work("big", 2, 8))
    message = timeline.step().verdict("big").message
    assert message.endswith(
        "expected to start at 1971-11-27T10:30:00Z, between 1971-11-26T10:46:00Z and "
        "1971-11-28T10:30:00Z (assumed run times)"
    )
    decided = timeline.add(Work("late", 1, 4), Work("short", 1, 4, max=23 * 60)).step()
    assert decided.placed() == ["short"]
    assert decided.reasons()["late"] is Reason.WOULD_DELAY_RESERVATION


@pytest.mark.parametrize("service", [False, True])
def test_gangs_that_always_restart_or_have_no_assumed_run_time_never_end(*, service: bool) -> None:
    assumed = BackfillConfig(assumed_runtime_minutes=24 * 60 if service else None)
    timeline = Timeline(2, 8, EASY, SchedulerConfig(actions=(), backfill=assumed))
    timeline.add(Work("run", 1, 8, arrives=-10, on=("n-0",))).step()
    pods = tuple(replace(pod, restarts_always=service) for pod in timeline.scenario.members("run"))
    timeline.scenario.change("run", members=pods)
    timeline.add(Work("big", 2, 8)).step()
    decided = timeline.add(Work("late", 1, 4)).step()
    assert decided.placed() == ["late"]
    assert decided.result.memory.reserved_starts == {}
    assert "expected" not in decided.verdict("big").message


def test_run_times_of_earlier_gangs_are_used_where_none_is_declared() -> None:
    timeline = Timeline(2, 8, EASY)
    for number in range(3):
        timeline.scenario.gang(f"run-{number}", 1, bound=1, cpu=0, memory=0, queue="q")
        (pod,) = timeline.scenario.members(f"run-{number}")
        done = replace(pod, phase=PodPhase.SUCCEEDED, ran=(0, 3600))
        timeline.scenario.change(f"run-{number}", members=(done,))
    timeline.add(Work("run-3", 1, 8, arrives=-10, on=("n-0",)), Work("big", 2, 8))
    verdict = timeline.step().verdict("big")
    assert verdict.message.endswith(
        "expected to start at 1971-11-26T11:30:00Z, between 1971-11-26T11:30:00Z and "
        "1971-11-26T12:30:00Z (run times of earlier gangs)"
    )
    assert verdict.evidence[-1].finding == "ends before, at 1971-11-26T11:30:00Z (run times of earlier gangs)"


def test_the_first_gang_with_a_predictable_start_gets_the_reservation() -> None:
    timeline = half_full().add(Work("vast", 3, 8, arrives=-1))
    assert list(timeline.step().result.memory.reserved_starts) == ["gang-big"]


def test_the_limit_of_the_queue_counts() -> None:
    timeline = Timeline(2, 8, None)
    timeline.scenario.queue("q", backfill=EASY, limit={GPU: 8})
    timeline.add(Work("run", 1, 6, arrives=-10, max=60, on=("n-0",)), Work("big", 1, 8))
    verdict = timeline.step().verdict("big")
    assert verdict.reason is Reason.QUEUE_LIMIT
    assert "expected to start at 1971-11-26T11:30:00Z (maximum run times)" in verdict.message
    assert verdict.evidence[-1].subject == "gang team/run"
    late = (Work("late", 1, 2), Work("quick", 1, 2, max=50), Work("other", 1, 8, queue="default"))
    decided = timeline.add(*late).step()
    assert sorted(decided.placed()) == ["other", "quick"]
    assert decided.verdict("late").reason is Reason.WOULD_DELAY_RESERVATION


def test_easy_reserves_for_the_first_gang_and_conservative_for_each() -> None:
    for mode, reserved_starts in ((EASY, [50, None]), (CONSERVATIVE, [50, 60])):
        timeline = half_full(mode).add(Work("next", 2, 8, arrives=1))
        timeline.step()
        timeline.minute = 1
        timeline.step()
        reserved = timeline.scenario.memory.reserved_starts
        found = [reserved.get(GangId(f"gang-{name}")) for name in ("big", "next")]
        assert [None if each is None else minute_of(each) for each in found] == reserved_starts, mode


def test_the_oldest_reservation_goes_first() -> None:
    """An older gang whose members are created late does not displace the gang that waited."""
    timeline = half_full()
    timeline.step()
    decided = timeline.add(Work("older", 2, 8, arrives=-5)).step()
    assert list(decided.result.memory.reserved_starts) == ["gang-big"]
    assert timeline.add(Work("urgent", 2, 8, priority=1)).step().result.memory.reserved_starts.keys() == {
        "gang-urgent"
    }


def test_reservations_do_not_alternate_between_queues() -> None:
    """The order of queues changes with their shares; the order of reservations does not."""
    timeline = Timeline(2, 8, EASY)
    timeline.scenario.queue("p", backfill=EASY)
    timeline.add(Work("run", 2, 4, arrives=-10, max=60, queue="p", on=("n-0", "n-1")))
    timeline.add(Work("mine", 2, 8, max=10), Work("theirs", 2, 8, max=10, queue="p", arrives=1))
    timeline.step()
    timeline.minute = 1
    assert [minute_of(timeline.step().result.memory.reserved_starts[GangId("gang-mine")])] == [50]
    timeline.add(Work("more", 1, 4, arrives=1, max=40))
    decided = timeline.step()
    assert decided.placed() == ["more"]
    assert [minute_of(timeline.reservation(name)) for name in ("mine", "theirs")] == [50, 60]


def late(nodes: int = 2) -> Timeline:
    """A gang that was expected to end in minute 20 still runs in minute 30; now minute 50 is expected."""
    timeline = Timeline(nodes, 8, EASY)
    timeline.add(Work("run", 1, 8, arrives=-10, estimate=30, on=("n-0",)), Work("big", 2, 8))
    timeline.add(*(Work("more", 1, 8, arrives=-10, max=50, on=("n-2",)) for _ in range(nodes - 2)))
    timeline.step()
    assert minute_of(timeline.reservation("big")) == 20
    timeline.minute = 30
    return timeline


def test_a_late_start_is_reported_again_and_keeps_its_reservation() -> None:
    timeline = late()
    timeline.minute = 20
    decided = timeline.add(Work("quick", 1, 4, arrives=20, max=1)).step()
    assert decided.placed() == []
    assert "expected to start at 1971-11-26T11:30:00Z, between 1971-11-26T11:30:00Z and " in (
        decided.verdict("big").message
    )
    assert "1971-11-26T12:30:00Z (estimates)" in decided.verdict("big").message
    assert decided.verdict("quick").message == "free capacity is reserved for the start of gang team/big"
    assert decided.verdict("quick").next_step == "Wait until that gang has started"
    assert decided.result.wake_at == BEGIN + 21 * MINUTE


def test_a_late_start_keeps_its_reserved_nodes() -> None:
    """Nodes of another gang could become free earlier, but its estimate may be wrong too."""
    timeline = late(nodes=3)
    timeline.step()
    assert sorted(timeline.reservation("big").usage) == ["n-0", "n-1"]
    assert minute_of(timeline.reservation("big")) == 50


def test_other_nodes_are_reserved_when_the_reserved_ones_are_cordoned() -> None:
    timeline = late()
    timeline.scenario.nodes("n", 2, gpu=8, cordoned=True).nodes("m", 2, gpu=8)
    timeline.add(Work("here", 2, 8, arrives=20, max=15, on=("m-0", "m-1"), priority=1)).step()
    assert sorted(timeline.reservation("big").usage) == ["m-0", "m-1"]
    assert minute_of(timeline.reservation("big")) == 35


def test_a_reservation_ends_when_its_gang_has_no_pods_to_place() -> None:
    timeline = half_full()
    timeline.step()
    timeline.scenario.change("big", members=timeline.scenario.members("big")[:1])
    decided = timeline.add(Work("late", 1, 4)).step()
    assert (decided.placed(), decided.result.memory.reserved_starts) == (["late"], {})


def test_a_queue_has_the_mode_of_its_parent() -> None:
    timeline = Timeline(2, 8, None)
    timeline.scenario.queue("top", backfill=EASY).queue("q", parent="top")
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",)), Work("big", 2, 8))
    assert timeline.step().result.memory.reserved_starts.keys() == {"gang-big"}


def test_shares_of_devices_are_reserved_too() -> None:
    """In sum 200 thousandths stay free, but not on a single device."""
    scenario = Scenario().nodes("n", 1, shared=2).queue("q", backfill=EASY)
    scenario.gang("run", 2, share=400, runtime=Runtime(max="1m")).gang("big", 2, share=900, queue="q")
    scenario.gang("wide", 1, share=200, queue="q").gang("thin", 1, share=100, queue="q")
    decided = scenario.decide()
    assert decided.placed() == ["run", "thin"]
    assert decided.verdict("wide").reason is Reason.WOULD_DELAY_RESERVATION
    (reserved,) = decided.result.memory.reserved_starts.values()
    assert [reserved.usage["n-0"][f"gpu[{index}]"] for index in range(2)] == [900, 900]


@pytest.mark.parametrize("mode", [None, EASY])
def test_joint_admission_moves_no_gang_into_reserved_capacity(mode: Backfill | None) -> None:
    """Gangs that start together may be moved for each other, but not onto nodes of a reserved start."""
    timeline = half_full(mode)
    timeline.scenario.nodes("m", 1, gpu=4)
    timeline.step()
    timeline.scenario.gang("any", 1, gpu=4, queue="q").gang(
        "here", 1, gpu=4, queue="q", selector={"group": "m"}
    )
    decided = timeline.step()
    assert decided.placed() == (["any"] if mode else ["any", "here"])
    assert decided.where("any") == {"m" if mode else "n": 1}


def test_a_reserved_start_after_start_by_is_reported_in_advance() -> None:
    """The reserved start is minute 50, when the running gang ends."""
    timeline = half_full()
    timeline.step()
    for minute, is_missed in ((49, True), (50, False)):
        timeline.scenario.change("big", start_by=BEGIN + minute * MINUTE)
        verdict = timeline.step().verdict("big")
        assert ("will miss startBy " in verdict.message) is is_missed
        assert (verdict.evidence[-1].subject == "spec.startBy") is is_missed


def test_a_start_by_displaces_no_reservation() -> None:
    timeline = half_full()
    timeline.step()
    timeline.add(Work("due", 2, 8))
    timeline.step()
    timeline.scenario.queue("q", backfill=EASY, allow_start_by=True)
    timeline.scenario.change("due", start_by=BEGIN + 2 * MINUTE)
    timeline.minute = 1
    decided = timeline.step()
    assert [each.group for each in decided.result.verdicts] == ["team/due", "team/big"]
    assert decided.verdict("big").start is not None
    assert decided.verdict("due").start is None


def test_the_blocking_reservation_is_searched_once_for_equal_gangs() -> None:
    """Two starts are reserved; without either of them all these gangs would fit."""

    def waiting(count: int) -> Timeline:
        timeline = half_full()
        timeline.scenario.queue("other", backfill=EASY)
        timeline.add(Work("wide", 2, 8, queue="other", max=10))
        timeline.step()
        return timeline.add(*(Work(f"late-{index}", 1, 4) for index in range(count)))

    few, many = waiting(3).step(), waiting(30).step()
    assert few.result.stats.solves == many.result.stats.solves
    assert {many.verdict(f"late-{index}").reason for index in range(30)} == {Reason.WOULD_DELAY_RESERVATION}
