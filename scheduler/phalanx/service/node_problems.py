"""Says once what is wrong with a node in itself (an amount that cannot be read): no verdict would."""

from typing import Final

import structlog

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Changes, Deleted, Event, Relisted
from phalanx.model.api.core import Node, NodeResourceTopology
from phalanx.model.names import NodeName
from phalanx.model.reasons import Objection

_KINDS: Final = (Node.__name__, NodeResourceTopology.__name__)

_log = structlog.get_logger(__name__)


class NodeProblems:
    """Remembers the nodes that have any, so that a heartbeat does not repeat it."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._told: dict[NodeName, tuple[Objection, ...]] = {}

    def heard(self, event: Event, changes: Changes) -> None:
        """An event, and what it changed in the cache."""
        if _is_about_nodes(event):
            for name in changes.nodes:
                self._look_at(name)

    def _look_at(self, name: NodeName) -> None:
        state = self._cache.node_state(name)
        problems = state.node.problems if state is not None else ()
        if problems == self._told.get(name, ()):
            return
        if not problems:
            del self._told[name]
            return
        self._told[name] = problems
        _log.warning("node is wrong", kind="Node", name=name, why=problems[0].message, more=len(problems) - 1)


def _is_about_nodes(event: Event) -> bool:
    if isinstance(event, Applied):
        return isinstance(event.object, Node | NodeResourceTopology)
    return isinstance(event, Deleted | Relisted) and event.kind in _KINDS
