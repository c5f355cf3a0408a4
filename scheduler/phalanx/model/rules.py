"""Constraints and preferences over several pods, as data. Plugins emit them; solver backends interpret or
decline them."""

from msgspec import Struct

from phalanx.model.names import NodeName, QueueName, ShapeKey
from phalanx.model.reasons import Evidence, Reason
from phalanx.model.resources import Resources


class SameDomain(Struct, frozen=True, tag="same-domain"):
    """All pods of the gang, including running members, are in one domain of this level."""

    name: str
    level: str
    fixed: bool = False
    """Whether no wider level would do instead."""


class FewestDomains(Struct, frozen=True, tag="fewest-domains"):
    """Preference: as few domains as possible, the widest level first, down to this level."""

    name: str
    level: str


class SubgroupDomain(Struct, frozen=True, tag="subgroup-domain"):
    """All pods of this subgroup, including running members, are in one domain of this level."""

    name: str
    subgroup: str
    level: str


class SubgroupSegments(Struct, frozen=True, tag="subgroup-segments"):
    """Each domain of this level with pods of the subgroup holds a multiple of `size` of them."""

    name: str
    subgroup: str
    level: str
    size: int


class SubgroupFewest(Struct, frozen=True, tag="subgroup-fewest"):
    """Preference: this subgroup, with its running members, is in as few domains as possible."""

    name: str
    subgroup: str
    level: str


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


class Traffic(Struct, frozen=True, tag="traffic"):
    """Preference: little traffic between different domains, the widest level first, then between nodes."""

    name: str
    flows: tuple[Flow, ...]
    members: tuple[str, ...] = ()
    """The role of the pods of each role of the problem. Empty: the problem does not count traffic."""
    anchors: tuple[RoleAnchor, ...] = ()
    """Where members already run."""


class PairWeight(Struct, frozen=True):
    """How much each pod of one shape draws each other pod of another one; negative: keeps it away."""

    owner: ShapeKey
    other: ShapeKey
    weight: int


class PodPairs(Struct, frozen=True, tag="pod-pairs"):
    """Preference: pods of the gang are near pods that they prefer, and apart from those that they avoid.

    It is part of the cost of a placement.
    """

    name: str
    key: str
    """Nodes with the same value of this label are near each other; nodes without it are near none."""
    weights: tuple[PairWeight, ...]


class RuleWords(Struct, frozen=True):
    """What a verdict says where a rule is why a gang waits, in the words of the plugin that made the rule."""

    message: str
    """Follows the number of pods that fit."""
    next_step: str = ""
    evidence: tuple[Evidence, ...] = ()
    reason: Reason = Reason.PLUGIN_LIMIT
    above: Reason = Reason.ABOVE_PLUGIN_LIMIT
    """The reason where the gang would not even fit the empty cluster."""


class Budget(Struct, frozen=True, tag="budget"):
    """Pods placed on these nodes together use at most this much."""

    name: str
    remaining: Resources
    """A resource that is absent is not limited. A negative amount forbids any further use."""
    nodes: frozenset[NodeName] | None = None
    """None for all nodes."""
    queue: QueueName | None = None
    """The charged queue, with its descendants; None if evictions do not give anything back."""
    words: RuleWords | None = None
    """None: it is explained as the limit of a queue."""


class PodAntiAffinityRule(Struct, frozen=True, tag="pod-anti-affinity"):
    """No pod of a shape in `owners` is near another pod of a shape in `others`."""

    name: str
    key: str
    """Nodes with the same value of this label are near each other; nodes without it are near none."""
    owners: tuple[ShapeKey, ...]
    others: tuple[ShapeKey, ...]


class PodAffinityRule(Struct, frozen=True, tag="pod-affinity"):
    """Pods of the shapes in `owners` are near pods of `others`."""

    name: str
    key: str
    """Nodes with the same value of this label are near each other."""
    owners: tuple[ShapeKey, ...]
    others: tuple[ShapeKey, ...]
    existing_values: tuple[str, ...] = ()
    """Values of `key` where matching pods outside the gang already are."""
    starters: tuple[ShapeKey, ...] = ()
    """Shapes that match the term themselves: with one of them, `owners` may start one more domain."""


class TopologySpreadRule(Struct, frozen=True, tag="topology-spread"):
    """Where a pod of `owners` is, there are at most `max_skew` more counted pods than in any domain.

    Domains are the values in `existing`, and others of nodes that `owners` may use. With fewer domains than
    `min_domains`, at most `max_skew` pods are there.
    """

    name: str
    key: str
    """The node label whose values are the domains."""
    owners: tuple[ShapeKey, ...]
    others: tuple[ShapeKey, ...]
    """Shapes that are counted, usually with `owners`."""
    existing: tuple[tuple[str, int], ...]
    """The domains, with the counted pods that are there."""
    max_skew: int
    min_domains: int = 1
    perhaps: tuple[ShapeKey, ...] = ()
    """Shapes that count on some nodes only: they count where they are too many, and nowhere else."""


class OtherTopologyDomain(Struct, frozen=True, tag="other-topology-domain"):
    """As SubgroupDomain, with a size as SubgroupSegments: for a level of another Topology than the gang's."""

    name: str
    subgroup: str
    topology: str
    level: str
    size: int = 0
    """0: one domain holds all pods. Otherwise each domain with pods holds a multiple of it."""
    existing: tuple[tuple[str, int], ...] = ()
    """Running members by domain, as a value of `key`; empty for a node in no domain."""

    @property
    def key(self) -> str:
        """What names the domains of nodes, as a node label does."""
        return level_key(self.topology, self.level)


class OtherTopologyFewest(Struct, frozen=True, tag="other-topology-fewest"):
    """As SubgroupFewest, for levels of another Topology than the gang's."""

    name: str
    subgroup: str
    topology: str
    levels: tuple[str, ...]
    """From the widest level of the Topology down to the preferred one."""
    existing: tuple[tuple[str, ...], ...] = ()
    """Per level, the domains of running members, as values of its key."""
    open: tuple[tuple[str, ...], ...] = ()
    """Per level, domains whose use adds none: those of `existing`, and nodes that running members are on."""

    @property
    def keys(self) -> tuple[str, ...]:
        """What names the domain of each level; a node in no domain has a value of its own."""
        return tuple([f"{level_key(self.topology, level)} or node" for level in self.levels])


def level_key(topology: str, level: str) -> str:
    """The key of a level of a topology. No node label has a space."""
    return f"{topology} {level}"


AffinityRule = PodAntiAffinityRule | PodAffinityRule | TopologySpreadRule
"""Affinity between pods of one gang."""

SubgroupRule = SubgroupDomain | SubgroupSegments
"""Hard constraint on a subgroup, including nested ones."""

OtherTopologyRule = OtherTopologyDomain | OtherTopologyFewest
"""About a subgroup and a topology that is not that of the gang."""

Preference = FewestDomains | SubgroupFewest | OtherTopologyFewest | Traffic | PodPairs
"""Part of the objective; a placement never fails because of it."""

Rule = SameDomain | SubgroupRule | OtherTopologyDomain | AffinityRule | Preference | Budget
