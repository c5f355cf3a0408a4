"""Expected ends of gangs, and the least capacity over time that follows from them."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.actions.reservations.reservations import EndingGang, Reservation, least_capacity, moments
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.run_times import (
    DELETION_EXPECTED_MS,
    OBSERVED_RUNS_MAX,
    End,
    Method,
    declared,
    end_of_run,
)
from phalanx.framework.session import Session
from phalanx.model.api.pod_groups import Runtime
from phalanx.model.gangs import GangKind
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.pods import Controller, Pod, PodPhase

from tests.builders import Scenario

NODE = NodeName("n")
CELL = (NODE, "gpu")


@pytest.mark.parametrize(
    ("estimate", "maximum", "now", "end"),
    [
        (None, 60, 0, End(at=60, likely=60, latest=60, method=Method.MAXIMUM)),
        (None, 60, 59, End(at=60, likely=60, latest=60, method=Method.MAXIMUM)),
        (None, 60, 60, End(at=120, likely=120, latest=120, method=Method.ESTIMATE)),
        (None, 60, 250, End(at=480, likely=480, latest=480, method=Method.ESTIMATE)),
        (20, None, 0, End(at=20, likely=20, latest=40, method=Method.ESTIMATE)),
        (20, None, 20, End(at=40, likely=40, latest=80, method=Method.ESTIMATE)),
        (20, 60, 0, End(at=60, likely=20, latest=60, method=Method.MAXIMUM)),
        (20, 60, 20, End(at=60, likely=40, latest=60, method=Method.MAXIMUM)),
        (20, 60, 40, End(at=60, likely=60, latest=60, method=Method.MAXIMUM)),
        (20, 60, 61, End(at=120, likely=80, latest=120, method=Method.ESTIMATE)),
    ],
)
def test_ends_of_a_run_that_began_at_0(estimate: int | None, maximum: int | None, now: int, end: End) -> None:
    """All in seconds."""
    runtime = Runtime(f"{estimate}s" if estimate else None, f"{maximum}s" if maximum else None)
    expected = declared(runtime)
    assert expected is not None
    found = end_of_run(expected, began=0, now=now * 1000)
    assert found == End(end.at * 1000, end.likely * 1000, end.latest * 1000, end.method)


def test_a_gang_without_a_declared_run_time_has_no_end() -> None:
    assert declared(Runtime()) is None


def test_the_run_of_a_gang_begins_with_its_oldest_remaining_member() -> None:
    scenario = Scenario().nodes("n", 1).gang("g", 3, bound=3, runtime=Runtime(max="1m"))
    pods = scenario.members("g")
    assert seen(scenario, now=500_000) == 560_000, "none runs yet"
    scenario.change("g", members=tuple(replace(pod, running_since=490 + pod.index) for pod in pods))
    assert seen(scenario, now=500_000) == 550_000
    scenario.change("g", members=tuple(replace(pod, running_since=600) for pod in pods))
    assert seen(scenario, now=500_000) == 560_000, "a clock that is ahead"
    scenario.change("g", members=tuple(replace(pod, bound_since=495) for pod in pods))
    assert seen(scenario, now=500_000) == 555_000, "a pod that never runs has its node since then"
    scenario.change("g", members=tuple(replace(pod, deleting=True) for pod in pods), runtime=Runtime())
    assert seen(scenario, now=500_000) == 500_000 + DELETION_EXPECTED_MS


def seen(scenario: Scenario, now: int) -> int:
    scenario.now = now
    session = Session(scenario.snapshot(), SchedulerConfig())
    (gang,) = session.gangs.values()
    end = session.run_times.end_of(gang)
    assert end is not None
    return end.at


def after(*runs: int, name: str = "train-{}", **fields: Any) -> Scenario:
    """Gangs of two that succeeded, one after the other, with these run times in seconds."""
    scenario = Scenario().nodes("n", 1)
    for index, run in enumerate(runs):
        gang = name.format(index)
        scenario.gang(gang, 2, bound=2, **fields)
        spans = [(1000 * index, 1000 * index + run - 7), (1000 * index + 5, 1000 * index + run)]
        scenario.change(gang, members=tuple(map(succeeded, scenario.members(gang), spans)))
    return scenario


def succeeded(pod: Pod, span: tuple[int, int]) -> Pod:
    return replace(pod, phase=PodPhase.SUCCEEDED, ran=span)


def expected_of(scenario: Scenario, name: str = "train-x9", **fields: Any) -> End | None:
    scenario.now = 10_000_000
    session = Session(scenario.gang(name, fields.pop("count", 2), **fields).snapshot(), SchedulerConfig())
    return session.run_times.end_if_placed(session.gangs[GangId(f"gang-{name}")])


def test_the_run_time_is_estimated_from_earlier_gangs() -> None:
    end = End(at=10_090_000, likely=10_060_000, latest=10_180_000, method=Method.OBSERVED)
    assert expected_of(after(80, 60, 90)) == end
    assert expected_of(after(80, 60, 90), runtime=Runtime(estimate="1s")) != end


def test_only_the_last_runs_count() -> None:
    end = expected_of(after(500, 1, *[70] * OBSERVED_RUNS_MAX))
    assert end is not None
    assert (end.likely, end.at) == (10_070_000, 10_070_000)


@pytest.mark.parametrize(
    ("scenario", "asked"),
    [
        (after(60, 60), {}),
        (after(60, 60, 60, queue="other"), {}),
        (after(60, 60, 60, namespace="other"), {}),
        (after(60, 60, 60), {"count": 3}),
        (after(60, 60, 60, name="tune-{}"), {}),
        (after(60, 60, 60, name="train-{}-a"), {}),
        (after(60, 60, 60, min=3), {}),
        (after(60, 60, 60).role("train-1", 1), {}),
    ],
)
def test_gangs_that_differ_are_not_used_for_the_estimate(scenario: Scenario, asked: dict[str, Any]) -> None:
    """Nor are those that have not ended, or that ended with too few members."""
    assert expected_of(scenario, **asked) is None


def test_single_pods_are_compared_by_the_names_of_their_controllers() -> None:
    owners = [Controller("Job", f"nightly-{number}", "uid") for number in range(4)]
    scenario = Scenario().nodes("n", 1)
    for number, owner in enumerate(owners[:3]):
        scenario.pod(f"p{number}", bound=1, controller=owner)
        (pod,) = scenario.members(f"p{number}")
        scenario.change(f"p{number}", members=(succeeded(pod, (0, 60)),))
    end = expected_of(scenario, "waits", count=1, kind=GangKind.POD, controller=owners[3])
    assert end is not None
    assert end.method is Method.OBSERVED


def ending(at: int, amount: int) -> EndingGang:
    return EndingGang("gang g", End(at, at, at, method=Method.MAXIMUM), usage={}, delta={CELL: amount})


GANG = Scenario().gang("g", 1).snapshot().gangs[GangId("gang-g")]


def reserved(start: int, amount: int, end: int | None) -> Reservation:
    return Reservation(
        gang=GangId("g"),
        name="gang g",
        queue=QueueName("q"),
        precedence=(),
        reserved_in=(1, 0),
        start=start,
        held_from=start,
        end=end,
        usage={},
        delta={CELL: amount},
        request=Beneficiary(GANG, {}),
    )


@pytest.mark.parametrize(
    ("since", "until", "least"),
    [
        (0, 10, 0),
        (0, 11, 0),
        (0, 21, -3),
        (0, None, -3),
        (10, 20, 4),
        (12, 21, -3),
        (20, 30, -3),
        (30, None, 4),
        (30, 40, 4),
        (40, None, 6),
    ],
)
def test_the_least_capacity_between_two_times(since: int, until: int | None, least: int) -> None:
    """4 are freed at 10, 7 are reserved from 20 to 30, 2 are freed at 40."""
    ends, starts = [ending(40, 2), ending(10, 4)], [reserved(20, 7, 30)]
    capacity = least_capacity(ends, starts, since=since, until=until)
    assert capacity.get(CELL, 0) == least
    assert least_capacity(ends, starts, since=since, until=until, only=[CELL]) == {CELL: least} or not least
    assert least_capacity(ends, starts, since=since, until=until, only=[]) == {}
    assert moments(ends, starts, now=10) == [30, 40]


def test_capacity_is_freed_before_it_is_reserved_at_the_same_time() -> None:
    one, next_one = reserved(10, 7, 20), reserved(20, 7, None)
    for order in ([one, next_one], [next_one, one]):
        assert least_capacity([], order, since=0, until=None) == {CELL: -7}
    assert least_capacity([ending(20, 7)], [next_one], since=0, until=None).get(CELL, 0) == 0
