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


def _capacity(nodes: Nodes, size: int, pods: int) -> Counter[str]:
    """How many pods of this size each rack holds, at most `pods`; nodes without a rack do not count."""
    capacity: Counter[str] = Counter()
    for rack, free in nodes:
        if "/" in rack:
            capacity[rack] += min(pods, free // size)
    return capacity


@bounded(35)
@given(nodes=NODES, size=st.integers(1, 2), pods=st.integers(1, 8), must=st.booleans())
def test_a_gang_is_placed_in_the_tightest_rack_that_fits_it(
    nodes: Nodes, size: int, pods: int, must: bool
) -> None:
    placed: Counter[str] = Counter()
    topology = {"required" if must else "preferred": "rack"}
    outcome = _cluster(nodes).gang("work", pods, gpu=size, **topology).decide()
    for node, count in outcome.where("work").items():
        placed[nodes[int(node[1:])][0]] += count
    capacity = _capacity(nodes, size, pods)
    enough = [each for each in capacity.values() if each >= pods]
    if enough:
        assert [(capacity[rack], count) for rack, count in placed.items()] == [(min(enough), pods)]
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
