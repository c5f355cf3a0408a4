"""Keeps pods off nodes with taints that they do not tolerate.

NoSchedule and NoExecute reject a node, PreferNoSchedule adds a cost. Nodes that are not ready have taints too
(`node.kubernetes.io/not-ready`).
"""

from collections.abc import Callable
from typing import Final

from phalanx.framework.nodes.tolerations import tolerates
from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.nodes import HARD_EFFECTS, Node, Taint, TaintEffect

COST_PER_TAINT: Final = 100
"""As much as the strongest preferred node affinity, as in kube-scheduler."""


class Taints(Plugin):
    """Compares taints with the tolerations of the pod."""

    name = "taints"
    lasting_answers = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes with a hard taint that the pod does not tolerate."""
        return _hard_filter(_intolerance(pod)) if view.facts.any_taint else None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """Add a cost for every soft taint that the pod does not tolerate."""
        return _soft_cost(_intolerance(pod)) if view.facts.any_soft_taint else None


def _intolerance(pod: PodView) -> Callable[[Taint], bool]:
    return lambda taint: not tolerates(pod.shape.tolerations, taint)


def _hard_filter(is_intolerable: Callable[[Taint], bool]) -> NodeFilter:
    def check(node: Node) -> str | None:
        for taint in node.taints:
            if taint.effect in HARD_EFFECTS and is_intolerable(taint):
                text = f"{taint.key}={taint.value}" if taint.value else taint.key
                return f"taint {text}:{taint.effect} not tolerated"
        return None

    return check


def _soft_cost(is_intolerable: Callable[[Taint], bool]) -> NodeCost:
    def cost(node: Node) -> int:
        soft = [taint for taint in node.taints if taint.effect == TaintEffect.PREFER_NO_SCHEDULE]
        return COST_PER_TAINT * sum(1 for taint in soft if is_intolerable(taint))

    return cost
