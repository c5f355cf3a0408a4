"""Preemption and reclaim with reserved starts: a reservation blocks only gangs that come after it."""

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.queues import Backfill
from phalanx.model.resources import GPU

from tests.actions.timeline import Timeline, Work

EASY = Backfill.EASY


def reserved_starts() -> Timeline:
    """One node is used for an hour at most; a waiting gang of the queue has a reserved start after it."""
    timeline = Timeline(1, 8, EASY, SchedulerConfig())
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",)), Work("next", 1, 8, max=60))
    assert timeline.step().result.memory.reserved_starts
    return timeline


def test_a_guarantee_is_reclaimed_despite_a_reservation_beyond_a_guarantee() -> None:
    """Otherwise a borrower with a backlog would always reserve what its last gang used."""
    timeline = reserved_starts()
    timeline.scenario.queue("b", guarantee={GPU: 8})
    assert timeline.add(Work("due", 1, 8, queue="b")).step().evicted() == ["run-0"]
    timeline.scenario.capacity_version += 1
    assert timeline.step().placed() == ["due"]


def test_a_nomination_within_a_guarantee_is_used_though_the_guarantee_is_used_up_meanwhile() -> None:
    scenario = reserved_starts().scenario.queue("b", guarantee={GPU: 8}).nodes("m", 1, gpu=4)
    first = scenario.gang("due", 1, gpu=8, cpu=0, memory=0, queue="b").decide()
    assert first.evicted() == ["run-0"]
    scenario.terminate(first).gang("sibling", 1, gpu=4, cpu=0, memory=0, queue="b")
    second = scenario.decide()
    assert second.placed() == ["sibling"]
    assert scenario.take(second).remove("run").decide().placed() == ["due"]


def test_no_gang_is_evicted_for_a_guarantee_where_ending_pods_free_enough_capacity() -> None:
    """A gang beyond its guarantee has reserved the capacity, but the guarantee goes first."""
    timeline = Timeline(2, 8, EASY, SchedulerConfig())
    timeline.scenario.queue("c", weight=100)
    others = Work("other", 1, 8, arrives=-10, max=600, on=("n-1",), queue="c")
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",)), others).step()
    timeline.add(Work("next", 1, 8)).step()
    scenario = timeline.scenario.queue("b", guarantee={GPU: 8})
    assert scenario.memory.reserved_starts
    (ends,) = scenario.members("run")
    scenario.change("run", members=(replace(ends, deleting=True, ended=scenario.now // 1000, grace=30),))
    scenario.gang("due", 1, gpu=8, cpu=0, memory=0, queue="b")
    assert scenario.decide().evicted() == []


def test_free_capacity_without_a_reservation_is_used_first() -> None:
    timeline = Timeline(2, 8, EASY)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",))).step()
    scenario = timeline.scenario.queue("b", guarantee={GPU: 8}).nodes("z", 1, gpu=8)
    scenario.gang("next", 2, gpu=8, cpu=0, memory=0, queue="q", selector={"group": "n"})
    first = scenario.decide()
    assert first.result.memory.reserved_starts
    scenario.take(first).gang("due", 1, gpu=8, cpu=0, memory=0, queue="b")
    assert scenario.decide().where("due") == {"z": 1}


@pytest.mark.parametrize(("guarantee", "placed"), [(0, ["due"]), (16, [])])
def test_a_reserved_start_within_a_guarantee_is_kept(guarantee: int, placed: list[str]) -> None:
    timeline = Timeline(3, 8, None)
    timeline.scenario.queue("q", backfill=EASY, guarantee={GPU: guarantee} if guarantee else {})
    timeline.scenario.queue("b", guarantee={GPU: 8}).queue("c")
    timeline.add(
        Work("run", 1, 8, arrives=-10, max=60, on=("n-0",), queue="c"),
        Work("long", 1, 8, arrives=-10, max=600, on=("n-1",), queue="c"),
        Work("next", 2, 8, queue="q"),
    ).step()
    assert timeline.add(Work("due", 1, 8, queue="b")).step().placed() == placed


@pytest.mark.parametrize("queue", ["q", "p"])
def test_a_reservation_of_lower_priority_does_not_block_preemption(queue: str) -> None:
    timeline = reserved_starts()
    timeline.scenario.queue("p", backfill=EASY)
    timeline.add(Work("late", 1, 8, queue=queue, arrives=1), Work("high", 1, 8, priority=5, arrives=2))
    timeline.minute = 2
    assert timeline.step().evicted() == ["run-0"]


SMALL = 1
"""GPUs of each gang that runs in a."""


@pytest.mark.parametrize(
    ("top", "b", "runs", "asked", "evicted", "starts"),
    [
        pytest.param(None, 1, 1, 1, 1, True, id="the guarantee of b is that of top: a gives its place"),
        pytest.param(1, 1, 1, 1, 1, True, id="the same, written"),
        pytest.param(3, 1, 1, 1, 0, True, id="top is within its guarantee with both"),
        pytest.param(0, 1, 1, 1, 0, False, id="top has no right to what is reserved"),
        pytest.param(None, 0, 1, 1, 0, False, id="b has no guarantee"),
        pytest.param(None, 1, 3, 1, 1, True, id="no more is evicted than the gang takes"),
        pytest.param(None, 2, 1, 2, 1, True, id="what top may use beside it is not evicted"),
        pytest.param(None, 2, 3, 2, 2, True, id="one is enough for the nodes only"),
        pytest.param(None, 2, 2, 3, 0, False, id="beyond the guarantee of b"),
    ],
)
def test_a_gang_within_a_guarantee_takes_the_place_of_its_siblings_despite_a_reservation(
    top: int | None, b: int, runs: int, asked: int, evicted: int, *, starts: bool
) -> None:
    """The queues below top never hold more than they are guaranteed, or than they held before."""
    timeline = Timeline(1, 4, None, SchedulerConfig())
    scenario = timeline.scenario.queue("top", guarantee={} if top is None else {GPU: top})
    scenario.queue("a", parent="top").queue("b", parent="top", guarantee={GPU: b} if b else {})
    scenario.queue("c", backfill=EASY)
    for index in range(runs):
        timeline.add(Work(f"run{index}", 1, SMALL, arrives=-10, max=600, on=("n-0",), queue="a"))
    timeline.add(Work("next", 1, 4, queue="c", max=60))
    assert timeline.step().evicted() == []
    assert scenario.memory.reserved_starts
    first = timeline.add(Work("due", 1, asked, queue="b")).step()
    assert len(first.evicted()) == evicted
    scenario.capacity_version += 1
    assert ("due" in first.placed() or "due" in timeline.step().placed()) == starts


@pytest.mark.parametrize(("is_preemptible", "evicted"), [(True, 1), (False, 0)])
def test_what_a_guarantee_covers_first_does_not_delay_a_reservation_twice(
    is_preemptible: bool, evicted: int
) -> None:
    """Top is guaranteed 2 GPUs. A gang of a that is not preemptible uses both first."""
    timeline = Timeline(1, 4, None, SchedulerConfig())
    scenario = timeline.scenario.queue("top", guarantee={GPU: 2}).queue("a", parent="top")
    scenario.queue("b", parent="top", guarantee={GPU: 1}).queue("c", backfill=EASY)
    timeline.add(
        Work("first", 1, 2, arrives=-20, max=600, on=("n-0",), queue="a"),
        Work("second", 1, 1, arrives=-10, max=600, on=("n-0",), queue="a"),
        Work("next", 1, 4, queue="c", max=60),
    )
    timeline.step()
    scenario.change("first", disruption=Disruption(preemptible=is_preemptible))
    assert scenario.memory.reserved_starts
    assert len(timeline.add(Work("due", 1, 1, queue="b")).step().evicted()) == evicted


@pytest.mark.parametrize(("guarantee", "evicted"), [(0, []), (1, ["low-0"])])
def test_a_gang_takes_the_place_of_one_of_lower_priority_despite_a_reservation(
    guarantee: int, evicted: list[str]
) -> None:
    timeline = Timeline(1, 4, None, SchedulerConfig())
    scenario = timeline.scenario.queue("b", guarantee={GPU: guarantee} if guarantee else {})
    scenario.queue("c", backfill=EASY)
    timeline.add(
        Work("low", 1, 1, arrives=-20, max=600, on=("n-0",), queue="b"),
        Work("next", 1, 4, queue="c", max=60, priority=1),
    )
    timeline.step()
    assert scenario.memory.reserved_starts
    assert timeline.add(Work("due", 1, 1, queue="b", priority=1)).step().evicted() == evicted
