"""Keeps pods of namespaces that end in `-dev` off production nodes, and makes spare nodes dear.

It is the example of docs/plugins.md.
"""

from msgspec import Struct
from phalanx.framework.plugin import NodeCost, NodeFilter
from phalanx.framework.session import Session
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod


class TierArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """`suffix`: the end of the names of namespaces that must stay off production."""

    suffix: str = "-dev"


class Tiers:
    """Looks at the label `tier` of nodes."""

    name = "tiers"
    Arguments = TierArguments

    def __init__(self, arguments: TierArguments) -> None:
        self._suffix = arguments.suffix

    def node_filter(self, pod: Pod, session: Session) -> NodeFilter | None:
        """None means that this shape may run anywhere: the cheapest answer."""
        return _off_production if pod.namespace.endswith(self._suffix) else None

    def node_cost(self, pod: Pod, session: Session) -> NodeCost | None:
        """Spare nodes are for emergencies."""
        return _dear_spares


def _off_production(node: Node) -> str | None:
    return "reserved for production" if node.labels.get("tier") == "production" else None


def _dear_spares(node: Node) -> int:
    return 100 if node.labels.get("tier") == "spare" else 0
