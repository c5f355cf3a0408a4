"""Over time, on small clusters: nobody delays who waits first, and no wrong run time lets it starve."""

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
    """Gangs of one that run already, with the whole truth told."""
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
    """Later gangs that tell the truth: how long they run, or nothing, and then they run for ever."""
    works = []
    for index in range(draw(st.integers(0, 6))):
        told = draw(st.none() | minutes)
        works.append(
            Work(
                f"w{index}",
                draw(st.integers(1, 3)),
                draw(st.integers(1, DEVICES)),
                arrives=draw(st.integers(0, 12)),
                runs=told,
                max=told,
                queue=draw(st.sampled_from(["q", "default"])),
                priority=draw(st.sampled_from(priorities)),
            )
        )
    return works


def strict_start(works: list[Work], head: Work, nodes: int) -> int:
    """The first minute in which the head fits beside those that run, if nobody else may start before."""
    for minute in range(100):
        left = {f"n-{index}": DEVICES for index in range(nodes)}
        for work in works:
            assert work.runs is not None
            if work.arrives + work.runs > minute:
                left[work.on[0]] -= work.gpu
        if sum(free // head.gpu for free in left.values()) >= head.count:
            return minute
    raise AssertionError("it never fits")


@holds(30, **any_size)
@given(st.data(), st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]), st.integers(1, 3))
def test_the_first_in_line_starts_no_later_than_if_nobody_passed(
    data: st.DataObject, mode: Backfill, nodes: int
) -> None:
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


@holds(30, **any_size)
@given(st.data(), st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]), st.integers(1, 3))
def test_a_promise_is_kept_or_bettered(data: st.DataObject, mode: Backfill, nodes: int) -> None:
    timeline = Timeline(nodes, DEVICES, mode).add(*data.draw(running(nodes)), *data.draw(arriving([0])))
    timeline.run(until=60)
    for name, starts in timeline.reserved_starts.items():
        if starts[0] <= 60:
            assert timeline.started[name] <= starts[0]
            assert starts == sorted(starts, reverse=True)


@holds(15, **any_size)
@given(st.data(), st.integers(1, 2), st.integers(1, 12))
def test_wrong_estimates_do_not_let_it_starve(data: st.DataObject, nodes: int, longest: int) -> None:
    """Everybody says one minute. Who runs when the start was due delays it, and nobody who comes later."""
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
    liars = [
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
    timeline.add(*liars).run(until=60)
    due = timeline.reserved_starts["head"][0]
    assert timeline.started["head"] <= due + longest
