"""HyperNodes of Volcano as labels of nodes, and as levels of a topology."""

from collections.abc import Mapping
from typing import Any

import pytest
from phalanx.model.api.volcano import HyperNode
from phalanx.model.conversion.hyper_nodes import HYPER_NODE_TIERS_MAX, HyperNodeTree, read_hyper_node

from tests.model.written import named


def exact(*names: str, of: str = "Node") -> list[dict[str, Any]]:
    return [{"type": of, "selector": {"exactMatch": {"name": name}}} for name in names]


def inside(*names: str) -> list[dict[str, Any]]:
    return exact(*names, of="HyperNode")


def pattern(text: str) -> list[dict[str, Any]]:
    return [{"type": "Node", "selector": {"regexMatch": {"pattern": text}}}]


def labelled(**selector: Any) -> list[dict[str, Any]]:
    return [{"type": "Node", "selector": {"labelMatch": selector}}]


def hyper_node(name: str, tier: int, members: list[dict[str, Any]]) -> HyperNode:
    found: HyperNode = named("HyperNode", name, spec={"tier": tier, "members": members})
    return found


def tree(*known: HyperNode) -> HyperNodeTree:
    return HyperNodeTree(map(read_hyper_node, known))


def domains(of: HyperNodeTree, node: str, labels: Mapping[str, str] | None = None) -> dict[int, str]:
    """The domain of a node per tier."""
    return {int(key.rpartition("-")[2]): name for key, name in of.labels_of(node, labels or {}).items()}


TWO_TIERS = (
    hyper_node("s0", 1, exact("n0", "n1")),
    hyper_node("s1", 1, exact("n2", "n3")),
    hyper_node("s2", 2, inside("s0", "s1")),
)


def test_a_node_is_in_a_hyper_node_and_those_around_it() -> None:
    found = tree(*TWO_TIERS)
    assert domains(found, "n0") == {1: "s0", 2: "s2"}
    assert domains(found, "n3") == {1: "s1", 2: "s2"}
    assert domains(found, "outside") == {}
    assert found.topology is not None
    names = [(level.name, level.node_label) for level in found.topology.levels]
    widest, narrowest = "topology.volcano.sh/tier-2", "topology.volcano.sh/tier-1"
    assert names == [(widest, widest), (narrowest, narrowest)]


def test_without_hyper_nodes_there_is_no_topology() -> None:
    assert tree().topology is None
    assert domains(tree(), "n0") == {}


def test_a_tree_with_branches_of_different_depth() -> None:
    """n0: 1, 3. n1: directly in tier 2, inside tier 3. n2: directly in tier 3."""
    found = tree(
        hyper_node("leaf", 1, exact("n0")),
        hyper_node("middle", 2, exact("n1")),
        hyper_node("top", 3, [*inside("leaf", "middle"), *exact("n2")]),
    )
    assert domains(found, "n0") == {1: "leaf", 2: "leaf", 3: "top"}
    assert domains(found, "n1") == {2: "middle", 3: "top"}
    assert domains(found, "n2") == {3: "top"}


def test_tiers_without_hyper_nodes_are_levels_too() -> None:
    found = tree(hyper_node("a", 3, exact("n0"))).topology
    assert found is not None
    assert [level.name[-1] for level in found.levels] == ["3", "2", "1"]
    zero = tree(hyper_node("a", 0, exact("n0"))).topology
    assert zero is not None
    assert [level.name[-1] for level in zero.levels] == ["0"]


@pytest.mark.parametrize(
    ("members", "nodes"),
    [
        (exact("n1"), {"n1"}),
        (exact("n1", "n2"), {"n1", "n2"}),
        (pattern("n[12]"), {"n1", "n2"}),
        (pattern("^1"), set()),
        (pattern("n(1"), set()),
        (labelled(matchLabels={"rack": "a"}), {"n1", "n3"}),
        (labelled(matchExpressions=[{"key": "rack", "operator": "Exists"}]), {"n1", "n2", "n3"}),
        (labelled(matchExpressions=[{"key": "rack", "operator": "Near"}]), set()),
        (labelled(), set()),
        ([*exact("n2"), *labelled(matchLabels={"rack": "a"})], {"n1", "n2", "n3"}),
        (inside("n1"), set()),
    ],
)
def test_which_nodes_are_members(members: list[dict[str, Any]], nodes: set[str]) -> None:
    found = tree(hyper_node("h", 1, members))
    racks = {"n1": "a", "n2": "b", "n3": "a"}
    assert {name for name, rack in racks.items() if domains(found, name, {"rack": rack})} == nodes


@pytest.mark.parametrize(
    "known",
    [
        (hyper_node("a", 1, [*exact("n"), *inside("b")]), hyper_node("b", 1, inside("a"))),
        (hyper_node("a", 1, [*exact("n"), *inside("a")]),),
    ],
)
def test_a_cycle_ends(known: tuple[HyperNode, ...]) -> None:
    """Only a wider HyperNode is around another one."""
    assert domains(tree(*known), "n") == {1: "a"}


def test_of_two_hyper_nodes_around_one_the_first_by_name_counts() -> None:
    leaf = hyper_node("leaf", 1, exact("n"))
    wide = [hyper_node(name, 2, inside("leaf")) for name in ("b", "a")]
    assert domains(tree(leaf, *wide), "n") == {1: "leaf", 2: "a"}


def test_tiers_out_of_bounds_do_not_count() -> None:
    far = hyper_node("far", HYPER_NODE_TIERS_MAX + 1, exact("n"))
    found = tree(far, hyper_node("below", -1, exact("n")), hyper_node("near", 1, exact("n")))
    assert domains(found, "n") == {1: "near"}
