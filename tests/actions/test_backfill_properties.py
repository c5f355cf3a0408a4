"""Backfill over time on small clusters: no gang delays the first one, wrong run times do not starve it."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from phalanx.model.queues import Backfill

from tests.actions.timeline import Timeline, Work
from tests.examples import holds

DEVICES = 4

minutes = st.integers(1, 12)
any_size = {"suppress_health_check": list(HealthCheck)}


@st.composite
def running(draw: st.DrawFn, nodes: int) -> list[Work]:
    """Running gangs of one pod that declare their true run time."""
    works = []
    for node in range(nodes):
        sizes = draw(st.sampled_from([(), (1,), (4,), (2, 1), (2, 2), (1, 3)]))
        for index, size in enumerate(sizes):
            age, left = draw(minutes), draw(minutes)
            name, on = f"r{node}-{index}", (f"n-{node}",)
            works.append(Work(name, 1, size, arrives=-age, runs=age + left, max=age + left, on=on))
    return works


@st.composite
def arriving(draw: st.DrawFn, priorities: Sequence[int]) -> list[Work]:
    """Later gangs that declare their true run time, or none if they run for ever."""
    works = []
    for index in range(draw(st.integers(0, 6))):
        run_time = draw(st.none() | minutes)
        works.append(
            Work(
                f"w{index}",
                draw(st.integers(1, 3)),
                draw(st.integers(1, DEVICES)),
                arrives=draw(st.integers(0, 12)),
                runs=run_time,
                max=run_time,
                queue=draw(st.sampled_from(["q", "default"])),
                priority=draw(st.sampled_from(priorities)),
            )
        )
    return works


def strict_start(works: list[Work], head: Work, nodes: int) -> int:
    """The first minute in which the head fits beside the running gangs, if no other gang starts before."""
    for minute in range(100):
        left = {f"n-{index}": DEVICES for index in range(nodes)}
        for work in works:
            assert work.runs is not None
            if work.arrives + work.runs > minute:
                left[work.on[0]] -= work.gpu
        if sum(free // head.gpu for free in left.values()) >= head.count:
            return minute
    raise AssertionError("the head never fits")


@holds(10, **any_size)
@given(st.data(), st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]), st.integers(1, 3))
def test_backfill_does_not_delay_the_first_gang(data: st.DataObject, mode: Backfill, nodes: int) -> None:
    works = data.draw(running(nodes))
    gpu = data.draw(st.integers(1, DEVICES))
    head = Work("head", data.draw(st.integers(1, nodes * (DEVICES // gpu))), gpu, arrives=-1, runs=5, max=5)
    strict = strict_start(works, head, nodes)
    timeline = Timeline(nodes, DEVICES, mode).add(*works, head)
    timeline.step()
    if strict:
        assert timeline.reserved_starts["head"] == [strict]
    timeline.add(*data.draw(arriving([0, -1]))).run(until=60)
    assert timeline.started["head"] == strict


@holds(15, **any_size)
@given(st.data(), st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]), st.integers(1, 3))
def test_a_reserved_start_is_never_postponed(data: st.DataObject, mode: Backfill, nodes: int) -> None:
    timeline = Timeline(nodes, DEVICES, mode).add(*data.draw(running(nodes)), *data.draw(arriving([0])))
    timeline.run(until=60)
    for name, starts in timeline.reserved_starts.items():
        if starts[0] <= 60:
            assert timeline.started[name] <= starts[0]
            assert starts == sorted(starts, reverse=True)


@holds(10, **any_size)
@given(st.data(), st.integers(1, 2), st.integers(1, 12))
def test_wrong_estimates_do_not_starve_the_first_gang(data: st.DataObject, nodes: int, longest: int) -> None:
    """All estimates are one minute, and the expected run time of a late gang is doubled.

    Only gangs that run at the time to which the start has moved delay it, no later ones.
    """
    works = [
        Work(
            f"r{node}",
            1,
            DEVICES,
            arrives=-1,
            runs=1 + data.draw(st.integers(1, longest)),
            estimate=1,
            on=(f"n-{node}",),
        )
        for node in range(nodes)
    ]
    head = Work("head", data.draw(st.integers(1, nodes)), DEVICES, runs=5)
    timeline = Timeline(nodes, DEVICES, Backfill.EASY).add(*works, head)
    wrong_estimates = [
        Work(
            f"w{index}",
            1,
            data.draw(st.integers(1, DEVICES)),
            arrives=index,
            runs=data.draw(st.integers(1, longest)),
            estimate=1,
        )
        for index in range(10)
    ]
    timeline.add(*wrong_estimates).run(until=60)
    reserved = timeline.reserved_starts["head"][0]
    longest_since = reserved + 2  # what has run for longest when the start is a minute late
    moved = 2 * longest_since - 1
    assert timeline.started["head"] <= moved + longest
