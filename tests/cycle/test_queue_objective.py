"""Objectives of queues: which of several feasible nodes their gangs get."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId
from phalanx.model.queues import Objective
from phalanx.model.resources import CPU, GPU

from tests.builders import Scenario, demands_of
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
def test_a_gang_is_placed_by_the_objective_of_its_queue(
    objective: Objective | None, where: dict[str, int]
) -> None:
    assert _half_full(objective).gang("work", 4, gpu=1, queue="team").decide().where("work") == where


def test_a_queue_without_an_objective_has_that_of_its_parent() -> None:
    scenario = _half_full(None, org=Objective.SPREAD).gang("work", 1, gpu=1, queue="team")
    assert scenario.decide().where("work") == {"idle": 1}


def test_the_objective_of_a_queue_overrides_that_of_its_parent() -> None:
    scenario = _half_full(Objective.PACK, org=Objective.SPREAD).gang("work", 1, gpu=1, queue="team")
    assert scenario.decide().where("work") == {"busy": 1}


def _two_racks(**more: Any) -> Scenario:
    """Four equal nodes in one rack, two in the other, and one node in another zone."""
    scenario = Scenario("zone", "rack").nodes("a", 4, gpu=8, within="x/a").nodes("b", 2, gpu=8, within="x/b")
    return scenario.nodes("far", gpu=8, within="y/c", **more).queue("q", objective=Objective.SPREAD)


@pytest.mark.parametrize(
    ("pods", "where"),
    [
        (2, {"a": 1, "far": 1}),
        (3, {"a": 1, "b": 1, "far": 1}),
        (5, {"a": 2, "b": 2, "far": 1}),
        (7, {"a": 4, "b": 2, "far": 1}),
        (9, {"a": 4, "b": 3, "far": 2}),
    ],
)
def test_pods_are_spread_over_nodes_and_then_over_domains(pods: int, where: dict[str, int]) -> None:
    """The number of used nodes is maximal; nodes are chosen in the zones and racks with the fewest pods."""
    assert _two_racks().gang("work", pods, gpu=1, queue="q").decide().where("work") == where


def test_pods_that_do_not_fit_in_a_domain_are_spread_over_the_others() -> None:
    scenario = _two_racks(used={GPU: 8}).gang("work", 4, gpu=1, queue="q")
    assert scenario.decide().where("work") == {"a": 2, "b": 2}


def test_gangs_of_one_and_of_several_pods_use_their_own_node_order() -> None:
    scenario = _two_racks().nodes("c", 2, gpu=8, within="y/c")
    scenario.gang("one", 1, gpu=8, queue="q", priority=9).gang("two", 2, gpu=8, queue="q")
    zones = {"a": "x", "b": "x", "c": "y", "far": "y"}
    assert sorted(zones[group] for group in scenario.decide().where("two")) == ["x", "y"]


@pytest.mark.parametrize(("used", "expected"), [({GPU: 4}, {"busy": 2}), ({CPU: 32_000}, {"idle": 2})])
def test_nodes_without_the_requested_level_are_domains_of_which_the_tightest_is_used(
    used: dict[str, int], expected: dict[str, int]
) -> None:
    """If they fit the same number of pods, the objective of the queue decides."""
    scenario = Scenario("zone", "rack").queue("q", objective=Objective.SPREAD)
    scenario.nodes("busy", gpu=8, used=used).nodes("idle", gpu=8)
    assert scenario.gang("work", 2, gpu=1, queue="q", preferred="rack").decide().where("work") == expected


def test_spread_lists_few_of_many_nodes() -> None:
    """There are ten zones with two racks of ten nodes; two pods can need only a few of them."""
    scenario = Scenario("zone", "rack").queue("q", objective=Objective.SPREAD)
    for zone in range(10):
        for rack in range(2):
            scenario.nodes(f"z{zone}r{rack}", 10, gpu=8, within=f"{zone}/{zone}-{rack}")
    session = Session(scenario.gang("work", 2, gpu=1, queue="q").snapshot(), SchedulerConfig())
    (demand,) = demands_of(session.gangs[GangId("gang-work")])
    (group,) = ProblemBuilder(session).build_problem(demand).problem.classes
    assert len(group.nodes) == 8


def test_nodes_without_labels_are_separate_domains() -> None:
    scenario = _two_racks(used={GPU: 8}).nodes("bare", 2, gpu=8).gang("work", 4, gpu=1, queue="q")
    assert scenario.decide().where("work") == {"a": 1, "b": 1, "bare": 2}


def test_a_single_pod_is_placed_on_the_emptiest_node_of_all() -> None:
    scenario = _two_racks(used={GPU: 1}).gang("first", 1, gpu=4, queue="q").gang("next", 1, gpu=4, queue="q")
    decided = scenario.decide()
    assert (decided.where("first"), decided.where("next")) == ({"a": 1}, {"a": 1})
    assert decided.nodes("first") != decided.nodes("next")


def test_pods_without_devices_are_spread_over_nodes_without_devices() -> None:
    scenario = (
        Scenario().nodes("gpu", 2, gpu=8).nodes("plain", 2, gpu=0).nodes("half", gpu=0, used={CPU: 32_000})
    )
    scenario.queue("q", objective=Objective.SPREAD)
    assert scenario.gang("work", 3, cpu=1, queue="q").decide().where("work") == {"half": 1, "plain": 2}


def test_the_largest_hole_is_measured_by_domain_and_not_by_node() -> None:
    """The fullest node is in the emptier zone: Pack would use it."""
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
    """With pods of one device: as many pods as possible are placed outside the zone with the largest hole."""
    scenario = Scenario("zone").queue("q", objective=Objective.LARGEST_HOLE)
    capacity: Counter[str] = Counter()
    for index, (zone, amount) in enumerate(free):
        scenario.nodes(f"n{index}", gpu=4, within=zone, used={GPU: 4 - amount})
        capacity[zone] += amount
    if pods > capacity.total():
        return
    outcome = scenario.gang("work", pods, gpu=1, queue="q").decide()
    left = capacity.copy()
    for node, count in outcome.where("work").items():
        left[free[int(node[1:])][0]] -= count
    assert max(left.values()) == max(min(hole, capacity.total() - pods) for hole in capacity.values())
