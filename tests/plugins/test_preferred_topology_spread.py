"""Topology spread constraints with ScheduleAnyway: prices of nodes, and gangs against all of their
placements."""

import itertools
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.nodes import Taint

from tests.builders import Scenario
from tests.examples import holds
from tests.plugins.test_topology_spread import ZONE, spread, zones

HOST = "kubernetes.io/hostname"
X: dict[str, Any] = {"labels": {"app": "x"}, "spread_anyway": [spread()]}


def price(domains: int) -> int:
    """What a counted pod costs: 10 times ln(domains + 2), as an even number."""
    return 2 * round(10 * log(domains + 2) / 2)


def costs(scenario: Scenario, **arguments: Any) -> dict[str, int]:
    """What each node costs the only waiting pod; nodes without a cost are left out."""
    config = SchedulerConfig(plugins=(PluginConfig("topology-spread", arguments=arguments),))
    session = Session(scenario.snapshot(), config)
    (pod,) = [pod for gang in session.waiting for pod in gang.members if pod.is_waiting]
    return {str(node): cost for node, cost in session.eligibility(pod).cost.items()}


def occupied(scenario: Scenario, *nodes: str) -> Scenario:
    for index, node in enumerate(nodes):
        scenario.foreign_pod(f"old-{index}", node, labels={"app": "x"})
    return scenario


def test_each_counted_pod_in_the_domain_of_a_node_costs() -> None:
    scenario = occupied(zones("a", "b", "c"), "a-0", "a-0", "b-0").pod("p", **X)
    assert costs(scenario) == {"a-0": 2 * price(3), "b-0": price(3)}
    assert costs(scenario, scheduleAnywayWeight=100) == {"a-0": 2 * 160, "b-0": 160}
    assert costs(scenario, scheduleAnywayWeight=0) == {}
    assert scenario.decide().nodes("p") == ["c-0"]


def test_a_pod_starts_where_its_domain_is_the_fullest_if_no_other_node_is_free() -> None:
    scenario = zones("a").nodes("b", labels={ZONE: "b"}, used={"cpu": 64000})
    assert occupied(scenario, "a-0", "a-0").pod("p", **X).decide().nodes("p") == ["a-0"]


def test_constraints_with_more_domains_weigh_more() -> None:
    scenario = Scenario().nodes("a", 3, labels={ZONE: "a"}).nodes("b", 1, labels={ZONE: "b"})
    both = {**X, "spread_anyway": [spread(), spread(HOST)]}
    found = costs(occupied(scenario, "a-0").pod("p", **both))
    assert found == {"a-0": price(2) + price(4), "a-1": price(2), "a-2": price(2)}


def test_a_node_without_a_key_is_used_last_even_if_no_pods_are_counted() -> None:
    scenario = occupied(zones("a").nodes("bare"), "a-0", "a-0", "a-0").gang("g", 5, **X)
    assert scenario.decide().where("g") == {"a": 5}
    nothing = {**X, "spread_anyway": [replace(spread(), term=replace(spread().term, selector=None))]}
    assert list(costs(zones("a").nodes("bare").pod("p", **nothing))) == ["bare-0"]
    assert zones("a", cpu=1).nodes("bare").gang("g", 2, **X).decide().where("g") == {"a": 1, "bare": 1}


def test_policies_say_which_nodes_are_counted() -> None:
    scenario = Scenario().nodes("a", 2, labels={ZONE: "a"}).nodes("b", labels={ZONE: "b"})
    scenario.nodes("c", labels={ZONE: "a"}, taints=[Taint("dedicated", "NoSchedule")])
    occupied(scenario, "c-0")
    assert costs(scenario.pod("p", **X)) == dict.fromkeys(("a-0", "a-1", "c-0"), price(2))
    assert costs(scenario.pod("p", **{**X, "spread_anyway": [spread(taints=True)]})) == {}


def test_only_domains_that_the_pod_may_use_weigh() -> None:
    scenario = occupied(zones("a", "b", "c"), "a-0").pod("p", selector={ZONE: "a"}, **X)
    assert costs(scenario)["a-0"] == price(1)


def test_terminating_pods_do_not_count() -> None:
    scenario = zones("a", "b").gang("old", 1, on=["a-0"], labels={"app": "x"}).pod("p", **X)
    assert costs(scenario) == {"a-0": price(2)}
    ended = tuple(replace(pod, deleting=True) for pod in scenario.members("old"))
    assert costs(scenario.change("old", members=ended)) == {}


def test_pods_that_are_placed_in_the_same_cycle_count() -> None:
    scenario = zones("a", "b", "c")
    for name in "pqr":
        scenario.pod(name, **X)
    decided = scenario.decide()
    assert sorted(node for name in "pqr" for node in decided.nodes(name)) == ["a-0", "b-0", "c-0"]


def test_a_gang_is_spread_and_starts_where_it_cannot_be() -> None:
    assert sorted(zones("a", "b", "c").gang("g", 7, **X).decide().where("g").values()) == [2, 2, 3]
    small = zones("a", cpu=1).nodes("b", labels={ZONE: "b"}).gang("g", 5, **X).decide()
    assert small.where("g") == {"a": 1, "b": 4}
    (placement,) = small.placements("g")
    assert placement.certificate is not None
    assert (placement.certificate.objective, placement.certificate.proven) == ((6 * price(2),), True)


def test_members_that_run_count() -> None:
    decided = zones("a", "b").gang("g", 4, **X, on=["a-0", "a-0"], started=True).decide()
    assert decided.where("g") == {"b": 2}


def test_members_that_are_counted_but_have_no_constraint_cost_half() -> None:
    scenario = zones("a", cpu=2).gang("g", 1, **X)
    scenario.role("g", 1, role="other", labels={"app": "x"}).change("g", min_member=2)
    (placement,) = scenario.decide().placements("g")
    assert placement.certificate is not None
    assert placement.certificate.objective == (price(1) // 2,)


def test_a_hard_constraint_comes_first() -> None:
    both = {"labels": {"app": "x"}, "spread": [spread()], "spread_anyway": [spread(HOST)]}
    scenario = Scenario().nodes("a", 3, labels={ZONE: "a"}).nodes("b", 1, labels={ZONE: "b"})
    decided = scenario.gang("g", 4, **both).decide()
    assert decided.where("g") == {"a": 2, "b": 2}
    assert len({node for node in decided.nodes("g") if node.startswith("a")}) == 2


@pytest.mark.parametrize("key", [ZONE, HOST])
@holds(25)
@given(
    there=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    free=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    size=st.integers(1, 4),
)
def test_no_placement_costs_less_pod_by_pod(key: str, there: list[int], free: list[int], size: int) -> None:
    """The pods of a gang are placed as if the scores that kube-scheduler gives them one by one were least."""
    scenario = Scenario()
    for index, count in enumerate(there):
        scenario.nodes(f"z{index}", cpu=free[index], labels={ZONE: f"z{index}"})
        for number in range(count):
            scenario.foreign_pod(f"old-{index}-{number}", f"z{index}-0", labels={"app": "x"})
    scenario.gang("g", size, labels={"app": "x"}, spread_anyway=[spread(key)])
    decided = scenario.decide()
    ways = [
        way
        for way in itertools.product(range(len(there)), repeat=size)
        if all(way.count(zone) <= free[zone] for zone in way)
    ]
    assert bool(decided.placed()) == bool(ways)
    if ways:
        chosen = tuple(int(node[1:].split("-")[0]) for node in decided.nodes("g"))
        assert counted(chosen, there) == min(counted(way, there) for way in ways)


def counted(way: tuple[int, ...], there: list[int]) -> int:
    """The sum of the pods that each pod finds in its domain when it is bound."""
    return sum(there[zone] + way[:number].count(zone) for number, zone in enumerate(way))
