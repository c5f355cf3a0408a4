"""Topology spread constraints in whole cycles."""

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.nodes import Taint
from phalanx.model.pods import AffinityTerm, Requirement, SpreadConstraint, Term
from phalanx.model.reasons import Reason

from tests.builders import Scenario
from tests.examples import holds

ZONE = "zone"


def spread(
    key: str = ZONE,
    skew: int = 1,
    *,
    least: int = 1,
    affinity: bool = True,
    taints: bool = False,
    **labels: str,
) -> SpreadConstraint:
    """Counts pods of namespace team with these labels; app=x if none are given."""
    wanted = sorted((labels or {"app": "x"}).items())
    selector = Term(tuple(Requirement(name, "In", (value,)) for name, value in wanted))
    return SpreadConstraint(
        AffinityTerm(key, selector, ("team",), for_spread=True), skew, least, affinity, taints
    )


X: dict[str, Any] = {"labels": {"app": "x"}, "spread": [spread()]}


def zones(*names: str, **fields: Any) -> Scenario:
    scenario = Scenario()
    for name in names:
        scenario.nodes(name, labels={ZONE: name}, **fields)
    return scenario


def test_a_gang_is_spread_as_a_whole() -> None:
    decided = zones("a", "b", "c").gang("g", 7, **X).decide()
    assert sorted(decided.where("g").values()) == [2, 2, 3]


def test_pods_of_all_schedulers_and_of_the_gang_count() -> None:
    scenario = zones("a", "b").foreign_pod("old", "a-0", labels={"app": "x"})
    assert scenario.gang("g", 3, **X).decide().where("g") == {"a": 1, "b": 2}
    other = zones("a", "b").gang("g", 4, **X, on=["a-0", "a-0"])
    assert other.decide().where("g") == {"b": 2}


def test_pods_of_other_namespaces_or_labels_do_not_count() -> None:
    scenario = zones("a", "b").foreign_pod("far", "a-0", namespace="far", labels={"app": "x"})
    scenario.foreign_pod("other", "a-0", labels={"app": "y"}).gang("g", 2, **X)
    assert scenario.decide().where("g") == {"a": 1, "b": 1}


def test_a_gang_placed_earlier_in_the_cycle_counts() -> None:
    scenario = zones("a", "b", cpu=3).gang("g", 1, **X).gang("h", 1, **X).gang("i", 2, **X)
    decided = scenario.decide()
    assert len(decided.placed()) == 3
    counts = [decided.where(name) for name in "ghi"]
    assert sum(each.get("a", 0) for each in counts) == 2


def test_a_domain_without_capacity_limits_the_others() -> None:
    scenario = zones("a", "b").nodes("c", labels={ZONE: "c"}, used={"cpu": 64000}).gang("g", 3, **X)
    verdict = scenario.decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    evidence = [(each.subject, each.finding) for each in verdict.evidence]
    assert ("topology spread by zone", "maxSkew 1; pods there now: a 0, b 0, c 0") in evidence
    assert scenario.change("g", min_member=2).decide().where("g") == {"a": 1, "b": 1}


def test_the_reason_is_the_spread_if_capacity_does_not_help() -> None:
    """Zone c has a node on which the pods may not run, and counts: its taint is ignored."""
    taint = Taint("dedicated", "NoSchedule")
    scenario = zones("a", "b").nodes("c", labels={ZONE: "c"}, taints=[taint]).gang("g", 3, **X)
    verdict = scenario.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_DOMAIN_CAPACITY
    assert "topology spread by zone" in verdict.message
    honoring = {**X, "spread": [spread(taints=True)]}
    assert sorted(scenario.gang("g", 3, **honoring).decide().where("g").values()) == [1, 2]


def test_pods_elsewhere_are_the_reason() -> None:
    scenario = zones("a", "b", cpu=3).foreign_pod("old", "a-0", labels={"app": "x"})
    scenario.foreign_pod("old-2", "a-0", labels={"app": "x"})
    scenario.gang("g", 1, selector={"group": "a"}, labels={"app": "x"}, spread=[spread(affinity=False)])
    verdict = scenario.decide().verdict("g")
    assert verdict.reason is Reason.TOPOLOGY_SPREAD
    assert verdict.message == "topology spread by zone allows 0 of 1 pod now"
    assert verdict.evidence[1].finding == "maxSkew 1 would be 3 in a; pods there now: a 2, b 0"


def test_the_node_selector_restricts_the_domains_unless_it_is_ignored() -> None:
    scenario = zones("a", "b", "c").gang("g", 4, selector={ZONE: "a"}, **X)
    assert scenario.decide().where("g") == {"a": 4}
    ignoring = {**X, "spread": [spread(affinity=False)]}
    assert "g" in scenario.gang("g", 4, selector={ZONE: "a"}, **ignoring).decide().reasons()
    assert scenario.gang("g", 1, selector={ZONE: "a"}, **ignoring).decide().where("g") == {"a": 1}


def test_fewer_domains_than_min_domains_count_as_empty() -> None:
    three = {**X, "spread": [spread(least=3)]}
    assert "g" in zones("a", "b").gang("g", 3, **three).decide().reasons()
    assert zones("a", "b").gang("g", 2, **three).decide().where("g") == {"a": 1, "b": 1}
    assert len(zones("a", "b", "c").gang("g", 6, **three).decide().nodes("g")) == 6


def test_a_node_without_the_label_is_not_used() -> None:
    verdict = Scenario().nodes("a").gang("g", 1, **X).decide().verdict("g")
    assert verdict.reason is Reason.NO_ELIGIBLE_NODE
    assert verdict.message == "0 of 1 node is eligible: 1 no label zone for topology spread"


def test_two_constraints_hold_together() -> None:
    both = {**X, "spread": [spread(), spread("kubernetes.io/hostname")]}
    scenario = Scenario().nodes("a", 2, labels={ZONE: "a"}).nodes("b", 2, labels={ZONE: "b"})
    decided = scenario.gang("g", 6, **both).decide()
    assert decided.where("g") == {"a": 3, "b": 3}
    counts = sorted(decided.nodes("g").count(node) for node in ("a-0", "a-1", "b-0", "b-1"))
    assert counts == [1, 1, 2, 2]


def test_terminating_pods_do_not_count() -> None:
    scenario = zones("a", "b").gang("old", 1, on=["a-0"], labels={"app": "x"})
    ended = tuple(replace(pod, deleting=True) for pod in scenario.members("old"))
    one = {**X, "spread": [spread()]}
    scenario.gang("g", 1, selector={ZONE: "a"}, **{**one, "spread": [spread(affinity=False)]})
    assert "g" in scenario.decide().reasons()
    assert scenario.change("old", members=ended).decide().where("g") == {"a": 1}


def test_a_victim_that_is_counted_gives_its_place() -> None:
    scenario = zones("a", "b", cpu=1).gang("low", 1, on=["a-0"], **X).gang("high", 2, priority=5, **X)
    assert scenario.decide().evicted() == ["low-0"]


@pytest.mark.parametrize("skew", [1, 2, 3])
@holds(15)
@given(
    there=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    free=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    size=st.integers(1, 5),
)
def test_a_gang_is_placed_exactly_if_its_pods_could_be_bound_one_by_one(
    skew: int, there: list[int], free: list[int], size: int
) -> None:
    """The documented rule, pod by pod: any order of any choices in which each pod is accepted."""
    scenario = Scenario()
    for index, count in enumerate(there):
        scenario.nodes(f"z{index}", cpu=max(1, free[index]), labels={ZONE: f"z{index}"})
        if not free[index]:
            scenario.nodes(f"z{index}", cpu=1, labels={ZONE: f"z{index}"}, used={"cpu": 1000})
        for number in range(count):
            scenario.foreign_pod(f"old-{index}-{number}", f"z{index}-0", labels={"app": "x"})
    scenario.gang("g", size, labels={"app": "x"}, spread=[spread(skew=skew)])
    decided = scenario.decide()
    assert bool(decided.placed()) == can_bind(tuple(there), tuple(free[: len(there)]), size, skew)
    where = decided.where("g")
    final = [count + where.get(f"z{index}", 0) for index, count in enumerate(there)]
    assert all(final[int(zone[1:])] - min(final) <= skew for zone in where)


def can_bind(counts: tuple[int, ...], free: tuple[int, ...], left: int, skew: int) -> bool:
    """Whether some sequence of single placements exists in which the skew never exceeds the limit."""
    if not left:
        return True
    return any(
        can_bind(_plus(counts, zone, 1), _plus(free, zone, -1), left - 1, skew)
        for zone, left_there in enumerate(free)
        if left_there and counts[zone] + 1 - min(counts) <= skew
    )


def _plus(counts: tuple[int, ...], index: int, by: int) -> tuple[int, ...]:
    return (*counts[:index], counts[index] + by, *counts[index + 1 :])


class Machine(Struct, frozen=True):
    zone: str
    cores: int
    is_special: bool
    """Whether the selector of some members allows it."""
    old: int
    """Counted pods that run there."""


MACHINES = st.lists(
    st.builds(
        Machine,
        zone=st.sampled_from("ab"),
        cores=st.integers(1, 3),
        is_special=st.booleans(),
        old=st.integers(0, 1),
    ),
    min_size=1,
    max_size=3,
)


@holds(40)
@given(machines=MACHINES, plain=st.integers(0, 3), special=st.integers(1, 2), labels=st.sampled_from("xy"))
def test_members_with_a_node_selector_count_only_on_nodes_that_it_allows(
    machines: list[Machine], plain: int, special: int, labels: str
) -> None:
    """Each member has the constraint. What a member counts is on nodes that its own selector allows."""
    scenario = Scenario()
    for index, each in enumerate(machines):
        marks = {"special": "yes"} if each.is_special else {}
        scenario.nodes(f"m{index}", cpu=each.cores, labels={ZONE: each.zone, **marks})
        for number in range(each.old):
            scenario.foreign_pod(f"old-{index}-{number}", f"m{index}-0", labels={"app": "x"})
    chosen = {"cpu": 1, "labels": {"app": labels}, "spread": [spread()], "selector": {"special": "yes"}}
    scenario.gang("g", special, **chosen)
    if plain:
        scenario.role("g", plain, cpu=1, role="plain", **X).change("g", min_member=plain + special)
    decided = scenario.decide()
    counted = [labels == "x"] * special + [True] * plain
    possible = [
        nodes
        for nodes in product(range(len(machines)), repeat=special + plain)
        if are_enough_cores(machines, nodes)
        and all(
            may_be(machines, nodes, member, counted, only_special=member < special)
            for member in range(special + plain)
        )
    ]
    assert bool(decided.placed()) == bool(possible)
    where = {bind.name: int(bind.node[1:-2]) for each in decided.placements("g") for bind in each.binds}
    assert not where or tuple(where[f"g-{member}"] for member in range(special + plain)) in possible


def are_enough_cores(machines: list[Machine], nodes: tuple[int, ...]) -> bool:
    return all(nodes.count(index) <= each.cores for index, each in enumerate(machines))


def may_be(
    machines: list[Machine], nodes: tuple[int, ...], member: int, counted: list[bool], *, only_special: bool
) -> bool:
    """Whether the constraint of this member holds where all members are."""
    mine = [index for index, each in enumerate(machines) if each.is_special or not only_special]
    if nodes[member] not in mine:
        return False
    pods = Counter({machines[index].zone: 0 for index in mine})
    for index in mine:
        pods[machines[index].zone] += machines[index].old
    for node, is_counted in zip(nodes, counted, strict=True):
        if is_counted and node in mine:
            pods[machines[node].zone] += 1
    return pods[machines[nodes[member]].zone] - min(pods.values()) <= 1
