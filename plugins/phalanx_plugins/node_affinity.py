"""Honours node selectors, required node affinity and preferred node affinity of pods.

Required terms are alternatives. A preferred term that does not match costs its weight.
"""

from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.nodes import Node
from phalanx.model.pods import PodShape, WeightedTerm
from phalanx.model.selectors import node_matches, node_matches_any


class NodeAffinity(Plugin):
    """`spec.nodeSelector` and `spec.affinity.nodeAffinity`."""

    name = "node-affinity"
    lasting_answers = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes that the selector or the required affinity of the pod excludes."""
        shape = pod.shape
        return _required_filter(shape) if shape.node_selector or shape.required_affinity else None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """The weights of the preferred terms that do not match."""
        preferred = pod.shape.preferred_affinity
        return _preferred_cost(preferred) if preferred else None


def _required_filter(shape: PodShape) -> NodeFilter:
    def check(node: Node) -> str | None:
        if any(node.labels.get(key) != value for key, value in shape.node_selector):
            return "node selector does not match"
        if shape.required_affinity and not node_matches_any(node, shape.required_affinity):
            return "required node affinity does not match"
        return None

    return check


def _preferred_cost(preferred: tuple[WeightedTerm, ...]) -> NodeCost:
    def cost(node: Node) -> int:
        return sum(preference.weight for preference in preferred if not node_matches(node, preference.term))

    return cost
