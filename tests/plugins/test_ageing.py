"""Ageing: waiting time raises the rank of a gang in its queue up to a priority, and changes nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.registry import load_plugins
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import RoleSpec
from phalanx.model.memory import Memory, Nomination
from phalanx.model.names import GangId, NodeName
from phalanx.model.queues import Backfill, Ordering
from phalanx.model.reasons import Reason
from phalanx.model.records import GangRecord
from phalanx.model.resources import GPU

from tests.actions.timeline import BEGIN, MINUTE, Timeline, Work
from tests.builders import Scenario
from tests.examples import holds

MINUTE_S = 60
NOW_S = 1_000_000
UP_TO = 10


def ageing(up_to: int = UP_TO, step: int = 1, *, evicts: bool = True, **arguments: Any) -> SchedulerConfig:
    """A configuration with ageing of one step a minute."""
    settings = {"everySeconds": MINUTE_S, "step": step, "upTo": up_to, **arguments}
    plugins = (PluginConfig(name="priority", arguments={"ageing": settings}),)
    return SchedulerConfig(plugins=plugins) if evicts else SchedulerConfig(plugins=plugins, actions=())


def waits(scenario: Scenario, name: str, minutes: int, **fields: Any) -> Scenario:
    """A gang whose pods have waited for this time."""
    scenario.now = NOW_S * 1000
    scenario.gang(name, fields.pop("count", 1), **{"gpu": 1, **fields})
    return created_at(scenario, name, NOW_S - minutes * MINUTE_S)


def created_at(scenario: Scenario, name: str, second: int) -> Scenario:
    members = [replace(pod, created=second) if pod.is_waiting else pod for pod in scenario.members(name)]
    return scenario.change(name, members=tuple(members))


def slots(count: int = 1) -> Scenario:
    return Scenario().nodes("n", 1, gpu=count, cpu=1000)


@pytest.mark.parametrize(
    ("old", "new", "placed"),
    [
        ((0, 4), (5, 0), "new"),
        ((0, 5), (5, 0), "old"),  # equal now, and older
        ((0, 6), (5, 0), "old"),
        ((0, 6), (5, 2), "new"),  # both age
        ((0, 999), (UP_TO, 0), "old"),
        ((0, 999), (UP_TO + 1, 0), "new"),
        ((UP_TO + 1, 999), (UP_TO + 2, 0), "new"),  # no gang ages above the bound
        ((-(2**31), 999), (0, 0), "new"),  # not aged enough
    ],
)
def test_the_gang_of_higher_aged_priority_goes_first(
    old: tuple[int, int], new: tuple[int, int], placed: str
) -> None:
    scenario = waits(slots(), "old", old[1], priority=old[0])
    waits(scenario, "new", new[1], priority=new[0])
    assert scenario.decide(ageing(evicts=False)).placed() == [placed]


def test_no_gang_ages_without_the_argument() -> None:
    scenario = waits(waits(slots(), "old", 999), "new", 0, priority=1)
    assert scenario.decide().placed() == ["new"]


def test_pods_without_a_creation_time_do_not_age() -> None:
    scenario = waits(slots(), "new", 0, priority=1).gang("old", 1, gpu=1, created=0)
    assert scenario.decide(ageing(evicts=False)).placed() == ["new"]


def test_an_aged_gang_does_not_use_capacity_of_reserved_members() -> None:
    roles = (RoleSpec("worker", 2, 2, shape_of_requests({GPU: 1})),)
    scenario = slots(2)
    scenario.now = NOW_S * 1000
    scenario.gang("young", 1, min=2, gpu=1, role="worker", roles=roles, reserves=True, priority=1)
    scenario.take(scenario.decide(ageing()))
    waits(scenario, "old", 999)
    assert scenario.decide(ageing(evicts=False)).placed() == []


def test_ageing_does_not_change_a_strict_fifo() -> None:
    scenario = waits(slots().queue("q", ordering=Ordering.STRICT_FIFO), "first", 2, queue="q")
    waits(scenario, "second", 1, priority=3, queue="q")
    assert scenario.decide(ageing(evicts=False)).placed() == ["first"]


def test_surplus_does_not_age() -> None:
    scenario = waits(slots(2), "run", 999, count=2, min=1, on=["n-0"])
    waits(scenario, "new", 0, priority=1)
    assert scenario.decide(ageing(evicts=False)).placed() == ["new"]


def test_an_aged_gang_does_not_pass_a_repair() -> None:
    """Not even one of lower priority: otherwise its running members would wait with their devices."""
    scenario = waits(slots(2), "run", 0, count=2, on=["n-0"], started=True)
    waits(scenario, "old", 999, priority=2)
    assert scenario.decide(ageing(evicts=False)).placed() == ["run"]


def test_an_aged_gang_does_not_use_the_nomination_of_another_one() -> None:
    scenario = waits(slots(), "old", 999)
    waits(scenario, "urgent", 0, priority=5)
    usage = {NodeName("n-0"): {GPU: 1, "cpu": 1000}}
    nomination = Nomination(usage=usage, victims=(), until=NOW_S * 1000 + 1, attempts=1)
    scenario.memory = Memory(nominations={GangId("gang-urgent"): nomination})
    assert scenario.decide(ageing()).placed() == ["urgent"]


def test_a_gang_that_started_by_age_may_be_evicted_and_starts_to_age_again() -> None:
    """It is evicted once in the time that it takes to age, not in each cycle."""
    scenario = waits(slots(), "old", 999)
    waits(scenario, "urgent", 0, priority=5)
    evicted = []
    for minute in range(12):
        scenario.now = (NOW_S + minute * MINUTE_S) * 1000
        before = {pod.uid for pod in scenario.members("old")}
        decided = scenario.decide(ageing())
        evicted += [minute] * len(decided.evicted())
        scenario.take(decided)
        if {pod.uid for pod in scenario.members("old")} != before:
            created_at(scenario, "old", NOW_S + minute * MINUTE_S)
    assert evicted == [1]
    assert [pod.node for pod in scenario.members("urgent")] == ["n-0"]


def test_a_reservation_blocks_a_gang_until_it_has_aged_above_it() -> None:
    """The cycle requests to be woken at the next ageing step."""
    timeline = Timeline(2, 8, Backfill.EASY)
    timeline.add(Work("run", 1, 8, arrives=-10, max=600, runs=600, on=("n-0",)))
    timeline.add(Work("big", 2, 8, priority=1), Work("old", 1, 8))
    timeline.step()
    scenario = timeline.scenario
    scenario.memory = replace(scenario.memory, records={})
    scenario.change("big", record=GangRecord(BEGIN // 1000))
    scenario.change("old", record=GangRecord(BEGIN // 1000 - 3 * MINUTE_S // 2))
    first = scenario.decide(ageing(evicts=False))
    assert first.verdict("old").reason is Reason.WOULD_DELAY_RESERVATION  # of equal rank by now
    assert first.result.wake_at == BEGIN + MINUTE // 2
    scenario.take(first).now = BEGIN + MINUTE // 2
    assert scenario.decide(ageing(evicts=False)).placed() == ["old"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"everySeconds": 0}, "ageing.everySeconds"),
        ({"step": 0}, "ageing.step"),
        ({"upTo": "high"}, "ageing.upTo"),
        ({"upTo": 10**10}, "ageing.upTo"),
        ({"most": 3}, "most"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_plugins(ageing(**arguments))


Gangs = Sequence[tuple[int, int]]
GANGS = st.lists(st.tuples(st.integers(-3, 8), st.integers(0, 12)), min_size=1, max_size=6)


@given(GANGS, st.integers(1, 3), st.integers(-2, 6), st.integers(0, 99))
@holds(100)
def test_the_order_is_total_and_by_aged_priority(gangs: Gangs, step: int, up_to: int, shuffle: int) -> None:
    scenario = slots(len(gangs))
    for index, (priority, minutes) in enumerate(gangs):
        waits(scenario, f"g{index}", minutes, priority=priority)
    served = [max(priority, min(up_to, priority + step * minutes)) for priority, minutes in gangs]
    expected = sorted(range(len(gangs)), key=lambda each: (-served[each], -gangs[each][1], each))
    decided = scenario.decide(ageing(up_to, step), shuffle=shuffle)
    assert decided.placed() == [f"g{each}" for each in expected]


@given(GANGS, GANGS)
@holds(70)
def test_ageing_does_not_change_which_gangs_may_be_evicted(running: Gangs, waiting: Gangs) -> None:
    scenario = slots(len(running))
    priorities = {}
    for kind, gangs in (("r", running), ("w", waiting)):
        for index, (priority, minutes) in enumerate(gangs):
            on = ["n-0"] if kind == "r" else []
            waits(scenario, f"{kind}{index}", minutes, priority=priority, on=on)
            priorities[f"team/{kind}{index}"] = priority
    for each in scenario.decide(ageing()).result.evictions:
        assert priorities[f"team/{each.gang.removeprefix('gang-')}"] < priorities[each.beneficiary]


@holds(15)
@given(st.integers(0, 5), st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=8))
def test_ageing_prevents_starvation_by_a_stream_of_higher_priority(low: int, stream: list[list[int]]) -> None:
    """One slot becomes free each minute and at least one new gang arrives each minute: not all can start.

    The waiting gang starts at the latest when it has aged to the bound and all gangs before it have started.
    """
    scenario = Scenario().nodes("n", 1, gpu=1)
    waits(scenario, "low", 0, priority=low)
    for minute in range(5 - low + 1):
        scenario.now = (NOW_S + minute * MINUTE_S) * 1000
        for index, priority in enumerate(stream[minute % len(stream)]):
            name = f"s{minute}-{index}"
            scenario.gang(name, 1, gpu=1, priority=priority, created=NOW_S + minute * MINUTE_S)
            created_at(scenario, name, NOW_S + minute * MINUTE_S)
        decided = scenario.decide(ageing(5, evicts=False))
        (placed,) = decided.placed()
        if placed == "low":
            return
        scenario.take(decided).remove(placed)
    raise AssertionError("it still waits")


def test_a_gang_may_evict_although_an_aged_gang_of_its_rank_may_not() -> None:
    """Both need the same capacity; only the original priority counts for preemption."""
    scenario = slots().gang("runs", 1, gpu=1, on=["n-0"], priority=3)
    waits(scenario, "old", 60, priority=1)
    waits(scenario, "important", 0, priority=UP_TO)
    assert scenario.decide(ageing()).evicted() == ["runs-0"]
