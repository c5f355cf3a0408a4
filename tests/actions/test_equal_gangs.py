"""Of many equal gangs a cycle looks at the first. All start that fit, in order, and all have verdicts."""

from collections.abc import Iterator
from typing import Any

import pytest
from phalanx.actions.backlog import equal_gangs, queue_backlog
from phalanx.framework.config import SchedulerConfig
from phalanx.model.queues import Admission, Ordering
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.actions.test_backlog import Looked, settle
from tests.builders import Decided, Scenario


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cycle looks at two equal gangs of a queue with more than four gangs."""
    with monkeypatch.context() as patch:
        patch.setattr(queue_backlog, "LONG_QUEUE_GANGS", 4)
        patch.setattr(equal_gangs, "EQUAL_GANGS_TRIED", 2)
        yield


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


def heap(scenario: Scenario, count: int, *, queue: str = "heap", **fields: Any) -> Scenario:
    """Equal single pods, the first one the oldest."""
    scenario.queue(queue)
    for index in range(count):
        scenario.pod(f"{queue}{index:02}", **{"gpu": 8, "queue": queue, "created": 100 + index, **fields})
    return scenario


def names(count: int, start: int = 0) -> list[str]:
    return [f"heap{index:02}" for index in range(start, start + count)]


def test_a_cycle_looks_at_the_first_ones_and_shows_their_verdict_for_all(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8).foreign("f", "n-0", "n-1", gpu=8), 30)
    settle(scenario)
    looked.reset()
    found = scenario.decide()
    assert looked.gangs["heap"] == 2
    assert set(found.reasons().values()) == {Reason.INSUFFICIENT_CAPACITY}
    assert sorted(found.reasons()) == names(30)
    messages = {found.verdict(name).message for name in names(30)}
    assert len(messages) == 1


def test_all_that_fit_start_in_one_cycle_in_their_order() -> None:
    scenario = heap(Scenario().nodes("n", 11, gpu=8), 30)
    scenario.pod("late", gpu=8, queue="heap", created=500, priority=-1)
    assert sorted(scenario.decide().placed()) == names(11)


def test_those_behind_come_before_gangs_of_lower_rank_and_after_older_ones() -> None:
    scenario = heap(Scenario().nodes("n", 12, gpu=8), 10)
    scenario.pod("first", gpu=7, queue="heap", created=1)
    scenario.pod("between", gpu=7, queue="heap", created=104)
    scenario.pod("low", gpu=1, queue="heap", created=1, priority=-1)
    assert sorted(scenario.decide().placed()) == ["between", "first", *names(10), "low"]
    few = heap(Scenario().nodes("n", 6, gpu=8), 10)
    few.pod("low", gpu=8, queue="heap", created=1, priority=-1)
    assert sorted(few.decide().placed()) == names(6)


@pytest.mark.parametrize("ordering", list(Ordering))
def test_they_count_as_demand_and_as_pending(ordering: Ordering) -> None:
    scenario = Scenario().nodes("n", 4, gpu=8)
    heap(scenario, 20, gpu=1).queue("heap", ordering=ordering)
    heap(scenario, 2, queue="other", gpu=8)
    report = scenario.decide().result.queues["heap"]
    assert report.fair_share[GPU] == 16
    assert report.pending_gangs + report.allocated.get(GPU, 0) == 20


def test_equal_gangs_of_higher_priority_evict_as_many_as_they_need() -> None:
    scenario = Scenario().nodes("n", 8, gpu=8)
    for index in range(8):
        scenario.gang(f"low{index}", 1, gpu=8, queue="heap", on=[f"n-{index}"], priority=-5)
    heap(scenario, 20, priority=9)
    evicted: list[str] = []
    for _ in range(40):
        found = scenario.decide(SchedulerConfig())
        evicted += found.evicted()
        scenario.take(found)
    placed = [name for name in names(20) if scenario.members(name)[0].node is not None]
    assert placed == names(8)
    assert len(evicted) == 8


def test_a_gang_that_leaves_lets_the_next_one_come_to_the_front(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8).foreign("f", "n-0", "n-1", gpu=8), 9)
    settle(scenario)
    for name in names(2):
        scenario.remove(name)
    looked.reset()
    found = scenario.decide()
    assert looked.gangs["heap"] == 2
    assert sorted(found.reasons()) == names(7, start=2)


def test_evidence_names_the_pods_of_each_gang() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).foreign("f", "n-0", "n-1", gpu=8).queue("heap")
    for index in range(8):
        scenario.gang(f"g{index}", 1, gpu=8, queue="heap", created=100 + index)
        scenario.role(f"g{index}", 1, gpu=4, cpu=2)
    found = settle(scenario)[-1]
    for index in range(8):
        subjects = " ".join(each.subject for each in found.verdict(f"g{index}").evidence)
        others = [other for other in range(8) if other != index]
        assert not any(f"team/g{other}-" in subjects for other in others), subjects


def test_all_are_compared_where_the_queue_admits_by_value(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8).foreign("f", "n-0", "n-1", gpu=8), 9)
    scenario.queue("heap", admission=Admission.MOST_VALUE)
    settle(scenario)
    looked.reset()
    scenario.decide()
    assert looked.gangs["heap"] == 9


def test_a_fresh_engine_decides_what_the_engine_decides_that_saw_all_cycles() -> None:
    scenario = heap(Scenario().nodes("n", 3, gpu=8), 12)
    for _ in range(4):
        found = scenario.decide()
        again = Decided(type(scenario._engine)(SchedulerConfig()).decide(scenario.snapshot(1)))
        assert again.result == found.result
        scenario.take(found)
