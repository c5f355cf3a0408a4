"""Preferred pod affinity and anti-affinity: examples, and small gangs against all of their placements."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.pods import AffinityTerm
from phalanx.model.selectors import labels_match

from tests.builders import Decided, Scenario, term
from tests.examples import holds

HOST, RACK = "kubernetes.io/hostname", "test/rack"
APP = {"labels": {"app": "x"}}


def racks(*sizes: int, cpu: int = 4) -> Scenario:
    """Racks r0, r1… with these numbers of nodes, named r0-0 and so on."""
    scenario = Scenario("rack")
    for index, size in enumerate(sizes):
        scenario.nodes(f"r{index}", size, cpu=cpu, within=f"r{index}")
    return scenario


def costs(scenario: Scenario, config: SchedulerConfig | None = None) -> dict[str, int]:
    """What each node costs the only waiting pod; nodes without a cost are left out."""
    session = Session(scenario.snapshot(), config or SchedulerConfig())
    (pod,) = [pod for gang in session.waiting for pod in gang.members if pod.is_waiting]
    return {str(node): cost for node, cost in session.eligibility(pod).cost.items()}


def with_arguments(**arguments: Any) -> SchedulerConfig:
    return SchedulerConfig(plugins=(PluginConfig("pod-affinity", arguments=arguments),))


def test_a_pod_is_drawn_to_pods_that_it_prefers() -> None:
    scenario = racks(1, 1, 1).foreign_pod("s", "r1-0", **APP).foreign_pod("t", "r1-0", **APP)
    scenario.foreign_pod("u", "r2-0", **APP).pod("p", attracted=[(30, term(RACK, app="x"))])
    assert costs(scenario) == {"r0-0": 60, "r2-0": 30}
    assert scenario.decide().nodes("p") == ["r1-0"]


def test_a_pod_keeps_away_from_pods_that_it_avoids() -> None:
    scenario = racks(1, 1).foreign_pod("s", "r0-0", **APP).pod("p", attracted=[(-5, term(RACK, app="x"))])
    assert costs(scenario) == {"r0-0": 5}
    assert scenario.decide().nodes("p") == ["r1-0"]


def test_preferred_terms_of_placed_pods_count_for_a_pod_that_they_select() -> None:
    scenario = racks(1, 1, 1).foreign_pod("s", "r1-0", attracted=[(30, term(RACK, app="x"))])
    scenario.foreign_pod("t", "r2-0", attracted=[(-1, term(HOST, app="x"))]).pod("p", **APP)
    assert costs(scenario) == {"r0-0": 30, "r2-0": 31}
    assert not costs(scenario.pod("p", labels={"app": "y"}))


def test_required_affinity_of_placed_pods_counts_as_configured() -> None:
    scenario = racks(1, 1).foreign_pod("s", "r1-0", near=[term(RACK, app="x")]).pod("p", **APP)
    assert costs(scenario) == {"r0-0": 1}
    assert costs(scenario, with_arguments(hardPodAffinityWeight=70)) == {"r0-0": 70}
    assert costs(scenario, with_arguments(hardPodAffinityWeight=0)) == {}


def test_terms_of_placed_pods_can_be_ignored_for_pods_without_terms() -> None:
    ignoring = with_arguments(ignorePreferredTermsOfExistingPods=True)
    scenario = racks(1, 1).foreign_pod("s", "r1-0", attracted=[(30, term(RACK, app="x"))])
    assert costs(scenario.pod("p", **APP), ignoring) == {}
    scenario.pod("p", **APP, attracted=[(1, term(RACK, app="y"))])
    assert costs(scenario, ignoring) == {"r0-0": 30}


def test_a_term_that_is_written_twice_counts_twice() -> None:
    twice = [(7, term(RACK, app="x"))] * 2
    scenario = racks(1, 1).foreign_pod("s", "r1-0", **APP).pod("p", attracted=twice)
    assert costs(scenario) == {"r0-0": 14}


def test_nodes_without_the_label_are_near_none() -> None:
    scenario = racks(1).nodes("bare", 2).foreign_pod("s", "bare-0", **APP)
    assert costs(scenario.pod("p", attracted=[(30, term(RACK, app="x"))])) == {}


def test_pods_that_are_placed_in_the_same_cycle_count() -> None:
    scenario = racks(1, 1, 1)
    for name in "abc":
        scenario.pod(name, **APP, attracted=[(-5, term(RACK, app="x"))])
    assert sorted(node for name in "abc" for node in scenario.decide().nodes(name)) == [
        "r0-0",
        "r1-0",
        "r2-0",
    ]


def test_replicas_are_spread_over_nodes_where_capacity_allows_it() -> None:
    apart = [(-100, term(HOST, app="x"))]
    scenario = racks(3).gang("g", 3, **APP, attracted=apart)
    assert scenario.decide().nodes("g") == ["r0-0", "r0-1", "r0-2"]
    scenario.gang("g", 5, **APP, attracted=apart)
    assert sorted(scenario.decide().nodes("g")) == ["r0-0", "r0-0", "r0-1", "r0-1", "r0-2"]


def test_a_preferred_level_is_more_important() -> None:
    scenario = racks(2, 2).gang("g", 4, **APP, attracted=[(-100, term(RACK, app="x"))], preferred="rack")
    found = scenario.decide()
    assert set(found.where("g").values()) == {4}
    assert certificate(found).terms[:2] == ("domains:rack", "cost")


def test_the_replacement_of_a_lost_member_keeps_away_from_the_others() -> None:
    apart = [(-100, term(HOST, app="x"))]
    scenario = racks(3).gang("g", 3, **APP, attracted=apart, on=["r0-0", "r0-1"], started=True)
    assert scenario.decide().nodes("g") == ["r0-2"]


def test_roles_prefer_each_other() -> None:
    scenario = racks(2, 2, cpu=2).gang("g", 2, role="a", labels={"app": "y"}, cpu=2)
    scenario.role("g", 2, role="b", cpu=2, attracted=[(1, term(RACK, app="y"))]).change("g", min_member=4)
    found = scenario.decide()
    at = {str(pod): str(node)[:2] for pod, node in found.binds.items()}
    assert sorted((at["g-0"], at["g-1"])) == sorted((at["g-2"], at["g-3"])) == ["r0", "r1"]
    assert (certificate(found).objective, certificate(found).proven) == ((2,), True)


def certificate(found: Decided) -> Any:
    (placement,) = found.placements("g")
    return placement.certificate


# --- against all placements ---------------------------------------------------------------------------------


class Kind(Struct, frozen=True):
    """Pods with the same label and the same preferred terms, each with its weight."""

    app: str
    prefers: tuple[tuple[int, AffinityTerm], ...] = ()
    requires: tuple[AffinityTerm, ...] = ()
    """Only of pods that are placed."""


class Case(Struct, frozen=True):
    """The rack of each node (empty for none), placed pods with the index of their node, and the gang."""

    racks: tuple[str, ...]
    there: tuple[tuple[Kind, int], ...]
    gang: tuple[tuple[Kind, int], ...]
    cpu: int


TERMS = st.builds(term, st.sampled_from((HOST, RACK)), app=st.sampled_from("xy"))


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    weighted = st.tuples(st.sampled_from((1, 30, 100, -1, -30, -100)), TERMS)
    return Kind(draw(st.sampled_from("xxyz")), tuple(draw(st.lists(weighted, max_size=3))))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = tuple(draw(st.lists(st.sampled_from(("a", "b", "b", "")), min_size=1, max_size=4)))
    requires = st.lists(TERMS, max_size=1).map(tuple)
    placed = st.builds(lambda kind, needs: Kind(kind.app, kind.prefers, needs), kinds(), requires)
    there = st.lists(st.tuples(placed, st.integers(0, len(nodes) - 1)), max_size=3)
    gang = st.lists(st.tuples(kinds(), st.integers(1, 2)), min_size=1, max_size=2)
    return Case(nodes, tuple(draw(there)), tuple(draw(gang)), draw(st.integers(1, 4)))


def scenario_of(case: Case) -> Scenario:
    scenario = Scenario("rack")
    for index, rack in enumerate(case.racks):
        scenario.nodes(f"n{index}", cpu=case.cpu, within=rack)
    for index, (kind, node) in enumerate(case.there):
        fields = {"attracted": kind.prefers, "near": kind.requires, "labels": {"app": kind.app}}
        scenario.foreign_pod(f"s{index}", f"n{node}-0", **fields)
    for index, (kind, count) in enumerate(case.gang):
        add = scenario.role if index else scenario.gang
        add("g", count, role=f"role-{index}", labels={"app": kind.app}, attracted=kind.prefers)
    return scenario.change("g", min_member=sum(count for _, count in case.gang))


Place = tuple[Kind, int]
"""A pod and the index of its node."""


def selects(one: AffinityTerm, kind: Kind) -> bool:
    assert one.selector is not None
    return labels_match({"app": kind.app}, one.selector)


def are_near(case: Case, key: str, one: int, other: int) -> bool:
    return one == other if key == HOST else case.racks[one] == case.racks[other] != ""


def score(case: Case, pod: Place, there: Sequence[Place]) -> int:
    """What Kubernetes adds up for one pod: its own terms, then those of the pods that are there."""
    kind, node = pod
    total = 0
    for other, place in there:
        for (weight, one), selected in (
            *((each, other) for each in kind.prefers),
            *((each, kind) for each in other.prefers),
            *(((1, one), kind) for one in other.requires),
        ):
            total += weight if selects(one, selected) and are_near(case, one.topology_key, node, place) else 0
    return total


def value(case: Case, places: Sequence[Place]) -> int:
    """The scores of the pods when they are placed one after the other; the order makes no difference."""
    return sum(score(case, pod, [*case.there, *places[:number]]) for number, pod in enumerate(places))


@holds(60)
@given(cases())
def test_no_placement_of_a_small_gang_is_worth_more(case: Case) -> None:
    pods = [kind for kind, count in case.gang for _ in range(count)]
    ways = [
        list(zip(pods, nodes, strict=True))
        for nodes in itertools.product(range(len(case.racks)), repeat=len(pods))
        if max(map(nodes.count, nodes)) <= case.cpu
    ]
    found = scenario_of(case).decide()
    if not ways:
        assert not found.nodes("g")
        return
    at = {str(pod): int(str(node)[1]) for pod, node in found.binds.items()}
    chosen = [(kind, at[f"g-{index}"]) for index, kind in enumerate(pods)]
    proof = certificate(found)
    assert proof.proven
    assert value(case, chosen) == max(value(case, way) for way in ways)
    assert value(case, chosen) == value(case, list(reversed(chosen)))


@pytest.mark.parametrize("key", [HOST, RACK])
def test_the_cost_is_what_the_best_nodes_and_pairs_would_be_worth_more(key: str) -> None:
    """The first node is worth 5 to each pod. Both pods there cost 2 * 30 for each other; apart one misses
    5."""
    scenario = racks(1, 1).foreign_pod("s", "r0-0", labels={"app": "s"})
    scenario.gang("g", 2, **APP, attracted=[(-30, term(key, app="x")), (5, term(key, app="s"))])
    found = scenario.decide()
    assert found.where("g") == {"r0": 1, "r1": 1}
    assert (certificate(found).terms, certificate(found).objective) == (("cost",), (5,))
