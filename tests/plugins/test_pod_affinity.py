"""Required pod affinity and anti-affinity: examples, and checks against the filter of Kubernetes."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.model.pods import AffinityTerm
from phalanx.model.reasons import Reason
from phalanx.model.selectors import labels_match

from tests.builders import Scenario, term
from tests.examples import holds

HOST, RACK = "kubernetes.io/hostname", "test/rack"
APP = {"labels": {"app": "x"}}


def racks(*sizes: int, cpu: int = 4) -> Scenario:
    """Racks r0, r1… with these numbers of nodes, named r0-0 and so on."""
    scenario = Scenario("rack")
    for index, size in enumerate(sizes):
        scenario.nodes(f"r{index}", size, cpu=cpu, within=f"r{index}")
    return scenario


def test_one_pod_of_a_role_per_node() -> None:
    scenario = racks(3).gang("g", 3, **APP, apart=[term(HOST, app="x")])
    assert scenario.decide().nodes("g") == ["r0-0", "r0-1", "r0-2"]


def test_anti_affinity_of_more_pods_than_nodes_is_infeasible() -> None:
    scenario = racks(3).gang("g", 4, **APP, apart=[term(HOST, app="x")])
    found = scenario.decide().verdict("g")
    assert found.reason is Reason.ABOVE_DOMAIN_CAPACITY
    assert found.message.startswith(f"pod anti-affinity by {HOST} is infeasible even in the empty cluster")
    assert found.message.endswith("3 of 4 pods fit")
    assert found.next_step == "Remove podAntiAffinity, or lower minMember to 3, or add 1 node like r0-0"


def test_one_pod_of_a_role_per_rack() -> None:
    scenario = racks(2, 1, 2).gang("g", 3, **APP, apart=[term(RACK, app="x")])
    assert scenario.decide().where("g") == {"r0": 1, "r1": 1, "r2": 1}


def test_pods_whose_anti_affinity_does_not_match_each_other_share_nodes() -> None:
    scenario = racks(1).gang("g", 3, **APP, apart=[term(HOST, app="y")])
    assert scenario.decide().nodes("g") == ["r0-0"] * 3


@pytest.mark.parametrize("key", [HOST, RACK])
def test_two_roles_with_anti_affinity_to_each_other(key: str) -> None:
    scenario = racks(1, 1).gang("g", 2, role="a", **APP, apart=[term(key, app="y")])
    result = scenario.role("g", 2, role="b", labels={"app": "y"}).change("g", min_member=4).decide()
    at = {str(pod): node for pod, node in result.binds.items()}
    assert at["g-0"] == at["g-1"] != at["g-2"] == at["g-3"]


def test_anti_affinity_with_foreign_pods_holds_in_both_directions() -> None:
    scenario = racks(1, 1, 1).foreign_pod("s", "r0-0", **APP)
    scenario.foreign_pod("avoiding", "r1-0", apart=[term(RACK, app="z")])
    scenario.gang("g", 1, labels={"app": "z"}, apart=[term(RACK, app="x")])
    assert scenario.decide().nodes("g") == ["r2-0"]


def test_a_gang_waits_while_placed_pods_match_its_anti_affinity() -> None:
    scenario = racks(1).foreign_pod("s", "r0-0", **APP).gang("g", 1, apart=[term(HOST, app="x")])
    found = scenario.decide().verdict("g")
    assert found.reason is Reason.POD_ANTI_AFFINITY
    assert f"1 excluded by pod anti-affinity by {HOST}" in found.message


def test_terms_select_pods_of_their_namespaces_only() -> None:
    scenario = racks(1).foreign_pod("s", "r0-0", **APP, namespace="other")
    assert scenario.gang("g", 1, apart=[term(HOST, app="x")]).decide().nodes("g") == ["r0-0"]
    scenario.gang("g", 1, apart=[term(HOST, app="x", namespace="other")])
    assert scenario.decide().nodes("g") == []


def test_affinity_to_a_running_pod() -> None:
    scenario = racks(2, 2).foreign_pod("s", "r1-0", **APP).gang("g", 2, near=[term(RACK, app="x")])
    assert scenario.decide().where("g") == {"r1": 2}


def test_affinity_without_a_matching_pod() -> None:
    found = racks(2).gang("g", 1, near=[term(RACK, app="x")]).decide().verdict("g")
    assert found.reason is Reason.POD_AFFINITY
    assert f"2 no pod there matches pod affinity by {RACK}" in found.message


def test_affinity_of_pods_to_each_other_allows_the_first_one_anywhere() -> None:
    scenario = racks(1, 2).gang("g", 6, **APP, near=[term(RACK, app="x")])
    assert scenario.decide().where("g") == {"r1": 6}


def test_affinity_to_another_role() -> None:
    scenario = racks(2, 2, cpu=2).gang("g", 1, role="a", labels={"app": "y"}, cpu=2)
    scenario.role("g", 2, role="b", near=[term(RACK, app="y")]).change("g", min_member=3)
    result = scenario.decide()
    assert len(result.where("g")) == 1


def test_affinity_includes_pods_placed_in_the_same_cycle() -> None:
    """a is placed anywhere, b in another rack, c in the rack of a."""
    scenario = racks(2, 2).gang("a", 1, **APP).gang("b", 1, apart=[term(RACK, app="x")])
    result = scenario.gang("c", 1, near=[term(RACK, app="x")]).decide()
    rack = {name: result.nodes(name)[0][:2] for name in "abc"}
    assert rack["a"] == rack["c"] != rack["b"]


def test_anti_affinity_of_a_replacement_includes_running_members() -> None:
    scenario = racks(3).gang("g", 3, **APP, apart=[term(HOST, app="x")], on=["r0-0", "r0-1"], started=True)
    assert scenario.decide().nodes("g") == ["r0-2"]


def test_a_refusal_holds_until_the_pods_are_gone() -> None:
    scenario = racks(1).gang("h", 1, **APP, on=["r0-0"]).gang("g", 1, apart=[term(HOST, app="x")])
    assert scenario.take(scenario.decide()).decide().verdict("g").reason is Reason.POD_ANTI_AFFINITY
    assert scenario.remove("h").decide().nodes("g") == ["r0-0"]


def test_anti_affinity_between_equal_gangs_of_one_cycle() -> None:
    scenario = racks(1, 1)
    for name in "abc":
        scenario.gang(name, 1, **APP, apart=[term(RACK, app="x")])
    result = scenario.decide()
    assert sorted([*result.where("a"), *result.where("b")]) == ["r0", "r1"]
    assert result.verdict("c").reason is Reason.POD_ANTI_AFFINITY


def test_affinity_of_pods_to_each_other_includes_placed_pods() -> None:
    scenario = racks(1, 3).foreign_pod("s", "r0-0", **APP).gang("g", 4, **APP, near=[term(RACK, app="x")])
    assert scenario.decide().where("g") == {"r0": 4}
    scenario.gang("g", 5, **APP, near=[term(RACK, app="x")])
    assert scenario.decide().nodes("g") == []


@pytest.mark.parametrize("key", [RACK, "row"])
def test_an_empty_label_is_a_domain_and_a_missing_one_is_not(key: str) -> None:
    scenario = (
        Scenario("rack").nodes("empty", 2, labels={key: ""}).nodes("none", 2).nodes("a", 2, labels={key: "a"})
    )
    scenario.gang("g", 6, **APP, cpu=40, apart=[term(key, app="x")], min=1)
    assert scenario.decide().where("g") == {"a": 1, "empty": 1, "none": 2}
    scenario.gang("g", 2, **APP, cpu=40, near=[term(key, app="x")], selector={"group": "empty"})
    assert scenario.decide().where("g") == {"empty": 2}
    scenario.gang("g", 2, **APP, cpu=40, near=[term(key, app="x")], selector={"group": "none"})
    assert scenario.decide().nodes("g") == []


def test_a_label_with_the_same_value_under_two_parents_is_one_domain() -> None:
    """Unlike racks with the same name in two zones of a topology, which are two domains."""
    scenario = (
        Scenario("zone", "rack").nodes("a", within="z1/r").nodes("b", within="z2/r").nodes("c", within="z2/s")
    )
    scenario.gang("g", 2, **APP, cpu=40, near=[term(RACK, app="x")])
    assert scenario.decide().where("g") == {"a": 1, "b": 1}
    scenario.gang("g", 2, **APP, apart=[term(RACK, app="x")])
    assert scenario.decide().where("g") in ({"a": 1, "c": 1}, {"b": 1, "c": 1})


def test_a_cycle_of_affinity_terms_is_refused() -> None:
    scenario = racks(2).gang("g", 1, role="a", **APP, near=[term(RACK, app="y")])
    scenario.role("g", 1, role="b", labels={"app": "y"}, near=[term(HOST, app="x")])
    found = scenario.change("g", min_member=2).decide().verdict("g")
    assert found.reason is Reason.UNSUPPORTED_FIELD
    assert found.message.startswith("spec.affinity.podAffinity: cyclic terms between members")


def test_a_chain_of_affinity_terms_is_allowed() -> None:
    scenario = racks(1, 1, cpu=3).gang("g", 1, role="a", **APP, near=[term(RACK, app="y")])
    scenario.role("g", 1, role="b", labels={"app": "y"}, near=[term(HOST, app="z")])
    scenario.role("g", 1, role="c", labels={"app": "z"}, selector={"group": "r1"})
    assert scenario.change("g", min_member=3).decide().where("g") == {"r1": 3}


def test_the_exception_for_the_first_pod_does_not_apply_where_matching_pods_exist() -> None:
    """Only r2 has capacity. Matching pods are in r0, which is cordoned, and in r1, which is then full."""
    scenario = racks(1, 1, 1).nodes("r0", cordoned=True, within="r0").foreign_pod("s", "r0-0", **APP)
    scenario.gang("g", 1, role="a", **APP, cpu=4, selector={"group": "r1"})
    scenario.role("g", 1, role="b", **APP, near=[term(RACK, app="x")]).change("g", min_member=2)
    assert scenario.decide().nodes("g") == []


class Kind(Struct, frozen=True):
    """Pods with the same labels and terms."""

    app: str
    cpu: int
    near: tuple[AffinityTerm, ...] = ()
    apart: tuple[AffinityTerm, ...] = ()


Roles = tuple[tuple[Kind, int], ...]
"""Each kind of a gang with its number of pods."""


class Case(Struct, frozen=True):
    """A cluster with pods, and gangs in the order in which they are tried."""

    racks: tuple[str, ...]
    there: tuple[tuple[Kind, int], ...]
    gangs: tuple[Roles, ...]


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    terms = st.builds(term, st.sampled_from((HOST, RACK)), app=st.sampled_from("xy"))
    some = st.lists(terms, max_size=2, unique=True)
    return Kind(
        app=draw(st.sampled_from("xxyyz")),
        cpu=draw(st.integers(1, 2)),
        near=tuple(draw(st.one_of(st.just([]), st.lists(terms, max_size=1), some))),
        apart=tuple(draw(st.one_of(st.just([]), some))),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = tuple(draw(st.lists(st.sampled_from(("a", "b", "b", "")), min_size=2, max_size=4)))
    there = st.tuples(kinds(), st.integers(0, len(nodes) - 1))
    known = draw(st.lists(kinds(), min_size=1, max_size=2))
    roles = st.lists(
        st.tuples(st.sampled_from(known), st.integers(1, 2)),
        min_size=1,
        max_size=2,
        unique_by=lambda one: id(one[0]),
    )
    gangs = draw(st.lists(roles.map(tuple), min_size=1, max_size=2))
    return Case(nodes, tuple(draw(st.lists(there, max_size=2))), tuple(gangs))


def scenario_of(case: Case) -> Scenario:
    scenario = Scenario("rack")
    for index, rack in enumerate(case.racks):
        scenario.nodes(f"n{index}", cpu=3, within=rack)
    for index, (kind, node) in enumerate(case.there):
        scenario.foreign_pod(f"s{index}", f"n{node}-0", labels={"app": kind.app}, apart=kind.apart)
    for number, roles in enumerate(case.gangs):
        for index, (kind, count) in enumerate(roles):
            fields: dict[str, Any] = {
                "role": f"role-{index}",
                "labels": {"app": kind.app},
                "near": kind.near,
                "apart": kind.apart,
                "cpu": kind.cpu,
            }
            add = scenario.role if index else scenario.gang
            add(f"g{number}", count, **fields)
        scenario.change(f"g{number}", min_member=sum(count for _, count in roles))
    return scenario


Place = tuple[Kind, int]
"""A pod and the index of its node."""


def selects(one: AffinityTerm, kind: Kind) -> bool:
    assert one.selector is not None
    return labels_match({"app": kind.app}, one.selector)


def domain_of(case: Case, key: str, node: int) -> str:
    return str(node) if key == HOST else case.racks[node]


def admits(case: Case, kind: Kind, node: int, there: Sequence[Place]) -> bool:
    """The filter of Kubernetes for one pod, given the placed pods."""
    for other, place in there:
        for one in kind.apart:
            here = domain_of(case, one.topology_key, node)
            if here and selects(one, other) and domain_of(case, one.topology_key, place) == here:
                return False
        for one in other.apart:
            here = domain_of(case, one.topology_key, node)
            if here and selects(one, kind) and domain_of(case, one.topology_key, place) == here:
                return False
    return is_near(case, kind, node, there)


def is_near(case: Case, kind: Kind, node: int, there: Sequence[Place]) -> bool:
    if not all(domain_of(case, one.topology_key, node) for one in kind.near):
        return False
    meant = [place for other, place in there if all(selects(one, other) for one in kind.near)]
    found = [{domain_of(case, one.topology_key, place) for place in meant} - {""} for one in kind.near]
    if all(
        domain_of(case, one.topology_key, node) in some for one, some in zip(kind.near, found, strict=True)
    ):
        return True
    return not any(found) and all(selects(one, kind) for one in kind.near)


def is_cycle(roles: Roles) -> bool:
    """Whether two kinds have affinity to each other by different terms."""
    return any(
        one.near != other.near and all(has_affinity(*pair) for pair in ((one, other), (other, one)))
        for (one, _), (other, _) in itertools.combinations(roles, 2)
    )


def may_be_incomplete(roles: Roles) -> bool:
    """Whether a role with several terms may be the first, and other roles of the gang match its terms."""
    return any(
        len(one.near) > 1
        and has_affinity(one, one)
        and any(has_affinity(one, other) for other, _ in roles if other.near != one.near)
        for one, _ in roles
    )


def has_affinity(one: Kind, other: Kind) -> bool:
    return bool(one.near) and all(selects(each, other) for each in one.near)


def is_reachable(case: Case, places: Sequence[Place], before: Sequence[Place]) -> bool:
    """Whether Kubernetes could place all pods in some order after those that were placed before."""
    for order in itertools.permutations(places):
        there = [*case.there, *before]
        for kind, node in order:
            if not admits(case, kind, node, there):
                break
            there.append((kind, node))
        else:
            return True
    return False


def placements(case: Case, roles: Roles, before: Sequence[Place]) -> Iterator[list[Place]]:
    pods = [kind for kind, count in roles for _ in range(count)]
    for nodes in itertools.product(range(len(case.racks)), repeat=len(pods)):
        places = list(zip(pods, nodes, strict=True))
        together = [*before, *places]
        loads = [
            sum(kind.cpu for kind, place in together if place == node) for node in range(len(case.racks))
        ]
        if max(loads) <= 3:
            yield places


@holds(30)
@given(cases())
def test_a_gang_starts_iff_kubernetes_could_place_its_pods_in_some_order(case: Case) -> None:
    scenario = scenario_of(case)
    result = scenario.decide()
    assert result.result.stats.errors == ()
    before: list[Place] = []
    for number, roles in enumerate(case.gangs):
        name = f"g{number}"
        if result.reasons().get(name) is Reason.UNSUPPORTED_FIELD:
            assert is_cycle(roles)
            continue
        if not result.placements(name):
            found = (
                places for places in placements(case, roles, before) if is_reachable(case, places, before)
            )
            assert may_be_incomplete(roles) or not any(found)
            continue
        pods = [kind for kind, count in roles for _ in range(count)]
        nodes = [int(result.binds[pod.uid][1]) for pod in scenario.members(name)]
        places = list(zip(pods, nodes, strict=True))
        assert is_reachable(case, places, before), places
        before += places
