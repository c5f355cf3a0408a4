"""Refused gangs cost nothing until something changes, work on a crowded queue is bounded, nothing is lost."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions import enqueue
from phalanx.actions.backlog import queue_backlog, selection
from phalanx.actions.explanations.explainer import Explainer
from phalanx.cycle import Engine, decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.queues import Backfill, Ordering
from phalanx.model.reasons import Category, Reason
from phalanx.model.resources import GPU

from tests.builders import Decided, Scenario
from tests.cycle.test_engine_state import EVENTS, apply_event, cluster
from tests.examples import holds

CONFIG = SchedulerConfig()
NEVER = {"gpu": 1, "selector": {"group": "nowhere"}}
"""Fields of a pod that no node may run."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Queues are crowded with five due gangs."""
    with SmallBounds(monkeypatch):
        yield


class SmallBounds:
    """Small bounds while it is entered, also inside of a property."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __enter__(self) -> None:
        self._patch.setattr(queue_backlog, "LONG_QUEUE_GANGS", 4)
        self._patch.setattr(selection, "CROWDED_DUE_GANGS", 4)
        self._patch.setattr(selection, "CROWDED_WORK", 36)
        self._patch.setattr(selection, "CROWDED_WORK_BESIDE_OTHERS", 18)
        self._patch.setattr(selection, "CROWDED_EXPLANATIONS", 2)
        self._patch.setattr(selection, "CROWDED_UNEXPLAINED", 4)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def heap(scenario: Scenario, count: int, *, queue: str = "heap", **fields: Any) -> Scenario:
    """Single pods that can never start, each with other requests."""
    scenario.queue(queue)
    for index in range(count):
        settings = {**NEVER, "cpu": 1 + index / 1000, "queue": queue, "created": index, **fields}
        scenario.pod(f"{queue}{index:03}", **settings)
    return scenario


def settle(scenario: Scenario, *, most: int = 300) -> list[Decided]:
    """Cycles until none is asked for at once."""
    found = []
    for _ in range(most):
        found.append(scenario.decide())
        scenario.take(found[-1])
        is_idle = not found[-1].placed() and not found[-1].evicted()
        if is_idle and found[-1].result.wake_at != scenario.now:
            return found
    raise AssertionError(f"not settled after {most} cycles")


class Looked:
    """Counts what cycles look at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gangs: Counter[str] = Counter()
        self.explained = 0
        demands_of, diagnose = enqueue.demands_of, Explainer._diagnose

        def counted(gang: Gang, *rest: Any) -> Any:
            self.gangs[gang.queue] += 1
            return demands_of(gang, *rest)

        def diagnosed(explainer: Explainer, *rest: Any) -> Any:
            self.explained += 1
            return diagnose(explainer, *rest)

        monkeypatch.setattr(enqueue, "demands_of", counted)
        monkeypatch.setattr(Explainer, "_diagnose", diagnosed)

    def reset(self) -> None:
        self.gangs.clear()
        self.explained = 0


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


# --- work ---------------------------------------------------------------------------------------------------


def test_each_cycle_tries_and_explains_a_bounded_number(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8), 40)
    cycles = []
    while not cycles or cycles[-1].result.wake_at == scenario.now:
        looked.reset()
        cycles.append(scenario.decide())
        scenario.take(cycles[-1])
        assert cycles[-1].result.stats.gangs_tried <= 6
        is_crowded = Reason.NOT_TRIED_YET in cycles[-1].reasons().values()
        assert looked.explained <= (2 if is_crowded else 10)
    assert set(cycles[-1].reasons().values()) == {Reason.NO_ELIGIBLE_NODE}
    assert cycles[0].reasons()["heap039"] is Reason.NOT_TRIED_YET
    assert len(cycles) <= 21


def test_a_heap_costs_nothing_until_something_changes_that_could_help_it(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8).nodes("m", gpu=8), 40).gang(
        "run", 8, gpu=1, on=["m-0"] * 8
    )
    settle(scenario)
    looked.reset()
    same = scenario.decide()
    assert (looked.gangs["heap"], len(same.reasons())) == (0, 40)
    scenario.remove("run")
    freed = scenario.decide()
    assert (looked.gangs["heap"], freed.result.stats.gangs_tried) == (0, 0)
    scenario.nodes("new", gpu=8)
    scenario.take(scenario.decide())
    assert looked.gangs["heap"] > 0


def test_pods_that_are_larger_than_every_node_wait_for_a_larger_node(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8), 40, gpu=9, selector={})
    cycles = settle(scenario)
    found = cycles[-1].verdict("heap007")
    assert found.message == "a pod requests 9 nvidia.com/gpu, but the largest node has 8 nvidia.com/gpu"
    assert found.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert looked.explained == 0
    looked.reset()
    settle(scenario.nodes("new", gpu=8))
    assert looked.gangs["heap"] == 0, "a node of the same size does not help"
    settle(scenario.nodes("large", gpu=9))
    assert scenario.members("heap000")[0].node == "large-0"


def test_objections_hold_until_something_changes(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 2, gpu=8), 20, gated=True, selector={})
    assert {*settle(scenario)[-1].reasons().values()} == {Reason.SCHEDULING_GATED}
    looked.reset()
    scenario.decide()
    assert looked.gangs["heap"] == 0
    (pod,) = scenario.members("heap005")
    scenario.change("heap005", members=(msgspec.structs.replace(pod, gated=False),))
    assert scenario.decide().placed() == ["heap005"]


def test_a_burst_that_fits_is_placed_in_one_cycle() -> None:
    scenario = heap(Scenario().nodes("n", 5, gpu=8), 40, selector={})
    assert len(scenario.decide().placed()) == 40


# --- fairness -----------------------------------------------------------------------------------------------


def test_a_quiet_queue_is_explained_at_once_beside_heaps(looked: Looked) -> None:
    scenario = Scenario().nodes("n", 2, gpu=8).queue("quiet")
    for number in range(3):
        heap(scenario, 30, queue=f"heap{number}")
    scenario.gang("mine", 17, gpu=1, queue="quiet", created=99).gang("fits", 2, gpu=1, queue="quiet")
    first = scenario.decide()
    assert first.placed() == ["fits"]
    assert first.verdict("mine").reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert first.result.stats.gangs_tried <= 2 + 3 * 2
    assert looked.explained <= 1 + 3 * 1


def test_gangs_that_fit_behind_a_heap_get_their_turn() -> None:
    """The heap is older and of higher priority; it is tried in order, and others in turn."""
    scenario = heap(Scenario().nodes("n", 2, gpu=8), 40, priority=5)
    scenario.pod("small", gpu=1, queue="heap", created=99)
    cycles = settle(scenario)
    when = next(number for number, cycle in enumerate(cycles) if "small" in cycle.placed())
    assert when < len(cycles) - 1


def test_changes_in_each_cycle_do_not_keep_later_gangs_from_being_tried() -> None:
    """All refused gangs of the queue are tried again after each change; those in turn are tried too."""
    scenario = heap(Scenario().nodes("n", 1, gpu=8), 30, priority=1)
    settle(scenario)
    scenario.pod("small", gpu=1, queue="heap", created=99)
    for number in range(40):
        decided = scenario.nodes("m", 1, gpu=1, labels={"changed": str(number)}).decide()
        if "small" in decided.placed():
            return
        scenario.take(decided)
    raise AssertionError("never tried")


# --- the same decisions -------------------------------------------------------------------------------------


@holds(15)
@given(
    cycles=st.lists(st.lists(st.sampled_from(EVENTS), max_size=12), min_size=2, max_size=8),
    dice=st.randoms(use_true_random=False),
)
def test_a_decision_does_not_depend_on_earlier_cycles(cycles: list[list[str]], dice: random.Random) -> None:
    with pytest.MonkeyPatch.context() as patch, SmallBounds(patch):
        scenario, engine, number = cluster(None), Engine(CONFIG), 0
        for events in cycles:
            for what in events:
                number += 1
                apply_event(scenario, what, dice, number)
            scenario.now += 1000
            scenario.capacity_version += dice.random() < 0.5
            snapshot = scenario.snapshot()
            found = engine.decide(snapshot)
            assert msgspec.json.encode(found) == msgspec.json.encode(decide(snapshot, CONFIG))
            scenario.take(Decided(found))


QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "strict": {"ordering": Ordering.STRICT_FIFO},
    "users": {"ordering": Ordering.FAIR_USERS, "user_label": "user"},
    "backfill": {"backfill": Backfill.EASY},
    "limited": {"limit": {GPU: 6}},
}

works = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 5, 9]), st.integers(0, 1), st.sampled_from("ab")),
    min_size=3,
    max_size=14,
)


@holds(40)
@given(queue=st.sampled_from(sorted(QUEUES)), gangs=works)
def test_no_gang_that_fits_is_left(queue: str, gangs: list[tuple[int, int, int, str]]) -> None:
    """The oracle looks at all gangs at once, and knows nothing of earlier cycles."""
    scenario = Scenario("rack").nodes("n", 2, gpu=4, within="r").queue("q", **QUEUES[queue]).queue("b")
    for index, (count, gpu, priority, user) in enumerate(gangs):
        fields = {"gpu": gpu, "priority": priority, "labels": {"user": user}, "created": index}
        scenario.gang(f"g{index}", count, queue="q" if index % 4 else "b", **fields)
    with pytest.MonkeyPatch.context() as patch, SmallBounds(patch):
        settled = settle(scenario)[-1]
    scenario.memory = Memory()
    rest = scenario.decide(SchedulerConfig(seed=1))
    assert rest.placed() == []
    assert settled.reasons().keys() == rest.reasons().keys()
    assert Reason.NOT_TRIED_YET not in settled.reasons().values()


@holds(10)
@given(gangs=works, dice=st.randoms(use_true_random=False))
def test_a_crowded_strict_queue_starts_gangs_in_order(
    gangs: list[tuple[int, int, int, str]], dice: random.Random
) -> None:
    """Before a gang starts, all older ones have started or are known to be impossible."""
    scenario = Scenario("rack").nodes("n", 2, gpu=4, within="r").queue("q", ordering=Ordering.STRICT_FIFO)
    for index, (count, gpu, priority, _) in enumerate(gangs):
        scenario.gang(f"g{index:02}", count, queue="q", gpu=gpu, priority=priority, created=index)
    waiting = scenario.gang_names
    with pytest.MonkeyPatch.context() as patch, SmallBounds(patch):
        patch.setattr(selection, "CROWDED_WORK_BESIDE_OTHERS", 9)
        patch.setattr(selection, "CROWDED_WORK", 9)
        for _ in range(30):
            decided = scenario.decide(SchedulerConfig(actions=()))
            placed = [name for name in decided.placed() if name in waiting]
            reasons = decided.reasons()
            waiting = [name for name in waiting if name not in placed]
            for name in placed:
                older = [reasons[other] for other in waiting if other < name]
                assert all(reason.category is Category.IMPOSSIBLE for reason in older)
            scenario.take(decided)
            running = [name for name in scenario.gang_names if name not in waiting]
            if running and dice.random() < 0.4:
                scenario.remove(dice.choice(running))
            if dice.random() < 0.3:
                scenario.nodes("m", gpu=dice.choice([1, 5, 9]))


# --- reports ------------------------------------------------------------------------------------------------


def test_reports_and_verdicts_include_gangs_that_were_set_aside() -> None:
    scenario = heap(Scenario().nodes("n", 1, gpu=8).queue("top"), 20)
    scenario.queue("heap", parent="top").gang("two", 2, queue="heap", **NEVER)
    first = scenario.decide().result
    settled = settle(scenario)[-1].result
    for result in (first, settled):
        report = result.queues["top"]
        assert (report.pending_gangs, report.pending_pods) == (21, 22)
        assert len(result.verdicts) == 21


def test_verdicts_are_in_the_order_of_the_queue() -> None:
    """Positions in the queue follow from this order."""
    scenario = Scenario().nodes("n", 1, gpu=8).queue("heap")
    scenario.gang("run", 8, gpu=1, bound=8, disruption=Disruption(preemptible=False))
    for index in range(20):
        scenario.pod(
            f"p{index:02}", gpu=1, cpu=1 + index / 100, queue="heap", created=index, priority=index // 10
        )
    expected = [f"gang-p{index:02}" for index in (*range(10, 20), *range(10))]
    for cycle in (scenario.decide(), settle(scenario)[-1], scenario.decide()):
        assert [verdict.gang for verdict in cycle.result.verdicts] == expected


def test_a_missed_deadline_is_reported_for_gangs_that_were_set_aside() -> None:
    scenario = heap(Scenario().nodes("n", 1, gpu=8), 20, start_by=1_060_000)
    settled = settle(scenario)[-1]
    assert settled.result.wake_at == 1_060_000
    assert "missed" not in settled.verdict("heap009").message
    scenario.now = 1_060_000
    assert "missed startBy" in scenario.decide().verdict("heap009").message


def test_a_queue_that_is_not_crowded_any_more_keeps_its_refusals(looked: Looked) -> None:
    scenario = heap(Scenario().nodes("n", 1, gpu=8), 8)
    settle(scenario)
    for index in range(5):
        scenario.remove(f"heap{index:03}")
    looked.reset()
    decided = scenario.decide()
    assert (decided.result.stats.gangs_tried, looked.explained) == (0, 0)
    assert len(decided.result.memory.refused_starts["heap"]) == 3


CHANGES: dict[str, Callable[[Scenario], object]] = {
    "members": lambda scenario: scenario.role("heap003", 1, gpu=1),
    "queue": lambda scenario: scenario.queue("heap", weight=3),
    "node": lambda scenario: scenario.nodes("m", gpu=1),
    "namespace": lambda scenario: scenario.namespace("team", tier="x"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_that_could_help_cause_a_retry(change: str) -> None:
    scenario = heap(Scenario().nodes("n", 1, gpu=8), 10)
    settle(scenario)
    CHANGES[change](scenario)
    assert scenario.decide().result.stats.gangs_tried > 0
