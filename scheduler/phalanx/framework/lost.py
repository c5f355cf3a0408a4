"""Which nodes are lost to the pods on them."""

from typing import TYPE_CHECKING

from phalanx.framework.nodes.tolerations import tolerates
from phalanx.model.nodes import Node, TaintEffect
from phalanx.model.pods import Pod

if TYPE_CHECKING:
    from phalanx.framework.session import Session


def is_on_lost_node(pod: Pod, session: "Session") -> bool:
    """Whether the pod's node is gone, not ready, or has a NoExecute taint that the pod does not tolerate."""
    if pod.node is None or (pod.node in session.nodes and pod.node not in session.facts.suspects):
        return False
    state = session.nodes.get(pod.node)
    return is_lost_with(pod, state.node if state is not None else None)


def is_lost_with(pod: Pod, node: Node | None) -> bool:
    """The same of a pod whose node is this one; None where its node is gone."""
    if pod.is_finished or node is None:
        return not pod.is_finished
    evicting = [taint for taint in node.taints if taint.effect == TaintEffect.NO_EXECUTE]
    tolerated = all(tolerates(pod.shape.tolerations, taint) for taint in evicting)
    return not node.is_ready or not tolerated
