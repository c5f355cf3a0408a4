"""Rules that join several pods, as data. Plugins emit them; solver backends interpret or decline them."""

from msgspec import Struct

from phalanx.model.names import NodeName, QueueName, ShapeKey
from phalanx.model.resources import Resources


class SameDomain(Struct, frozen=True, tag="same-domain"):
    """All pods of the gang, and its members that already run, lie in one domain of this level.

    `fixed`: what asks for it cannot ask for less, such as a wider level.
    """

    name: str
    level: str
    fixed: bool = False


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
    `queue`: on whose account it is, descendants included; None where no eviction gives anything back to it.
    """

    name: str
    remaining: Resources
    nodes: frozenset[NodeName] | None = None
    queue: QueueName | None = None


class PodAntiAffinityRule(Struct, frozen=True, tag="apart"):
    """No pod of a shape in `owners` is near another pod of a shape in `others`: anti-affinity in a gang.

    Near are nodes with the same value of the label `key`; those without the label are near nothing.
    """

    name: str
    key: str
    owners: tuple[ShapeKey, ...]
    others: tuple[ShapeKey, ...]


class PodAffinityRule(Struct, frozen=True, tag="beside"):
    """Pods of the shapes in `owners` are near pods of `others`, or have a value of `key` in `homes`.

    In one more domain of the key they may be among themselves, if a pod of a shape in `begin` is there.
    """

    name: str
    key: str
    owners: tuple[ShapeKey, ...]
    others: tuple[ShapeKey, ...]
    homes: tuple[str, ...] = ()
    begin: tuple[ShapeKey, ...] = ()


AffinityRule = PodAntiAffinityRule | PodAffinityRule
"""What pods of a gang ask of each other."""

SubgroupRule = SubgroupDomain | SubgroupSegments
"""What must hold for a named part of a gang, those inside it included."""

Preference = FewestDomains | SubgroupFewest
"""What a placement is judged by, and never fails for."""

Rule = SameDomain | SubgroupRule | AffinityRule | Preference | Budget
