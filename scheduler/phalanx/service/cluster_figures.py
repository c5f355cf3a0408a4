"""Sums over the cluster for the metrics: nodes by state, free capacity, reasons for which gangs wait.

They are computed when metrics are read, which is every some seconds, and not in cycles.
"""

from collections import Counter
from collections.abc import Iterable

from phalanx.cache.cache import Cache
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.reasons import Verdict
from phalanx.observe.ports import ClusterFigures


def figures_of(cache: Cache, verdicts: Iterable[Verdict]) -> ClusterFigures:
    """The figures of the cluster as the cache has it, and of the verdicts of the last cycle."""
    states = Counter({"ready": 0, "cordoned": 0, "not-ready": 0})
    allocatable, free, whole = Counter[str](), Counter[str](), Counter[str]()
    for name, node in cache.nodes().items():
        state = node_state(node)
        states[state] += 1
        allocatable.update(node.allocatable)
        used = cache.node_state(NodeName(name))
        if state == "ready" and used is not None:
            _add_free(used, free, whole)
    return ClusterFigures(
        nodes=states,
        allocatable=dict(sorted(allocatable.items())),
        free=dict(sorted(free.items())),
        free_on_empty_nodes=dict(sorted(whole.items())),
        waiting=_waiting(cache, verdicts),
    )


def node_state(node: Node) -> str:
    """Whether it takes pods: ready, cordoned by somebody, or not ready."""
    if node.unschedulable:
        return "cordoned"
    return "not-ready" if not node.is_ready or node.has_state_taint else "ready"


def _add_free(state: NodeState, free: Counter[str], whole: Counter[str]) -> None:
    for resource, amount in state.node.allocatable.items():
        left = max(0, state.free.get(resource, 0))
        free[resource] += left
        whole[resource] += left if left == amount else 0


def _waiting(cache: Cache, verdicts: Iterable[Verdict]) -> dict[tuple[str, ...], int]:
    """A gang that is gone since the cycle is left out."""
    gangs, counts = cache.gangs(), Counter[tuple[str, ...]]()
    for verdict in verdicts:
        gang = gangs.get(verdict.gang)
        if gang is not None:
            counts[gang.queue, verdict.reason.value] += 1
    return dict(sorted(counts.items()))
