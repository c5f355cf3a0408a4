"""Traffic between the roles of a gang."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.rules.problem import Preference, RoleAnchor, Rule


class Flow(Struct, frozen=True):
    """What each member of a role sends to each other member of a role."""

    sender: str
    receiver: str
    weight: int


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

    def with_roles(self, members: tuple[str, ...], anchors: tuple[RoleAnchor, ...]) -> Rule:
        return replace(self, members=members, anchors=anchors)
