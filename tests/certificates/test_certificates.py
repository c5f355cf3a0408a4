"""Certificates against docs/certificates.md: objectives, bounds and proofs compared with all placements.

`python -m bench.certificates` tries more cases, and PHALANX_EXAMPLES too.
"""

import ast
from pathlib import Path
from types import ModuleType

import pytest
from msgspec import structs

from tests.certificates import move_cases, victim_cases
from tests.certificates.cases import MAKES, drawn
from tests.certificates.cluster import CPU, GPU, Case, Gang, Kind, Node, Pod, Subgroup
from tests.certificates.compare import checked, decided
from tests.examples import examples

FOLDER = Path(__file__).parent
RACK = (("rack", "example.com/rack"),)


@pytest.mark.properties
@pytest.mark.parametrize("number", range(len(MAKES)), ids=[make.__name__ for make in MAKES])
def test_certificates_agree_with_all_placements(number: int) -> None:
    for seed in range(number, examples(4) * len(MAKES), len(MAKES)):
        assert [(seed, each.errors) for each in checked(drawn(seed)) if each.errors] == []


@pytest.mark.properties
@pytest.mark.parametrize("cases", [victim_cases, move_cases], ids=["victims", "moves"])
def test_what_verdicts_say_of_evictions_agrees_with_all_choices(cases: ModuleType) -> None:
    for seed in range(examples(20)):
        assert [(seed, each.errors) for each in cases.checked(cases.drawn(seed)) if each.errors] == []


@pytest.mark.parametrize("name", ["cluster", "fragments", "moves", "search", "terms", "victims"])
def test_the_oracle_shares_no_code_with_the_product(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    assert [module for module in modules if module.startswith("phalanx")] == []


def node(name: str, gpus: int, rack: str = "", used: int = 0) -> tuple[Node, list[Pod]]:
    """A node, and another scheduler's pod with the used GPUs."""
    labels = {"example.com/rack": rack} if rack else {}
    busy = Pod(f"busy-{name}", Kind(((GPU, used),)), node=name)
    return Node(name, labels, {CPU: 64_000, GPU: gpus, "pods": 110}), [busy] if used else []


def case(gang: Gang, pods: list[Pod], *nodes: tuple[Node, list[Pod]]) -> Case:
    """The gang `g` with these pods on these nodes."""
    busy = [pod for _, pods_there in nodes for pod in pods_there]
    return Case(RACK, tuple(each for each, _ in nodes), (gang,), (*busy, *pods))


def pods(*gpus: int, on: str = "") -> list[Pod]:
    """Pods of the gang `g` with these GPUs; the first one runs on the node `on`."""
    return [
        Pod(f"g-{index}", Kind(((GPU, count),)), "g", on if index == 0 else "")
        for index, count in enumerate(gpus)
    ]


def placed(example: Case) -> tuple[set[str], tuple[int, ...]]:
    """The nodes of the last placement and its objective, which must be proven."""
    assert [each.errors for each in checked(example) if each.errors] == []
    last = [placement for cycle in decided(example) for placement in cycle][-1]
    assert last.certificate.proven
    return {bind.node for bind in last.binds}, last.certificate.objective


def test_a_small_gang_leaves_the_whole_node_to_others() -> None:
    nodes = (node("a", 8, "a"), *(node(f"b{index}", 8, "b", used=7) for index in range(3)))
    found, objective = placed(case(Gang("g", 2, required="rack"), pods(1, 1), *nodes))
    assert (found < {"b0", "b1", "b2"}, objective) == (True, (3,))


def test_a_single_pod_leaves_the_whole_node_to_others() -> None:
    nodes = (node("a", 8, "a"), node("b", 8, "b", used=5))
    assert placed(case(Gang("g", 1, preferred="rack"), pods(1), *nodes)) == ({"b"}, (1, 3))


def test_a_node_without_the_label_is_a_domain_of_its_own() -> None:
    nodes = (node("x", 2), node("a", 8, "a"), *(node(f"b{index}", 8, "b", used=7) for index in range(3)))
    assert placed(case(Gang("g", 2, preferred="rack"), pods(1, 1), *nodes)) == ({"x"}, (1, 2))


def test_a_late_member_joins_the_gang_on_a_node_without_the_label() -> None:
    nodes = (node("x", 8, used=6), node("b", 8, "b", used=7))
    gang = Gang("g", 1, preferred="rack", started=True)
    assert placed(case(gang, pods(1, 1, on="x"), *nodes)) == ({"x"}, (0, 1, 0))


def test_kinds_of_pods_count_by_their_part_of_the_largest_node() -> None:
    nodes = (node("a0", 8, "a"), node("a1", 1, "a"), node("b0", 8, "b"), node("b1", 8, "b"))
    found, objective = placed(case(Gang("g", 2, required="rack"), pods(8, 1), *nodes))
    assert (found, objective) == ({"a0", "a1"}, (2125,))


def test_a_limit_decides_how_many_pods_the_domain_must_hold() -> None:
    """The first member has finished, so that no domain is taken. The limit allows two of the four others."""
    nodes = (node("a", 4, "a"), node("b", 2, "b"))
    first, *others = pods(1, 1, 1, 1, 1, on="a")
    gang = Gang("g", 1, preferred="rack", started=True)
    example = case(gang, [structs.replace(first, finished=True), *others], *nodes)
    found, objective = placed(structs.replace(example, limit={GPU: 2}))
    assert (found, objective) == ({"b"}, (2, 1, 2))


def test_the_node_of_a_member_is_tried_beside_equal_nodes() -> None:
    """The nodes `a` and `x` lack the label, and have one GPU left for the late member."""
    nodes = (node("a", 4, used=3), node("x", 4, used=2))
    gang = Gang("g", 1, preferred="rack", started=True)
    assert placed(case(gang, pods(1, 1, on="x"), *nodes)) == ({"x"}, (0, 1, 0))


def test_a_node_of_a_member_is_no_further_domain_of_another_topology() -> None:
    """Node `x` has no ring; the member of the subgroup that runs there makes it one of its domains."""
    nodes = (node("b", 8, "b", used=7), node("x", 8, "b", used=6))
    ring = Subgroup("s", preferred="ring", topology="cable")
    gang = Gang("g", 1, preferred="rack", started=True, subgroups=(ring,))
    members = [
        structs.replace(pod, kind=structs.replace(pod.kind, subgroup="s")) for pod in pods(1, 1, on="x")
    ]
    cable = {"cable": (("ring", "example.com/ring"),)}
    assert placed(structs.replace(case(gang, members, *nodes), others=cable)) == ({"x"}, (0, 1, 1, 0))


def test_nodes_with_an_empty_label_value_are_in_one_domain() -> None:
    nodes = [node(f"n{index}", 1, "x") for index in range(2)]
    empty = [(structs.replace(each, labels={"example.com/rack": ""}), busy) for each, busy in nodes]
    assert placed(case(Gang("g", 2, required="rack"), pods(1, 1), *empty)) == ({"n0", "n1"}, (2,))


def test_shares_of_gpus_count_by_their_part_of_the_largest_node() -> None:
    """A quarter and a half of the two GPUs of the node: 125 and 250 thousandths of it."""
    shared = Node("n", {"example.com/rack": "a"}, {CPU: 64_000, "pods": 110}, shared_gpus=2)
    members = [Pod(f"g-{size}", Kind(share=size), "g") for size in (250, 500)]
    assert placed(case(Gang("g", 2, required="rack"), members, (shared, []))) == ({"n"}, (125 * 8 + 250 * 4,))
