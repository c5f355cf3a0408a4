"""The capacity of nodes and domains, which includes nodes that the problem does not list."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.nodes.pod_capacity import node_capacity, pod_weights
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.model.queues import Objective
from phalanx.model.resources import GPU
from phalanx.solver.answer import Placed
from phalanx.solver.engine import place

from tests.actions.test_node_classes import classes, demand, opened
from tests.builders import Scenario
from tests.solver.problems import bounded

RESOURCES = ("cpu", "gpu")
LARGEST = {"cpu": 64_000, "gpu": 8}

FREE = st.lists(st.tuples(st.sampled_from(("a", "b", "c", "d")), st.integers(0, 4)), min_size=1, max_size=12)
"""Rack and free devices, of four, of each node."""


def cluster(nodes: list[tuple[str, int]]) -> Scenario:
    scenario = Scenario("rack")
    for index, (rack, free) in enumerate(nodes):
        scenario.nodes(f"n{index:02}", gpu=4, within=rack, used={GPU: 4 - free})
    return scenario


def capacity(free: tuple[int, int], eligible: tuple[bool, ...], requests: list[tuple[int, int]],
             at_most: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:  # fmt: skip
    named = [dict(zip(RESOURCES, request, strict=True)) for request in requests]
    weights = pod_weights(requests, named, LARGEST)
    return node_capacity(RESOURCES, requests, at_most, weights)(
        eligible, dict(zip(RESOURCES, free, strict=True))
    )


def test_pods_of_one_kind_count_one_each_however_many_there_are() -> None:
    assert capacity((6_000, 8), (True,), [(1_000, 1)], (2,)) == ((2_000, 2), 6)
    assert capacity((6_000, 8), (True, False), [(1_000, 1)] * 2, (1, 2)) == ((1_000, 1), 6)
    assert capacity((6_000, 8), (False,), [(1_000, 1)], (2,)) is None


def test_pods_of_several_kinds_are_weighted_by_their_part_of_the_largest_node() -> None:
    requests = [(1_000, 4), (16_000, 0), (1, 0)]
    found = capacity((40_000, 8), (True, True, False), requests, (1, 1, 1))
    assert found == ((17_000, 4), 2 * 500 + 2 * 250)


def test_the_weight_of_a_pod_depends_on_what_it_requests_of_the_node_only() -> None:
    """Amounts that stand for parts of nodes, such as units of GPU shares, have no largest amount."""
    assert pod_weights([(1, 0), (2, 2)], [{"gpu": 1}, {"gpu": 2}], {"gpu": 8}) == (125, 250)


@bounded(55)
@given(nodes=FREE, pods=st.integers(2, 12), size=st.integers(1, 2), helpers=st.integers(0, 2))
def test_the_certificate_reports_the_capacity_of_all_nodes_in_the_used_racks(
    nodes: list[tuple[str, int]], pods: int, size: int, helpers: int
) -> None:
    """Helpers have the same requests, so that capacity counts in pods with two roles too."""
    scenario = cluster(nodes).gang("g", pods, gpu=size, preferred="rack", min=pods + helpers)
    if helpers:
        scenario.role("g", helpers, role="helper", gpu=size)
    session = opened(scenario)
    answer = place(ProblemBuilder(session).build_problem(demand(session, "g")).problem)
    fit: Counter[str] = Counter()
    for rack, free in nodes:
        fit[rack] += free // size
    if isinstance(answer, Placed):
        used = {nodes[int(one.node[1:3])][0] for one in answer.assignments}
        assert answer.certificate.terms == ("domains:rack", "tightness:rack")
        assert answer.certificate.objective == (len(used), sum(fit[rack] for rack in used))
        assert answer.certificate.proven


def test_nodes_that_are_not_listed_count() -> None:
    (one,) = classes(cluster([("a", 4)] * 9).gang("g", 2, gpu=4, preferred="rack"))
    assert (len(one.nodes), one.domain_capacity) == (2, 9)


@pytest.mark.parametrize("levels", [{}, {"preferred": "rack"}])
def test_a_single_pod_with_least_fragmentation_ignores_the_capacity_of_domains(
    levels: dict[str, str],
) -> None:
    scenario = cluster([("a", 4)]).queue("tenant", objective=Objective.LEAST_FRAGMENTATION)
    (one,) = classes(scenario.gang("g", 1, gpu=1, queue="tenant", **levels))
    assert one.domain_capacity == 0
