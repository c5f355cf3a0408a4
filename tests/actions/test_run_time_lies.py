"""A gang that was placed before a reserved start because of its `runtime.max`, and does not end.

One of two nodes is used until minute 50, and a gang that needs both has a start reserved for then. Another
gang is placed on the free node before, because it says that it ends in time. It never ends.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.memory import Memory
from phalanx.model.names import GangId
from phalanx.model.queues import Backfill
from phalanx.model.records import digest_of
from phalanx.model.resources import GPU

from tests.actions.timeline import BEGIN, MINUTE, Timeline, Work
from tests.examples import holds

EASY = Backfill.EASY
PLAIN = SchedulerConfig()
BIG = GangId("gang-big")


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
    assert record.before == (digest_of(BIG),)


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


def late_by_an_estimate(**lie: Any) -> Timeline:
    """At minute 50 the gang that was placed before the reserved start of `big` has not ended."""
    timeline = before_reserved(Work("late", 1, 8, estimate=49))
    if lie:
        timeline.scenario.change("late", **lie)
    timeline.minute = 50
    assert timeline.step().evicted() == []
    return timeline


def test_a_reserved_start_is_held_for_a_minute_before_it_moves() -> None:
    """Work that is a little late does not delay it by as much again."""
    timeline = late_by_an_estimate()
    assert timeline.add(Work("fill", 1, 8, max=5)).step().placed() == []
    assert timeline.scenario.memory.reserved_starts[BIG].held_from == BEGIN + 50 * MINUTE


@pytest.mark.parametrize(("longest", "is_placed"), [(1, True), (47, True), (48, False), (None, False)])
def test_others_are_placed_up_to_the_new_start_while_an_estimate_is_not_kept(
    longest: int | None, is_placed: bool
) -> None:
    """It is expected to run until minute 99 now, and they must end a minute before."""
    timeline = late_by_an_estimate()
    timeline.minute = 51
    fill = Work("fill", 1, 8, max=longest)
    assert timeline.add(fill).step().placed() == (["fill"] if is_placed else [])
    assert timeline.reservation("big").start == BEGIN + 99 * MINUTE


def test_the_cycle_in_which_it_moves_is_asked_for() -> None:
    timeline = late_by_an_estimate().add(Work("fill", 1, 8, max=20, runs=20, arrives=50))
    timeline.run(until=60)
    assert timeline.started["fill"] == 51


def test_a_reserved_start_moves_only_once() -> None:
    timeline = late_by_an_estimate()
    for minute in (51, 99, 100, 101, 150):
        timeline.minute = minute
        timeline.step()
    assert timeline.scenario.memory.reserved_starts[BIG].held_from == BEGIN + 99 * MINUTE
    assert timeline.add(Work("fill", 1, 8, max=5)).step().placed() == []


def test_a_reserved_start_that_has_moved_is_used_as_soon_as_it_can_be() -> None:
    timeline = late_by_an_estimate()
    timeline.minute = 51
    timeline.step()
    timeline.minute = 52
    timeline.scenario.remove("late")
    assert timeline.step().placed() == ["big"]


def test_pods_that_never_run_are_late_too() -> None:
    """A pod whose image does not exist has a node but never runs."""
    timeline = before_reserved(Work("late", 1, 8, estimate=49))
    since = BEGIN // 1000 + 60
    members = tuple(
        replace(pod, running_since=0, bound_since=since) for pod in timeline.scenario.members("late")
    )
    timeline.scenario.change("late", members=members)
    timeline.minute = 70
    timeline.step()
    assert timeline.reservation("big").start == BEGIN + 99 * MINUTE


def test_a_run_that_begins_again_is_late_too() -> None:
    """A controller has replaced the pod in minute 45."""
    timeline = before_reserved(Work("late", 1, 8, estimate=49))
    since = BEGIN // 1000 + 45 * 60
    members = tuple(replace(pod, running_since=since) for pod in timeline.scenario.members("late"))
    timeline.scenario.change("late", members=members)
    timeline.minute = 50
    timeline.step()
    timeline.minute = 51
    assert timeline.add(Work("fill", 1, 8, max=42)).step().placed() == ["fill"]


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


lies = st.tuples(
    st.integers(1, 48), st.integers(1, 60), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.booleans()
)


def free_devices(timeline: Timeline) -> int:
    """The most devices that are free on one node."""
    used = {"n-0": 0, "n-1": 0}
    for gang in timeline.scenario.snapshot().gangs.values():
        for pod in gang.members:
            if pod.node is not None:
                used[pod.node] += pod.shape.requests.get(GPU, 0)
    return 8 - max(0, min(used.values()))


@holds(15)
@given(st.lists(lies, max_size=6), st.sampled_from([EASY, Backfill.CONSERVATIVE]))
def test_what_is_reserved_is_used_up_to_the_time_to_which_a_start_moves(
    late: list[tuple[int, int, int, bool, bool]], mode: Backfill
) -> None:
    """Whatever gangs say, and in whichever way: it is held from minute 50, a minute later once from another
    time, and until a minute before that time others are placed."""
    timeline = Timeline(2, 8, mode, PLAIN)
    timeline.add(Work("run", 1, 8, arrives=-10, max=60, runs=60, on=("n-0",)))
    timeline.add(Work("big", 2, 8, runs=10, max=10)).step()
    for index, (arrives, declared, gpu, stays, has_max) in enumerate(late):
        told = {"max" if has_max else "estimate": declared}
        runs = None if stays else declared
        timeline.add(Work(f"late-{index}", 1, gpu, arrives=arrives, runs=runs, **told))
    held: list[int] = []
    timeline.run(until=49)
    for minute in range(50, 56):
        timeline.minute = minute
        timeline.scenario.terminate(timeline.step())
        if "big" in timeline.started:
            return
        held.append((timeline.scenario.memory.reserved_starts[BIG].held_from - BEGIN) // MINUTE)
        if held[-1] > minute + 2 and free_devices(timeline):
            timeline.add(Work("fits", 1, 1, arrives=minute, max=held[-1] - minute - 1))
            timeline.add(Work("ends-late", 1, 1, arrives=minute, max=held[-1] - minute))
            assert timeline.step().placed() == ["fits"]
            return
    assert held[0] == 50
    assert sum(after > before for before, after in pairwise(held)) <= 1
    assert len(set(held)) > 1 or timeline.reservation("big").start <= BEGIN + 56 * MINUTE, "else it moves"
