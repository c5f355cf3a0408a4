"""Adds a cost to nodes with recent failures, so that pods prefer other nodes.

A few nodes cause most failures. Each failure that the node caused counts one, and halves with time
(`tolerance.failureHalfLifeMinutes` in the configuration). The metric `phalanx_node_failure_score` shows the
scores. They are kept in memory and lost at a restart of the scheduler.
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
"""Twice the strongest preference of a pod: ten failures outweigh preferences, but no requirement."""

SCORE_OF_ONE: Final = 1000


class NodeFailureHistory(Plugin):
    """Scores are rounded to whole failures, so that few nodes differ by cost alone."""

    name = "node-failure-history"

    def __init__(self) -> None:
        self._costs: dict[NodeName, int] = {}

    def open(self, view: SessionView) -> None:
        """Let the scores of the last cycle decay until now."""
        now, half_life = view.now, view.config.tolerance.failure_half_life_ms
        for name, score in view.memory.scores.items():
            failures = (decayed(score.score, now - score.at, half_life) + SCORE_OF_ONE // 2) // SCORE_OF_ONE
            if failures:
                self._costs[name] = min(COST_MAX, COST_PER_FAILURE * failures)

    def valid_until(self, view: SessionView) -> int | None:
        """Costs decay continuously, but they forbid no node, so no gang waits for it."""
        return None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """The same for all pods."""
        return self._cost if self._costs else None

    def _cost(self, node: Node) -> int:
        return self._costs.get(node.name, 0)
