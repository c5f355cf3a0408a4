"""A gang that fits one domain of the deepest level is placed in the tightest one."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.resources import GPU

from tests.actions.test_node_classes import classes
from tests.builders import Scenario
from tests.solver.problems import bounded

Nodes = list[tuple[str, int]]
"""Rack and free devices of each node. Nodes with the rack `b` lack the rack label."""

RACKS = st.sampled_from(("a/1", "a/2", "b/1", "b"))
NODES = st.lists(st.tuples(RACKS, st.integers(0, 4)), min_size=1, max_size=8)


def _cluster(nodes: Nodes) -> Scenario:
    scenario = Scenario("spine", "rack")
    for index, (rack, free) in enumerate(nodes):
        scenario.nodes(f"n{index}", gpu=4, within=rack, used={GPU: 4 - free})
    return scenario


def _domain(nodes: Nodes, index: int) -> str:
    """The rack of a node; a node without a rack is a domain of its own."""
    rack, _ = nodes[index]
    return rack if "/" in rack else f"node {index}"


@bounded(35)
@given(nodes=NODES, size=st.integers(1, 2), pods=st.integers(1, 8), must=st.booleans())
def test_a_gang_is_placed_in_the_domain_with_the_least_capacity_that_fits_it(
    nodes: Nodes, size: int, pods: int, must: bool
) -> None:
    placed: Counter[str] = Counter()
    topology = {"required" if must else "preferred": "rack"}
    outcome = _cluster(nodes).gang("work", pods, gpu=size, **topology).decide()
    for node, count in outcome.where("work").items():
        placed[_domain(nodes, int(node[1:]))] += count
    capacity: Counter[str] = Counter()
    for index, (_, free) in enumerate(nodes):
        capacity[_domain(nodes, index)] += free // size
    enough = [each for domain, each in capacity.items() if each >= pods and not (must and "node" in domain)]
    if enough:
        assert [(capacity[domain], count) for domain, count in placed.items()] == [(min(enough), pods)]
    else:
        assert not (must and placed)


def test_the_problem_contains_only_the_nodes_of_that_rack() -> None:
    cluster = _cluster([("a/1", 3), ("a/1", 3), ("a/2", 2), ("b/1", 3)])
    assert {each.path for each in classes(cluster.gang("g", 3, gpu=1, required="rack"))} == {("b", "1")}


def test_the_problem_contains_all_racks_where_one_rack_does_not_decide() -> None:
    nodes = [("a/1", 4), ("a/2", 2), ("b/1", 3)]
    running = _cluster(nodes).gang("g", 3, gpu=1, required="rack", on=["n0-0"])
    roles = _cluster(nodes).gang("g", 1, min=2, gpu=1, required="rack").role("g", 1, gpu=2)
    wider = _cluster(nodes).gang("g", 5, gpu=1, required="spine", preferred="rack")
    for scenario in (running, roles, wider):
        assert len({each.path for each in classes(scenario)}) == 3
