"""A gang that was placed before a reserved start because of its `runtime.max`, and does not end.

One of two nodes is used until minute 50, and a gang that needs both has a start reserved for then. Another
gang is placed on the free node before, because it says that it ends in time. It never ends.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.memory import Memory
from phalanx.model.names import GangId
from phalanx.model.queues import Backfill
from phalanx.model.records import digest_of
from phalanx.model.resources import GPU

from tests.actions.timeline import Timeline, Work
from tests.examples import holds

EASY = Backfill.EASY
PLAIN = SchedulerConfig()


def before_reserved(*late: Work, mode: Backfill = EASY, **fields: Any) -> Timeline:
    """In minute 1 the late works are placed; `fields` are those of their gangs."""
    timeline = Timeline(2, 8, mode, PLAIN)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, runs=60, on=("n-0",)))
    timeline.add(Work("big", 2, 8, runs=10, max=10))
    timeline.step()
    timeline.minute = 1
    for each in late:
        timeline.add(each)
    assert timeline.step().placed() == [each.name for each in late]
    for each in late:
        timeline.scenario.change(each.name, **fields) if fields else None
    return timeline


def first_eviction(timeline: Timeline, until: int = 150) -> tuple[int, list[str]] | None:
    """The minute of the first evictions, and the pods."""
    for minute in range(timeline.minute + 1, until):
        timeline.minute = minute
        if found := timeline.step().evicted():
            return minute, found
    return None


@pytest.mark.parametrize(
    ("work", "minute"),
    [
        (Work("late", 1, 8, max=49), 51),
        (Work("late", 1, 8, max=20), 50),  # not before the reserved start
        (Work("late", 1, 8, max=20, runs=30), None),  # ends in time after all
        (Work("late", 1, 8, estimate=49), None),  # no promise
        (Work("late", 1, 8, estimate=5, max=49), 51),
    ],
)
def test_a_gang_that_was_placed_because_of_its_maximum_is_evicted_a_minute_after_it(
    work: Work, minute: int | None
) -> None:
    found = first_eviction(before_reserved(work))
    assert found == (None if minute is None else (minute, ["late-0"]))


def test_nobody_is_evicted_who_is_beside_the_reserved_start() -> None:
    timeline = Timeline(2, 8, EASY, PLAIN)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, on=("n-0",)), Work("big", 2, 4, max=10)).step()
    timeline.scenario.nodes("m", 1, gpu=4)
    timeline.add(Work("run2", 1, 8, arrives=-10, max=60, on=("n-1",)))
    timeline.minute = 1
    timeline.add(Work("late", 1, 4, max=9)).step()
    assert GangId("gang-late") not in timeline.scenario.memory.let_in
    assert first_eviction(timeline) is None


def test_gangs_that_ran_before_are_not_evicted_for_their_maximum() -> None:
    timeline = Timeline(1, 8, EASY, PLAIN)
    timeline.add(Work("run", 1, 8, arrives=-10, max=20, on=("n-0",)), Work("big", 1, 8, max=10)).step()
    assert first_eviction(timeline) is None


def test_a_minimum_run_time_protects_it_until_then() -> None:
    """Ten minutes at most: here the gang says that it runs for a minute, in minute 45."""
    timeline = before_reserved()
    timeline.minute = 45
    assert timeline.add(Work("late", 1, 8, max=5)).step().placed() == ["late"]
    timeline.scenario.change("late", disruption=Disruption(min_runtime="1h"))
    assert first_eviction(timeline) == (55, ["late-0"])


def test_a_gang_without_the_right_to_preempt_evicts_nobody() -> None:
    timeline = before_reserved(Work("late", 1, 8, max=49))
    timeline.scenario.change("big", preemption_policy="Never")
    assert first_eviction(timeline) is None


@pytest.mark.parametrize(("guarantee", "is_evicted"), [({}, True), ({GPU: 8}, False), ({GPU: 4}, True)])
def test_a_guarantee_of_its_own_queue_protects_it(guarantee: dict[str, int], is_evicted: bool) -> None:
    timeline = before_reserved()
    timeline.scenario.queue("other", guarantee=guarantee, weight=100)
    assert timeline.add(Work("late", 1, 8, queue="other", max=49)).step().placed() == ["late"]
    assert bool(first_eviction(timeline)) is is_evicted


def test_fair_shares_do_not_protect_it_in_another_queue() -> None:
    """Its queue is far below its share, and the queue with the reserved start is above its own."""
    timeline = before_reserved()
    timeline.scenario.queue("other", weight=1000)
    timeline.add(Work("late", 1, 8, queue="other", max=49), Work("same", 1, 1, queue="other")).step()
    assert first_eviction(timeline) == (51, ["late-0"])


@pytest.mark.parametrize(
    ("killed", "back", "minute"), [(10, 11, 51), (40, 40, 51), (49, 55, 56), (50, 80, 81)]
)
def test_a_new_leader_evicts_it_too(killed: int, back: int, minute: int) -> None:
    """It reads the records. If the maximum has passed by then, it gives notice first."""
    timeline = before_reserved(Work("late", 1, 8, max=49))
    timeline.minute = killed
    timeline.step()
    timeline.scenario.memory = Memory()
    timeline.minute = back - 1
    assert first_eviction(timeline) == (minute, ["late-0"])


def test_the_record_names_no_other_gang() -> None:
    timeline = before_reserved(Work("late", 1, 8, max=49))
    record = timeline.scenario.memory.records[GangId("gang-late")].let_in
    assert record is not None
    assert record.before == (digest_of(GangId("gang-big")),)


def test_the_record_is_cleared_when_nobody_waits_for_it() -> None:
    timeline = before_reserved(Work("late", 1, 8, max=49))
    timeline.scenario.remove("big")
    timeline.step()
    assert timeline.scenario.memory.records[GangId("gang-late")].let_in is None


def test_a_new_leader_evicts_nobody_who_was_there_before() -> None:
    """The record is about the starts that were reserved then, and not about later ones."""
    timeline = before_reserved(Work("late", 1, 8, max=49))
    timeline.scenario.memory = Memory()
    timeline.scenario.remove("big")
    timeline.minute = 40
    timeline.add(Work("new", 2, 8, max=10, arrives=41))
    assert first_eviction(timeline) is None


def test_its_status_says_so_before() -> None:
    timeline = before_reserved(Work("late", 1, 8, max=49))
    late = GangId("gang-late")
    for minute, noticed in ((49, 0), (50, 50)):
        timeline.minute = minute
        decided = timeline.step()
        assert bool(decided.result.memory.let_in[late].noticed) is bool(noticed)
        assert decided.evicted() == []


def test_others_are_placed_up_to_the_new_start_while_it_moves() -> None:
    """The late gang is protected until minute 55."""
    timeline = before_reserved()
    timeline.minute = 45
    timeline.add(Work("late", 1, 8, max=5)).step()
    timeline.scenario.change("late", disruption=Disruption(min_runtime="1h"))
    for minute in range(46, 51):
        timeline.minute = minute
        timeline.step()
    assert timeline.reservation("big").start == timeline.scenario.now + 5 * 60_000
    timeline.minute = 51
    assert timeline.add(Work("short", 1, 8, max=4)).step().placed() == []
    timeline.minute = 51
    assert timeline.add(Work("shorter", 1, 8, max=3)).step().placed() == ["shorter"]


works = st.tuples(st.integers(1, 48), st.integers(1, 60), st.sampled_from([2, 4, 8]), st.booleans())


@holds(15)
@given(st.lists(works, max_size=6), st.sampled_from([EASY, Backfill.CONSERVATIVE]))
def test_lies_move_a_reserved_start_once(late: list[tuple[int, int, int, bool]], mode: Backfill) -> None:
    """The gang starts two minutes after minute 50 at the latest, and no gang that ends in time is evicted."""
    timeline = Timeline(2, 8, mode, PLAIN)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, runs=60, on=("n-0",)))
    timeline.add(Work("big", 2, 8, runs=10, max=10)).step()
    for index, (arrives, longest, gpu, stays) in enumerate(late):
        runs = None if stays else longest
        timeline.add(Work(f"late-{index}", 1, gpu, arrives=arrives, max=longest, runs=runs))
    gone: set[str] = set()
    for minute in range(1, 60):
        timeline.minute = minute
        decided = timeline.step()
        gone.update(decided.evicted())
        timeline.scenario.terminate(decided)
        if "big" in timeline.started:
            break
    assert timeline.started["big"] <= 52
    starts = timeline.reserved_starts["big"]
    assert sum(after > before for before, after in pairwise(starts)) <= 1
    honest = {f"late-{index}-0" for index, each in enumerate(late) if not each[3]}
    assert gone.isdisjoint(honest)
