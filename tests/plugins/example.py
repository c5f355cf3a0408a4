"""Keeps pods of namespaces that end in `-dev` off production nodes, and makes spare nodes dear.

It is the example of docs/plugins.md.
"""

from msgspec import Struct
from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.nodes import Node


class TierArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """`suffix`: the end of the names of namespaces that must stay off production."""

    suffix: str = "-dev"


class Tiers(Plugin):
    """Looks at the label `tier` of nodes."""

    name = "tiers"
    Arguments = TierArguments
    pod_namespace = True

    def __init__(self, arguments: TierArguments) -> None:
        self._suffix = arguments.suffix

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """None means that this shape may run anywhere: the cheapest answer."""
        return _off_production if pod.namespace.endswith(self._suffix) else None

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """Spare nodes are for emergencies."""
        return _dear_spares


def _off_production(node: Node) -> str | None:
    return "reserved for production" if node.labels.get("tier") == "production" else None


def _dear_spares(node: Node) -> int:
    return 100 if node.labels.get("tier") == "spare" else 0
