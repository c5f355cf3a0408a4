"""Keeps pods with the annotation `acme.example/pool` on nodes whose label of that name has the same value."""

from phalanx.framework.plugin import NodeFilter, Plugin, PodView, SessionView
from phalanx.model.nodes import Node

POOL = "acme.example/pool"


class NodePool(Plugin):
    name = "node-pool"
    pod_annotations = (POOL,)

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        pool = pod.annotation(POOL)
        return None if pool is None else _filter_for(pool)


def _filter_for(pool: str) -> NodeFilter:
    def check(node: Node) -> str | None:
        return None if node.labels.get(POOL) == pool else f"not in pool {pool}"

    return check
