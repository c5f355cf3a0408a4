"""Tolerations of taints by the rules of Kubernetes, and the loss of a node to its pods."""

from collections.abc import Iterable

from phalanx.framework.view import SessionView
from phalanx.model.nodes import Node, Taint, TaintEffect
from phalanx.model.pods import Pod, Toleration


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(covers(toleration, taint) for toleration in tolerations)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint.

    An empty effect covers every effect. An empty key covers every key, and requires the operator Exists.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def is_on_lost_node(pod: Pod, view: SessionView) -> bool:
    """Whether the pod's node is gone, not ready, or has a NoExecute taint that the pod does not tolerate."""
    if pod.node is None or (pod.node in view.nodes and pod.node not in view.facts.suspect_nodes):
        return False
    state = view.nodes.get(pod.node)
    return is_lost_with(pod, state.node if state is not None else None)


def is_lost_with(pod: Pod, node: Node | None) -> bool:
    """Whether a pod loses its node in this state; None if the node does not exist any more."""
    if pod.is_finished or node is None:
        return not pod.is_finished
    evicting = [taint for taint in node.taints if taint.effect == TaintEffect.NO_EXECUTE]
    tolerated = all(tolerates(pod.shape.tolerations, taint) for taint in evicting)
    return not node.is_ready or not tolerated
