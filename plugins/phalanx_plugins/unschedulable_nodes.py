"""Keeps pods off cordoned nodes.

A pod that tolerates `node.kubernetes.io/unschedulable:NoSchedule` may still go there.
"""

from typing import Final

from phalanx.framework.nodes.tolerations import tolerates
from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.nodes import Node, Taint, TaintEffect

CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)


class UnschedulableNodes(Plugin):
    """Checks `spec.unschedulable` of nodes."""

    name = "unschedulable-nodes"
    lasting_answers = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject cordoned nodes, unless the pod tolerates the taint."""
        is_free = not view.facts.any_cordoned or tolerates(pod.shape.tolerations, CORDON)
        return None if is_free else _reject_cordoned


def _reject_cordoned(node: Node) -> str | None:
    return "cordoned" if node.unschedulable else None
