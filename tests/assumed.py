"""Assumed binds for tests."""

from typing import Any

from phalanx.cache.events import Assumed
from phalanx.model.decisions import Bind
from phalanx.model.names import NodeName, PodUid


def assumed(pod: str, node: str, *, queue: str = "", **decided: Any) -> Assumed:
    """The pod with this UID is assumed on the node. `decided`: more fields of the bind."""
    return Assumed(Bind(PodUid(pod), "team", pod, NodeName(node), **decided), queue)
