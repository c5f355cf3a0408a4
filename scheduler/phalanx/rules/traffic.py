"""Traffic between the roles of a gang."""

from collections.abc import Sequence

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.rules.problem import Preference


class Flow(Struct, frozen=True):
    """What each member of a role sends to each other member of a role."""

    sender: str
    receiver: str
    weight: int


class RoleAnchor(Struct, frozen=True):
    """`count` members of a role already run on this node, whose domains are those of the path."""

    role: str
    path: tuple[str, ...]
    node: NodeName
    count: int


class Traffic(Preference, frozen=True, tag="traffic"):
    """Preference: little traffic between different domains, the widest level first, then between nodes."""

    flows: tuple[Flow, ...]
    members: tuple[str, ...] = ()
    """The role of the pods of each role of the problem. Empty: the problem does not count traffic."""
    anchors: tuple[RoleAnchor, ...] = ()
    """Where members already run."""

    def depth(self, levels: Sequence[str]) -> int:
        """All levels count traffic."""
        return len(levels)
