"""When gangs are expected to end, and what room that leaves over time."""

import pytest
from msgspec.structs import replace

from phalanx.actions.reservations import Leaving, Reservation, least_room, moments
from phalanx.actions.runtimes import End, end_of_gang, end_of_run
from phalanx.limits import DELETION_EXPECTED_MS
from phalanx.model.gangs import Runtime
from phalanx.model.names import GangId, NodeName, QueueName
from tests.builders import Scenario

NODE = NodeName("n")
CELL = (NODE, "gpu")


@pytest.mark.parametrize(
    ("estimate", "maximum", "now", "end"),
    [
        (None, 60, 0, End(at=60, likely=60, latest=60, is_bound=True)),
        (None, 60, 59, End(at=60, likely=60, latest=60, is_bound=True)),
        (None, 60, 60, End(at=120, likely=120, latest=120, is_bound=False)),
        (None, 60, 250, End(at=480, likely=480, latest=480, is_bound=False)),
        (20, None, 0, End(at=20, likely=20, latest=40, is_bound=False)),
        (20, None, 20, End(at=40, likely=40, latest=80, is_bound=False)),
        (20, 60, 0, End(at=60, likely=20, latest=60, is_bound=True)),
        (20, 60, 20, End(at=60, likely=40, latest=60, is_bound=True)),
        (20, 60, 40, End(at=60, likely=60, latest=60, is_bound=True)),
        (20, 60, 61, End(at=120, likely=80, latest=120, is_bound=False)),
    ],
)
def test_ends_of_a_run_that_began_at_0(estimate: int | None, maximum: int | None, now: int, end: End) -> None:
    assert end_of_run(Runtime(estimate, maximum), begun=0, now=now) == end


def test_who_says_nothing_never_ends() -> None:
    assert end_of_run(Runtime(), begun=0, now=5) is None


def test_a_gang_runs_since_its_first_member_that_is_left_does() -> None:
    scenario = Scenario().nodes("n", 1).gang("g", 3, bound=3, runtime=Runtime(max_ms=60_000))
    pods = scenario.members("g")
    assert seen(scenario, now=500_000) == 560_000, "none runs yet"
    scenario.change("g", members=tuple(replace(pod, running_since=490 + pod.index) for pod in pods))
    assert seen(scenario, now=500_000) == 550_000
    scenario.change("g", members=tuple(replace(pod, running_since=600) for pod in pods))
    assert seen(scenario, now=500_000) == 560_000, "a clock that is ahead"
    scenario.change("g", members=tuple(replace(pod, deleting=True) for pod in pods), runtime=Runtime())
    assert seen(scenario, now=500_000) == 500_000 + DELETION_EXPECTED_MS


def seen(scenario: Scenario, now: int) -> int:
    (gang,) = scenario.snapshot().gangs.values()
    end = end_of_gang(gang, now)
    assert end is not None
    return end.at


def leaving(at: int, amount: int) -> Leaving:
    return Leaving("gang g", End(at, at, at, is_bound=True), nodes={}, cells={CELL: amount})


def reserved(start: int, amount: int, end: int | None) -> Reservation:
    return Reservation(
        gang=GangId("g"),
        name="gang g",
        queue=QueueName("q"),
        turn=(),
        given=(1, 0),
        start=start,
        held_from=start,
        end=end,
        seats={},
        cells={CELL: amount},
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
def test_the_least_room_between_two_times(since: int, until: int | None, least: int) -> None:
    """4 come at 10, 7 go at 20 and are back at 30, 2 come at 40."""
    ends, starts = [leaving(40, 2), leaving(10, 4)], [reserved(20, 7, 30)]
    room = least_room(ends, starts, since=since, until=until)
    assert room.get(CELL, 0) == least
    assert least_room(ends, starts, since=since, until=until, only=[CELL]) == {CELL: least} or not least
    assert least_room(ends, starts, since=since, until=until, only=[]) == {}
    assert moments(ends, starts, now=10) == [30, 40]


def test_room_that_comes_when_other_room_goes_comes_first() -> None:
    one, next_one = reserved(10, 7, 20), reserved(20, 7, None)
    for order in ([one, next_one], [next_one, one]):
        assert least_room([], order, since=0, until=None) == {CELL: -7}
    assert least_room([leaving(20, 7)], [next_one], since=0, until=None).get(CELL, 0) == 0
