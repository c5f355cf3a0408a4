"""Gangs with a startBy go first once it is near, and the verdict reports when it is missed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.model.queues import Ordering
from phalanx.model.reasons import Evidence, Reason

from tests.builders import Scenario
from tests.examples import holds

NOW = 10_000_000_000
HOUR = 3_600_000


def one_slot(**queue: object) -> Scenario:
    scenario = Scenario().nodes("n", 1, gpu=1).queue("q", **{"allow_start_by": True, **queue})
    scenario.now = NOW
    return scenario


def lead(seconds: int) -> SchedulerConfig:
    return SchedulerConfig(plugins=(PluginConfig(name="start-by", arguments={"leadSeconds": seconds}),))


@pytest.mark.parametrize(
    ("first", "second", "placed"),
    [
        ({}, {}, "first"),
        ({}, {"start_by": NOW + HOUR}, "second"),
        ({}, {"start_by": NOW + HOUR + 1000}, "first"),  # not near yet
        ({}, {"start_by": NOW - HOUR}, "first"),  # missed
        ({}, {"start_by": NOW}, "first"),
        ({}, {"start_by": NOW + 1000}, "second"),
        ({"start_by": NOW - 1000}, {"start_by": NOW + HOUR}, "second"),
        ({"start_by": NOW + HOUR}, {"start_by": NOW + 1000}, "second"),
        ({"start_by": NOW + 1000}, {"start_by": NOW + 1000}, "first"),
        ({"start_by": NOW + 9 * HOUR}, {"start_by": NOW + 8 * HOUR}, "first"),  # both are far
        ({"priority": 1}, {"start_by": NOW + 1000}, "first"),
    ],
)
def test_the_gang_with_the_earlier_near_start_by_goes_first(
    first: dict[str, int], second: dict[str, int], placed: str
) -> None:
    scenario = one_slot().gang("first", 1, gpu=1, queue="q", **first)
    scenario.gang("second", 1, gpu=1, queue="q", **second)
    assert scenario.decide(SchedulerConfig(actions=())).placed() == [placed]


def test_the_lead_time_is_configurable() -> None:
    scenario = one_slot().gang("first", 1, gpu=1, queue="q")
    scenario.gang("second", 1, gpu=1, queue="q", start_by=NOW + 60_000)
    assert scenario.decide(lead(59)).placed() == ["first"]
    assert scenario.decide(lead(60)).placed() == ["second"]


@pytest.mark.parametrize(
    ("queue", "parent", "placed"),
    [
        (None, None, "first"),
        (True, None, "second"),
        (None, True, "second"),
        (False, True, "first"),
        (True, False, "second"),
    ],
)
def test_the_time_counts_where_the_queue_or_else_its_parent_allows_it(
    queue: bool | None, parent: bool | None, placed: str
) -> None:
    scenario = one_slot(allow_start_by=queue, parent="top").queue("top", allow_start_by=parent)
    scenario.gang("first", 1, gpu=1, queue="q").gang("second", 1, gpu=1, queue="q", start_by=NOW + 1000)
    assert scenario.decide().placed() == [placed]


def test_repairs_go_first_and_surplus_last() -> None:
    scenario = one_slot().nodes("m", 1, gpu=3).gang("run", 2, gpu=1, on=["m-0"], queue="q")
    scenario.change("run", started=True)
    scenario.gang("due", 2, min=1, gpu=1, queue="q", start_by=NOW + 1000).gang("other", 1, gpu=1, queue="q")
    result = scenario.decide()
    assert [(each.group, each.cause) for each in result.result.placements] == [
        ("team/run", "replace"),
        ("team/due", "start"),
        ("team/other", "start"),
    ]


def test_start_by_does_not_change_a_strict_fifo() -> None:
    scenario = one_slot(ordering=Ordering.STRICT_FIFO).gang("first", 1, gpu=1, queue="q")
    scenario.gang("second", 1, gpu=1, queue="q", start_by=NOW + 1000)
    assert scenario.decide().placed() == ["first"]


def test_start_by_orders_the_gangs_of_one_user_only() -> None:
    scenario = one_slot(ordering=Ordering.FAIR_USERS, user_label="user")
    scenario.gang("run", 1, gpu=0, on=["n-0"], queue="q", labels={"user": "a"})
    scenario.gang("due", 1, gpu=1, queue="q", labels={"user": "a"}, start_by=NOW + 1000)
    scenario.gang("b1", 1, gpu=1, queue="q", labels={"user": "b"})
    scenario.gang("b2", 1, gpu=1, queue="q", labels={"user": "b"}, start_by=NOW + 1000)
    assert scenario.decide().placed() == ["b2"]


def test_start_by_does_not_change_the_order_of_queues() -> None:
    scenario = one_slot().queue("p", priority=1).gang("first", 1, gpu=1, queue="p")
    scenario.gang("second", 1, gpu=1, queue="q", start_by=NOW + 1000)
    assert scenario.decide().placed() == ["first"]


def test_a_missed_time_is_reported_and_the_gang_waits_on() -> None:
    scenario = one_slot().gang("run", 1, gpu=1, on=["n-0"], queue="q")
    scenario.gang("late", 1, gpu=1, queue="q", start_by=NOW + HOUR)
    before = scenario.decide()
    assert before.result.wake_at == NOW + HOUR
    assert "startBy" not in before.verdict("late").message
    scenario.take(before)
    scenario.now = NOW + HOUR
    after = scenario.decide()
    verdict = after.verdict("late")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message.endswith("; missed startBy 1970-04-26T18:46:40Z")
    assert verdict.evidence[-1] == Evidence(
        "spec.startBy", "1970-04-26T18:46:40Z has passed; the gang still waits"
    )
    assert after.result.wake_at is None
    assert not after.result.evictions
    scenario.take(after).remove("run")
    assert scenario.decide().placed() == ["late"]


def test_a_missed_time_is_reported_for_a_gang_that_could_not_be_tried() -> None:
    scenario = one_slot().gang("late", 1, min=2, gpu=1, queue="q", start_by=NOW)
    verdict = scenario.decide().verdict("late")
    assert verdict.reason is Reason.MEMBERS_MISSING
    assert "missed startBy" in verdict.message


def test_no_missed_time_is_reported_for_a_started_gang() -> None:
    scenario = one_slot().gang("late", 2, min=1, gpu=1, on=["n-0"], queue="q", start_by=NOW)
    decided = scenario.decide()
    assert "startBy" not in decided.verdict("late").message
    assert decided.result.wake_at is None
    scenario.gang("again", 1, gpu=2, queue="q", start_by=NOW, starts_over=True)
    assert "startBy" not in scenario.decide().verdict("again").message


TIMES = st.none() | st.integers(NOW - 2 * HOUR, NOW + 3 * HOUR).map(lambda at: at // 1000 * 1000)


@given(st.lists(st.tuples(st.integers(0, 2), TIMES), min_size=1, max_size=6), st.randoms())
@holds(100)
def test_the_order_is_by_priority_then_near_times_then_age(gangs, random) -> None:  # type: ignore[no-untyped-def]
    scenario = Scenario().nodes("n", 1, gpu=len(gangs)).queue("q", allow_start_by=True)
    scenario.now = NOW
    for index, (priority, start_by) in enumerate(gangs):
        scenario.gang(f"g{index}", 1, gpu=1, queue="q", priority=priority, start_by=start_by)
    near = [at is not None and NOW < at <= NOW + HOUR for _, at in gangs]
    expected = sorted(
        range(len(gangs)), key=lambda each: (-gangs[each][0], not near[each], near[each] and gangs[each][1])
    )
    assert scenario.decide(shuffle=random.randrange(99)).placed() == [f"g{each}" for each in expected]
