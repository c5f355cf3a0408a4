"""Rules that join several pods, as data. Plugins emit them; solver backends interpret or decline them."""

from msgspec import Struct

from phalanx.model.names import NodeName, QueueName
from phalanx.model.resources import Resources


class SameDomain(Struct, frozen=True, tag="same-domain"):
    """All pods of the gang, and its members that already run, lie in one domain of this level."""

    name: str
    level: str


class FewestDomains(Struct, frozen=True, tag="fewest-domains"):
    """A wish: as few domains as possible, the widest level first, down to this level."""

    name: str
    level: str


class SubgroupDomain(Struct, frozen=True, tag="subgroup-domain"):
    """All pods of this subgroup, and its members that already run, lie in one domain of this level."""

    name: str
    subgroup: str
    level: str


class SubgroupSegments(Struct, frozen=True, tag="subgroup-segments"):
    """Each domain of this level that gets pods of the subgroup then holds a multiple of `size` of them."""

    name: str
    subgroup: str
    level: str
    size: int


class SubgroupFewest(Struct, frozen=True, tag="subgroup-fewest"):
    """A wish: this subgroup, with its members that already run, in as few domains as possible.

    The widest level first, down to this level.
    """

    name: str
    subgroup: str
    level: str


class Budget(Struct, frozen=True, tag="budget"):
    """The pods placed on these nodes together use at most this much. `nodes` None means every node.

    A resource that is absent from `remaining` is not limited. A negative amount forbids any further use.
    `queue`: on whose account it is, descendants included; None where it is no queue's.
    """

    name: str
    remaining: Resources
    nodes: frozenset[NodeName] | None = None
    queue: QueueName | None = None


SubgroupRule = SubgroupDomain | SubgroupSegments
"""What must hold for a named part of a gang, those inside it included."""

Wish = FewestDomains | SubgroupFewest
"""What a placement is judged by, and never fails for."""

Rule = SameDomain | SubgroupRule | Wish | Budget
