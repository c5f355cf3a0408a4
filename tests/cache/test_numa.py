"""NUMA zones in the cache: they are joined with their node and trigger a cycle only when they may help."""

from typing import Any

import pytest
from phalanx.cache.events import NOTHING, Applied, Deleted, Relisted
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.names import NodeName
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.test_events import apply, one_gpu
from tests.cache.world import new_cache, take_snapshot
from tests.model.written import node, written
from tests.node_topologies import node_topology

N1 = NodeName("n1")
GPUS = {"nvidia.com/gpu": "4"}


def zones(*left: str, **fields: Any) -> NodeResourceTopology:
    available = [{"nvidia.com/gpu": each} for each in left]
    return written(
        NodeResourceTopology, node_topology("n1", *[GPUS] * len(left), available=available, **fields)
    )


def test_zones_are_joined_with_their_node_in_either_order() -> None:
    first, second = new_cache(zones("4"), node("n1")), new_cache(node("n1"), zones("4"))
    assert take_snapshot(first) == take_snapshot(second)
    assert take_snapshot(first).nodes[N1].node.numa is not None
    changes = second.apply(Deleted("NodeResourceTopology", "", "n1"))
    assert (changes.nodes, changes.capacity_grew) == ((N1,), True)
    assert take_snapshot(second).nodes[N1].node.numa is None
    second.apply(Applied(zones("4")))
    second.apply(Relisted("NodeResourceTopology", ()))
    assert take_snapshot(second).nodes[N1].node.numa is None


@pytest.mark.parametrize(
    ("after", "grew"),
    [
        (zones("3", "2"), False),
        (zones("2", "4"), True),
        (zones("4", "4"), True),
        (zones("3", "3", policy="none"), True),
        (zones("3", "3", scope="container"), True),
    ],
)
def test_changed_zones_trigger_a_cycle_only_when_capacity_may_have_grown(
    after: NodeResourceTopology, grew: bool
) -> None:
    cache = new_cache(node("n1"), zones("3", "3"))
    changes = apply(cache, after)
    assert (changes.nodes, changes.capacity_grew) == ((N1,), grew)
    assert apply(cache, after) == NOTHING


def test_invalid_zones_are_a_problem_of_the_node() -> None:
    cache = new_cache(node("n1"), zones("x"))
    (problem,) = take_snapshot(cache).nodes[N1].node.problems
    assert "zones[0].resources[0].available: 'x'" in problem.message


def test_the_start_of_a_pod_triggers_a_cycle_only_on_nodes_with_zones() -> None:
    """The kubelet has chosen its zone, so no zone must be kept free for it any more."""
    plain = new_cache(node("n1"), one_gpu(nodeName="n1"))
    zoned = new_cache(node("n1"), zones("4"), one_gpu(nodeName="n1"))
    assert not apply(plain, one_gpu(nodeName="n1", status={"phase": "Running"})).capacity_grew
    assert apply(zoned, one_gpu(nodeName="n1", status={"phase": "Running"})).capacity_grew
    check_cache(plain)
