"""Keeps pods off cordoned nodes.

A pod that tolerates `node.kubernetes.io/unschedulable:NoSchedule` may go there nevertheless.
"""

from typing import Final

from phalanx.framework.nodes.tolerations import tolerates
from phalanx.framework.plugin import NodeFilter
from phalanx.framework.session import Session
from phalanx.model.nodes import Node, Taint, TaintEffect
from phalanx.model.pods import Pod

CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)


class UnschedulableNodes:
    """Looks at `spec.unschedulable` of nodes."""

    name: Final = "unschedulable-nodes"

    def node_filter(self, pod: Pod, session: Session) -> NodeFilter | None:
        """Nothing to filter for a pod that tolerates the cordon, or where no node is cordoned."""
        is_free = not session.facts.any_cordoned or tolerates(pod.shape.tolerations, CORDON)
        return None if is_free else _reject_cordoned


def _reject_cordoned(node: Node) -> str | None:
    return "cordoned" if node.unschedulable else None
