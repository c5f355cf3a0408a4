"""Which nodes are lost to the pods on them."""

from typing import TYPE_CHECKING

from phalanx.framework.tolerations import tolerates
from phalanx.model.nodes import TaintEffect
from phalanx.model.pods import Pod

if TYPE_CHECKING:
    from phalanx.framework.session import Session


def is_on_lost_node(pod: Pod, session: "Session") -> bool:
    """Whether the pod's node is gone, not ready, or has a NoExecute taint that the pod does not tolerate."""
    if pod.node is None or pod.is_finished:
        return False
    state = session.nodes.get(pod.node)
    if state is None or not state.node.is_ready:
        return True
    evicting = [taint for taint in state.node.taints if taint.effect == TaintEffect.NO_EXECUTE]
    return any(not tolerates(pod.shape.tolerations, taint) for taint in evicting)
