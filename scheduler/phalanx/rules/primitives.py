"""The primitives that the back ends of the solver know; rules are made of them.

Levels, keys and roles are indices into the problem. Back ends tell primitives apart, never kinds of rules: a
rule of a new kind that is made of these needs no change of a back end.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.resources import Resources
from phalanx.rules.anchors import SubgroupAnchor
from phalanx.rules.traffic_matrix import TrafficMatrix

UNIQUE_PER_NODE: Final = -1
"""Stands for the index of a key whose value differs on every node."""


class AtMost(Struct, frozen=True):
    """Pods on these nodes together use at most this much.

    Only budgets are made of it: classes of nodes refer to them by their order.
    """

    name: str
    remaining: Resources
    nodes: frozenset[NodeName] | None


class GangDomain(Struct, frozen=True):
    """One domain of this level holds the gang, running members included."""

    level: int


class FewGangDomains(Struct, frozen=True):
    """Preference: the gang is in few domains of the levels from the widest down to this one."""

    level: int


class SubgroupConstraint(Struct, frozen=True):
    """One domain holds the pods of a subgroup, or each domain a multiple of `size`."""

    subgroup: str
    level: int
    roles: tuple[int, ...]
    """The roles in the subgroup."""
    size: int
    """0: one domain holds all pods. Otherwise each domain holds a multiple of it."""
    anchors: Mapping[tuple[str, ...], int]
    """Running members by path down to the level; shorter where their nodes lack a label."""


class SubgroupPreference(Struct, frozen=True):
    """Preference: a subgroup is in few domains."""

    subgroup: str
    depth: int
    """How many levels, from the widest, have its domains counted."""
    roles: tuple[int, ...]
    anchors: tuple[SubgroupAnchor, ...]
    """Where members already run."""


class Apart(Struct, frozen=True):
    """No pod of `owners` shares a value of the key with another pod of `others`."""

    name: str
    key: int
    owners: tuple[int, ...]
    others: tuple[int, ...]


class Near(Struct, frozen=True):
    """Pods of `owners` share a value of the key with a pod of `others`, or have one of `existing`."""

    key: int
    owners: tuple[int, ...]
    others: tuple[int, ...]
    begin: tuple[int, ...]
    """Roles of which one pod may start a new value, which all of `owners` then share."""
    existing: tuple[str, ...]


class Skew(Struct, frozen=True):
    """Where pods of `owners` are, at most `max_skew` more counted pods are than in the emptiest domain."""

    name: str
    key: int
    owners: tuple[int, ...]
    others: tuple[int, ...]
    """Roles that are counted."""
    existing: tuple[tuple[str, int], ...]
    """Values with the counted pods that are there."""
    max_skew: int
    min_domains: int
    """With fewer domains the emptiest counts as empty, so that each has at most `max_skew` pods."""


class ValueDomain(Struct, frozen=True):
    """One value of the key holds all pods of `owners`, or each value a multiple of `size`."""

    key: int
    owners: tuple[int, ...]
    size: int
    """0: one value holds all pods. Otherwise each value holds a multiple of it."""
    existing: tuple[tuple[str, int], ...]
    """Running members by value."""


class FewValues(Struct, frozen=True):
    """Preference: pods of the roles have few values of these keys."""

    keys: tuple[int, ...]
    """The widest level first."""
    names: tuple[str, ...]
    """What the terms of the objective call them."""
    roles: tuple[int, ...]
    anchored: tuple[frozenset[str], ...]
    """Per key, the values of running members."""
    open: tuple[frozenset[str], ...]
    """Per key, the values whose use adds none."""


class PairPreference(Struct, frozen=True):
    """Preference: pods of two roles share a value of the key, or do not.

    Pairs are worth the weights of their terms for each other, in both directions. The cost of a placement is
    what all pods would be worth if every pair that draws were near and no other one, without what they are
    worth. So it is never negative.
    """

    key: int
    matrix: TrafficMatrix
    """`weights[a][b]` is the weight of a pod of role a for one of role b; the roles are those of the
    problem."""
    most: int
    """What all pods are worth if every pair that draws is near and no other one is."""

    def cost(self, counts: Sequence[Sequence[int]]) -> int:
        """The cost of so many pods per value and role, exactly."""
        return self.most - sum(map(self.matrix.inside, counts))

    def value_of(self, values: Sequence[str], node: str) -> str:
        """What nodes that are near each other have in common; empty for a node that is near none."""
        return node if self.key == UNIQUE_PER_NODE else values[self.key]


Primitive = (
    AtMost
    | GangDomain
    | FewGangDomains
    | SubgroupConstraint
    | SubgroupPreference
    | Apart
    | Near
    | Skew
    | ValueDomain
    | FewValues
    | TrafficMatrix
    | PairPreference
)
