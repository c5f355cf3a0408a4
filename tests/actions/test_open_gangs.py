"""Of very many different gangs that wait for capacity a cycle looks at some. All that fit start."""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.backlog import open_gangs, selection
from phalanx.actions.backlog.free_capacity import FreeCapacity, need_of
from phalanx.framework.config import SchedulerConfig
from phalanx.model.queues import Ordering
from phalanx.model.reasons import Reason
from phalanx.model.resources import GPU

from tests.actions.test_backlog import Looked, settle
from tests.builders import Scenario
from tests.examples import holds

NO_EVICTIONS = SchedulerConfig(actions=())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of more than eight gangs a cycle looks at the first two and at three others."""
    with monkeypatch.context() as patch:
        patch.setattr(selection, "OPEN_GANGS_MAX", 8)
        patch.setattr(selection, "RESTING_TRIED", 3)
        patch.setattr(open_gangs, "OPEN_GANGS_TRIED", 2)
        yield


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


def heap(scenario: Scenario, count: int, **fields: Any) -> Scenario:
    """Single pods of different requests, the first one the oldest."""
    scenario.queue("heap")
    for index in range(count):
        settings = {"gpu": 8, "cpu": 1 + index / 1000, "queue": "heap", "created": 100 + index, **fields}
        scenario.pod(f"heap{index:02}", **settings)
    return scenario


def full(count: int = 2) -> Scenario:
    """Nodes of eight GPUs; gangs run0 and so on of the same queue hold one each, and are not evicted."""
    scenario = Scenario().nodes("n", count, gpu=8)
    for index in range(count):
        hold(scenario, f"run{index}", f"n-{index}", gpu=8)
    return scenario


def hold(scenario: Scenario, name: str, node: str, *, gpu: int) -> Scenario:
    """A running gang that no other one evicts."""
    return scenario.gang(name, 1, gpu=gpu, queue="heap", on=[node], priority=9)


def free(scenario: Scenario, *nodes: int, gpu: int = 8) -> None:
    """The gangs on these nodes end; others take what they leave of eight GPUs."""
    for index in nodes:
        scenario.remove(f"run{index}")
        if gpu < 8:
            hold(scenario, f"rest{index}", f"n-{index}", gpu=8 - gpu)
    scenario.capacity_version += 1


def names(*numbers: int) -> list[str]:
    return [f"heap{number:02}" for number in numbers]


def test_a_cycle_looks_at_the_first_ones_and_at_others_in_turn(looked: Looked) -> None:
    scenario = heap(full(), 30)
    settle(scenario)
    looked.reset()
    found = scenario.decide()
    assert looked.gangs["heap"] == 2 + 3
    assert set(found.reasons().values()) == {Reason.INSUFFICIENT_CAPACITY}
    assert sorted(found.reasons()) == names(*range(30))


def test_every_one_has_its_turn() -> None:
    scenario = heap(full(), 30)
    settle(scenario)
    seen = set()
    for _ in range(10):
        before = scenario.memory.resting_turns
        scenario.take(scenario.decide())
        assert scenario.memory.resting_turns != before
        seen.add(scenario.memory.resting_turns["heap"])
    assert len(seen) == 10


def test_capacity_goes_to_the_first_one() -> None:
    scenario = heap(full(), 30)
    settle(scenario)
    free(scenario, 0)
    assert scenario.decide().placed() == names(0)


def test_a_small_one_starts_before_large_ones_that_do_not_fit(looked: Looked) -> None:
    scenario = heap(full(), 30)
    scenario.pod("small", gpu=2, queue="heap", created=500)
    settle(scenario)
    free(scenario, 0, gpu=3)
    looked.reset()
    assert scenario.decide().placed() == ["small"]
    assert looked.gangs["heap"] <= 2 + 3 + 1


def test_a_refusal_for_which_too_little_is_free_is_kept_and_found_again_one_by_one(looked: Looked) -> None:
    scenario = heap(full(), 30)
    settle(scenario)
    free(scenario, 0, gpu=3)
    looked.reset()
    found = scenario.decide()
    assert found.result.stats.gangs_tried == 1
    assert looked.explained == 1
    assert Reason.NOT_TRIED_YET not in found.reasons().values()
    scenario.take(found)
    assert found.result.wake_at == scenario.now
    assert scenario.decide().result.stats.gangs_tried == 1


def test_they_count_as_demand_and_as_pending() -> None:
    scenario = heap(Scenario().nodes("n", 6, gpu=8).queue("other"), 40, gpu=1)
    for index in range(6):
        scenario.gang(f"run{index}", 1, gpu=8, queue="other", on=[f"n-{index}"])
    found = scenario.decide(NO_EVICTIONS)
    while found.result.wake_at == scenario.now:
        scenario.take(found)
        found = scenario.decide(NO_EVICTIONS)
    report = found.result.queues["heap"]
    assert report.fair_share[GPU] == 24
    assert (report.pending_gangs, report.pending_pods) == (40, 40)


def test_all_are_looked_at_where_users_take_turns(looked: Looked) -> None:
    scenario = heap(full(), 30).queue("heap", ordering=Ordering.FAIR_USERS)
    settle(scenario)
    looked.reset()
    scenario.decide()
    assert looked.gangs["heap"] == 30


def test_a_strict_queue_starts_one_after_the_other(looked: Looked) -> None:
    scenario = heap(full(6), 30, gpu=4).queue("heap", ordering=Ordering.STRICT_FIFO)
    settle(scenario)
    looked.reset()
    scenario.take(scenario.decide())
    assert looked.gangs["heap"] == 2
    free(scenario, 0, 1, 2)
    placed: list[str] = []
    for found in settle(scenario):
        placed += found.placed()
    assert placed == names(*range(6))


def test_one_that_rests_evicts_in_its_turn() -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).nodes("m", 1, gpu=4)
    for node in ("n-0", "n-1"):
        hold(scenario, f"top-{node}", node, gpu=8)
    heap(scenario, 30)
    scenario.pod("small", gpu=4, queue="heap", created=500)
    scenario.gang("low", 1, gpu=4, queue="heap", on=["m-0"], priority=-5)
    evicted: list[str] = []
    for _ in range(60):
        found = scenario.decide(SchedulerConfig())
        evicted += found.evicted()
        scenario.take(found)
        scenario.now += 1000
    assert evicted == ["low-0"]
    assert scenario.members("small")[0].node == "m-0"


def test_the_verdict_of_one_that_rests_says_when_its_deadline_has_passed() -> None:
    scenario = heap(full(), 30)
    scenario.gang("late", 1, gpu=8, queue="heap", created=900, start_by=scenario.now + 60_000)
    found = settle(scenario)[-1]
    assert "missed startBy" not in found.verdict("late").message
    assert (found.result.wake_at or 0) - scenario.now in range(1, 60_000)
    scenario.now += 61_000
    assert "missed startBy" in scenario.decide().verdict("late").message


# --- free capacity ------------------------------------------------------------------------------------------

AMOUNTS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(
    free=st.lists(AMOUNTS, min_size=1, max_size=3),
    pods=st.lists(AMOUNTS, min_size=1, max_size=3),
    data=st.data(),
)
@holds(60)
def test_free_capacity_excludes_no_gang_that_fits(
    free: list[tuple[int, int]], pods: list[tuple[int, int]], data: st.DataObject
) -> None:
    least = data.draw(st.integers(1, len(pods)))
    scenario = Scenario()
    for index, (gpu, cpu) in enumerate(free):
        scenario.nodes(f"n{index}", gpu=gpu, cpu=cpu)
    first, *others = pods
    scenario.gang("g", 1, min=least, gpu=first[0], cpu=first[1])
    for gpu, cpu in others:
        scenario.role("g", 1, gpu=gpu, cpu=cpu)
    snapshot = scenario.snapshot()
    (gang,) = snapshot.gangs.values()
    need = need_of(gang)
    assert need is not None
    if any(_fit(some, free) for some in combinations(pods, least)):
        assert FreeCapacity(snapshot.nodes).may_take(need)


def _fit(pods: tuple[tuple[int, int], ...], free: list[tuple[int, int]]) -> bool:
    """Whether some assignment of these pods to nodes exceeds no node."""
    for nodes in product(range(len(free)), repeat=len(pods)):
        left = [list(amounts) for amounts in free]
        for (gpu, cpu), node in zip(pods, nodes, strict=True):
            left[node][0] -= gpu
            left[node][1] -= cpu
        if all(amount >= 0 for amounts in left for amount in amounts):
            return True
    return False


def test_free_capacity_excludes_what_exceeds_the_nodes_that_have_the_device() -> None:
    scenario = Scenario().nodes("gpu", gpu=8, cpu=2).nodes("cpu", 3, gpu=0, cpu=64)
    for name, fields in {"cores": {"gpu": 8, "cpu": 3}, "fits": {"gpu": 8, "cpu": 2}}.items():
        scenario.gang(name, 1, **fields)
    scenario.gang("two", 2, gpu=8, cpu=1)
    gangs = {gang.name: need_of(gang) for gang in scenario.snapshot().gangs.values()}
    capacity = FreeCapacity(scenario.snapshot().nodes)
    assert [name for name, need in gangs.items() if need and capacity.may_take(need)] == ["fits"]
