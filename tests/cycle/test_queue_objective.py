"""Which of equally good nodes a queue's gangs get."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.model.queues import Objective
from phalanx.model.resources import CPU, GPU
from tests.builders import Scenario
from tests.solver.problems import bounded


def _half_full(objective: Objective | None, **parents: Objective) -> Scenario:
    """A full zone and an empty one; the queue `team` is a child of `org`."""
    scenario = Scenario("zone")
    scenario.nodes("busy", gpu=8, within="a", used={GPU: 6})
    scenario.nodes("quiet", gpu=8, within="a", used={GPU: 2})
    scenario.nodes("idle", 2, gpu=8, within="b")
    scenario.queue("org", objective=parents.get("org"))
    return scenario.queue("team", parent="org", objective=objective)


@pytest.mark.parametrize(
    ("objective", "where"),
    [
        (None, {"busy": 2, "quiet": 2}),
        (Objective.PACK, {"busy": 2, "quiet": 2}),
        (Objective.SPREAD, {"busy": 1, "idle": 2, "quiet": 1}),
        (Objective.LARGEST_HOLE, {"busy": 2, "quiet": 2}),
    ],
)
def test_a_gang_lies_as_its_queue_wants(objective: Objective | None, where: dict[str, int]) -> None:
    assert _half_full(objective).gang("work", 4, gpu=1, queue="team").decide().where("work") == where


def test_a_queue_without_an_objective_has_that_of_its_parent() -> None:
    scenario = _half_full(None, org=Objective.SPREAD).gang("work", 1, gpu=1, queue="team")
    assert scenario.decide().where("work") == {"idle": 1}


def test_its_own_objective_counts_before_that_of_the_parent() -> None:
    scenario = _half_full(Objective.PACK, org=Objective.SPREAD).gang("work", 1, gpu=1, queue="team")
    assert scenario.decide().where("work") == {"busy": 1}


def test_work_without_devices_is_spread_off_the_device_nodes() -> None:
    scenario = (
        Scenario().nodes("gpu", 2, gpu=8).nodes("plain", 2, gpu=0).nodes("half", gpu=0, used={CPU: 32_000})
    )
    scenario.queue("q", objective=Objective.SPREAD)
    assert scenario.gang("work", 3, cpu=1, queue="q").decide().where("work") == {"half": 1, "plain": 2}


def test_the_largest_hole_is_of_a_domain_and_not_of_a_node() -> None:
    """The fullest node lies in the emptier zone: packing would take it."""
    scenario = (
        Scenario("zone").nodes("full", gpu=8, within="a", used={GPU: 7}).nodes("free", 3, gpu=8, within="a")
    )
    scenario.nodes("small", 2, gpu=4, within="b").queue("q", objective=Objective.LARGEST_HOLE)
    assert scenario.gang("work", 1, gpu=1, queue="q").decide().where("work") == {"small": 1}


def test_the_domain_is_chosen_before_the_nodes_in_it() -> None:
    scenario = _half_full(Objective.SPREAD).gang("work", 3, gpu=1, queue="team", required="zone")
    assert scenario.decide().where("work") == {"busy": 1, "quiet": 2}


@bounded(100)
@given(
    free=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), min_size=1, max_size=5),
    pods=st.integers(1, 8),
)
def test_no_placement_leaves_a_larger_hole(free: list[tuple[str, int]], pods: int) -> None:
    """Of single devices: all but what the other zones cannot hold is left of the largest one."""
    scenario = Scenario("zone").queue("q", objective=Objective.LARGEST_HOLE)
    room: Counter[str] = Counter()
    for index, (zone, amount) in enumerate(free):
        scenario.nodes(f"n{index}", gpu=4, within=zone, used={GPU: 4 - amount})
        room[zone] += amount
    if pods > room.total():
        return
    outcome = scenario.gang("work", pods, gpu=1, queue="q").decide()
    left = room.copy()
    for node, count in outcome.where("work").items():
        left[free[int(node[1:])][0]] -= count
    assert max(left.values()) == max(min(hole, room.total() - pods) for hole in room.values())
