"""The cluster as it would be if nothing ran on it: what cannot be placed there never can on this cluster.

Unless nodes come back: it can also be had with all of them in service.
"""

from msgspec.structs import replace

from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import pod_usage
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.resources import NONE, Resources, add, subtract


class EmptyCluster:
    """Sessions over emptied snapshots, made when first needed; `as_available`: with all nodes well."""

    def __init__(self, session: Session, *, as_available: bool = False) -> None:
        self._session = session
        self._in_service = as_available
        self._empty: Session | None = None

    def session_for(self, gang: Gang) -> Session:
        """Nothing but the gang's own members that stay uses anything there."""
        usage = _usage_of_members(gang)
        if usage:
            return self._emptied(gang, usage)
        if self._empty is None:
            self._empty = self._emptied(gang, {})
        return self._empty

    def _emptied(self, gang: Gang, usage: dict[NodeName, Resources]) -> Session:
        nodes = {
            name: self._with_only(usage.get(name, NONE), state) for name, state in self._session.nodes.items()
        }
        snapshot = replace(
            self._session.snapshot,
            nodes=nodes,
            gangs={},
            queue_usage={gang.queue: usage} if usage else {},
            memory=Memory(),
            placed_pods=(),
        )
        return Session(snapshot, self._session.config, ignore_faults=self._in_service)

    def _with_only(self, used: Resources, state: NodeState) -> NodeState:
        node = state.node.as_available if self._in_service else state.node
        return NodeState(node=node, used=used, free=subtract(node.allocatable, used))


def _usage_of_members(gang: Gang) -> dict[NodeName, Resources]:
    usage: dict[NodeName, Resources] = {}
    for pod in gang.members:
        if pod.node is not None and pod.holds_node and not pod.deleting:
            usage[pod.node] = add(usage.get(pod.node, NONE), pod_usage(pod))
    return usage
