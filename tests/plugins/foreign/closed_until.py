"""Places nothing on a node until the time in its annotation `acme.example/closed-until`, in Unix seconds."""

from phalanx.framework.plugin import NodeFilter, Plugin, PodView, SessionView
from phalanx.model.nodes import Node

CLOSED_UNTIL = "acme.example/closed-until"


class ClosedUntil(Plugin):
    name = "closed-until"
    node_annotations = (CLOSED_UNTIL,)

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        now = view.now
        return lambda node: "closed for now" if _end_ms(node) > now else None

    def valid_until(self, view: SessionView) -> int | None:
        ends = [_end_ms(state.node) for state in view.nodes.values()]
        return min((end for end in ends if end > view.now), default=None)


def _end_ms(node: Node) -> int:
    return int(node.annotations.get(CLOSED_UNTIL, "0")) * 1000
