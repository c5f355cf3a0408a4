"""Where members of the gang already run."""

from typing import Final

from msgspec import Struct

from phalanx.model.names import NodeName

NOWHERE: Final = NodeName("")


class Anchor(Struct, frozen=True):
    """Members of the gang already run in the domain with this path."""

    path: tuple[str, ...]
    node: NodeName = NOWHERE
    """Their node, if new pods on it are in no domain of some level: the node is then a domain of its own."""


class SubgroupAnchor(Struct, frozen=True):
    """`count` members of a subgroup already run in the domain with this path."""

    subgroup: str
    path: tuple[str, ...]
    count: int
    node: NodeName = NOWHERE
    """As in Anchor."""


class RoleAnchor(Struct, frozen=True):
    """`count` members of a role already run on this node, whose domains are those of the path."""

    role: str
    path: tuple[str, ...]
    node: NodeName
    count: int
