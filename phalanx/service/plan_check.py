"""Whether a placement still holds against the newest state, asked by the binder right before it sends."""

from phalanx.cache.cache import Cache
from phalanx.model.decisions import Bind, Placement


class CachePlanCheck:
    """Compares with the cache, in which the placement's pods are assumed: their requests count as used."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def gang(self, placement: Placement) -> str | None:
        """The first reason among all binds: a plan that is broken in one place is made anew whole."""
        return next(filter(None, (self.bind(placement, bind) for bind in placement.binds)), None)

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        """Whether the pod still waits for this node and the node has room for what was planned on it."""
        pod = self._cache.pod(bind.pod)
        if pod is None:
            return f"pod {bind.namespace}/{bind.name} is gone"
        if not pod.assumed or pod.node != bind.node:
            return f"pod {pod} is not planned for node {bind.node} any more"
        if pod.deleting:
            return f"pod {pod} is being deleted"
        return self._node_problem(bind)

    def _node_problem(self, bind: Bind) -> str | None:
        state = self._cache.node_state(bind.node)
        if state is None:
            return f"node {bind.node} is gone"
        if state.node.unschedulable:
            return f"node {bind.node} is cordoned"
        short = [name for name, amount in state.free.items() if amount < 0]
        return f"node {bind.node} has too little {short[0]} since the plan was made" if short else None
