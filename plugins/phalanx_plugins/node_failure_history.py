"""Adds a cost to nodes with recent failures, so that pods prefer other nodes.

A few nodes cause most failures. The score of a node is the number of failures that it caused, of each
workload once in a half-life (`tolerance.failureHalfLifeMinutes` in the configuration). The metric
`phalanx_node_failure_score` shows the scores. They are stored in memory only, and lost at a restart of the
scheduler.
"""

from typing import Final

from phalanx.framework.decay import decayed
from phalanx.framework.plugin import NodeCost, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node

COST_PER_FAILURE: Final = 20
COST_MAX: Final = 200
"""Twice the strongest preference of a pod: failures of ten workloads outweigh it, but no requirement."""

SCORE_OF_ONE: Final = 1000


class NodeFailureHistory(Plugin):
    """Scores are rounded to whole failures, so that most nodes have equal costs and share a node class."""

    name = "node-failure-history"

    def __init__(self) -> None:
        self._costs: dict[NodeName, int] = {}

    def open(self, view: SessionView) -> None:
        """Compute the decayed scores and the costs."""
        now, half_life = view.now, view.config.tolerance.failure_half_life_ms
        for name, score in view.memory.scores.items():
            failures = (decayed(score.score, now - score.at, half_life) + SCORE_OF_ONE // 2) // SCORE_OF_ONE
            if failures:
                self._costs[name] = min(COST_MAX, COST_PER_FAILURE * failures)

    def valid_until(self, view: SessionView) -> int | None:
        """None: costs change with time, but they exclude no node, so no refusal depends on them."""
        return None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """The cost is the same for all pods."""
        return self._cost if self._costs else None

    def _cost(self, node: Node) -> int:
        return self._costs.get(node.name, 0)
