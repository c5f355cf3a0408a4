"""Places pods only on nodes with a NUMA zone that is large enough for what the kubelet aligns.

It considers nodes whose NodeResourceTopology reports the topology manager policy single-numa-node or
restricted. Whether enough of a zone is free is checked elsewhere.
"""

from phalanx.framework.plugin import NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.nodes import Node
from phalanx.model.resources import format_amounts
from phalanx.model.supplies.numa.zones import capacity_when_empty, largest_zone_request


class NumaZones(Plugin):
    """Checks the capacity of zones when nothing runs."""

    name = "numa-zones"
    lasting_answers = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes whose empty zones are too small for the aligned resources of the pod."""
        return _zone_filter(pod.shape.numa) if pod.shape.numa and view.facts.open_supplies else None


def _zone_filter(name: str) -> NodeFilter:
    def check(node: Node) -> str | None:
        if node.numa is None or capacity_when_empty(node.numa.layout, name) != 0:
            return None
        return (
            f"have no NUMA zone with {format_amounts(largest_zone_request(node.numa.layout, name))} together"
        )

    return check
