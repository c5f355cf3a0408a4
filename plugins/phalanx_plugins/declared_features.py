"""Keeps pods off nodes whose kubelet does not declare a feature that the pod needs.

A pod needs such a feature if all its containers restart when one exits (`restartPolicyRules` with the action
RestartAllContainers), if it has a user namespace on the host network (`hostUsers: false`), or if it mounts
volumes with `bindMountOptions`. Kubelets declare features in `status.declaredFeatures` since Kubernetes 1.36.
"""

from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.nodes import Node


class DeclaredFeatures(Plugin):
    """Compares the features that a pod needs with those of each node."""

    name = "declared-features"
    lasting_answers = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes that lack a feature."""
        needed = pod.shape.node_features
        return _lacking(needed) if needed else None


def _lacking(needed: tuple[str, ...]) -> NodeFilter:
    def check(node: Node) -> str | None:
        missing = next((each for each in needed if each not in node.declared_features), None)
        return None if missing is None else f"feature {missing} is not declared"

    return check
