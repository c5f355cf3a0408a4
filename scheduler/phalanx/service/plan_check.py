"""Whether a placement still holds against the newest state, asked by the binder right before it sends."""

from collections.abc import Mapping

from phalanx.cache.cache import Cache
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.limits import CHECKED_NODES_KEPT
from phalanx.model.decisions import Bind, Placement
from phalanx.model.gpu_shares import free_devices, pod_usage, requests_share, share_on_node
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.nodes import Node, NodeState
from phalanx.model.numa import ZoneCapacity, is_numa_resource
from phalanx.model.pods import Pod
from phalanx.model.resources import add, subtract


class CachePlacementCheck:
    """Compares with the cache, in which the placement's pods are assumed: their requests count as used.

    Nodes are judged by the plugins that judged them when the plan was made. A judgement is kept until its
    node changes.
    """

    def __init__(self, cache: Cache, config: SchedulerConfig) -> None:
        self._cache = cache
        self._config = config
        self._judged: dict[NodeName, tuple[Node, dict[ShapeKey, str | None]]] = {}

    def gang(self, placement: Placement) -> str | None:
        """The first reason among all binds: a plan that is broken in one place is made anew whole."""
        binds = (self.bind(placement, bind) for bind in placement.binds)
        return next(filter(None, binds), None) or self._strayed(placement)

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        """Whether the pod still waits for this node, may still run there, and has room as it was planned."""
        pod = self._cache.pod(bind.pod)
        if pod is None:
            return f"pod {bind.namespace}/{bind.name} is gone"
        if not pod.assumed or pod.node != bind.node:
            return f"pod {pod} is not planned for node {bind.node} any more"
        if pod.deleting:
            return f"pod {pod} is being deleted"
        state = self._cache.node_state(bind.node)
        if state is None:
            self._judged.pop(bind.node, None)
            return f"node {bind.node} is gone"
        return self._node_problem(placement, pod, state)

    def _node_problem(self, placement: Placement, pod: Pod, state: NodeState) -> str | None:
        name = state.node.name
        rejected = self._rejection(pod, state)
        if rejected is not None:
            return f"node {name}: {rejected}"
        labels = {**placement.domain_labels, **placement.node_labels.get(name, {})}
        if labels and state.node.has_unknown_topology:
            return f"node {name}: its place in the network is unknown"
        if not _has(state.node, labels):
            return f"node {name} is not in the domain of the plan any more"
        key = self._cache.clash(pod)
        if key:
            return f"node {name}: pods there must be apart from pod {pod} by {key}"
        asked = pod.shape.requests
        short = [each for each, amount in state.free.items() if amount < 0 < asked.get(each, 0)]
        if short:
            return f"node {name} has too little {short[0]} since the plan was made"
        if not self._finds_zone(placement, pod, state):
            return f"node {name} may have no NUMA zone for pod {pod} since the plan was made"
        return _device_problem(pod, state) if requests_share(asked) else None

    def _finds_zone(self, placement: Placement, pod: Pod, state: NodeState) -> bool:
        """Pods of the same placement that run count as planned: what is published lags behind them."""
        kind, free = pod.shape.numa, state.free
        if not kind or state.node.numa is None:
            return True
        for bind in placement.binds:
            other = self._cache.pod(bind.pod) if bind.node == state.node.name else None
            if other is not None and other.holds_node and other.shape.numa:
                taken = {name: n for name, n in pod_usage(other).items() if is_numa_resource(name)}
                free = subtract(add(free, taken), {other.shape.numa: 1})
        return ZoneCapacity(state.node.numa, free).keeps_zone(kind)

    def _rejection(self, pod: Pod, state: NodeState) -> str | None:
        name, key = state.node.name, pod.shape.key
        known = self._judged.get(name)
        if known is None or known[0] is not state.node:
            if len(self._judged) >= CHECKED_NODES_KEPT:
                self._judged.clear()
            known = self._judged[name] = (state.node, {})
        if key not in known[1]:
            session = Session(self._cache.around((name,)), self._config)
            known[1][key] = session.eligibility(pod).rejected.get(name)
        return known[1][key]

    def _strayed(self, placement: Placement) -> str | None:
        """A member that stands already, and whose node has left the domain in which the plan puts others."""
        gang = self._cache.gang(placement.gang) if placement.domain_labels else None
        for pod in gang.members if gang is not None else ():
            node = pod.node if pod.holds_node and not pod.deleting else None
            state = self._cache.node_state(node) if node is not None else None
            if state is not None and not _has(state.node, placement.domain_labels):
                return f"pod {pod} is not in the domain of the plan any more"
        return None


def _device_problem(pod: Pod, state: NodeState) -> str | None:
    device = pod.device
    if device is None or device.taken < share_on_node(pod.shape.requests, state.node.allocatable):
        return f"pod {pod} asks for more of a GPU since the plan was made"
    left = free_devices(state, state.free)
    if device.index < len(left) and left[device.index] >= 0:
        return None
    return f"GPU {device.index} of node {state.node.name} has too little left since the plan was made"


def _has(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels.items())
