"""A placement problem and its answer, as data.

Roles of interchangeable pods are assigned to classes of equal nodes under rules.
"""

from functools import cached_property
from operator import attrgetter
from typing import Final

from msgspec import Struct

from phalanx.limits import SOLVE_DETERMINISTIC_LIMIT
from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.model.rules import Rule

TIGHTNESS_NODES_MAX: Final = 1_024
"""Nodes of a problem up to which CP-SAT is used where only the tightness term is left to prove."""


class RoleDemand(Struct, frozen=True):
    """Interchangeable pods to place: at least `minimum`, at most `maximum`, as many as possible."""

    name: str
    request: tuple[int, ...]
    """Amounts per pod, aligned with `PlacementProblem.resources`; all are >= 0."""
    minimum: int
    maximum: int
    subgroups: tuple[str, ...] = ()
    """Names of the subgroups that contain the role, in any order."""
    shape: str = ""
    """The key by which affinity rules identify its pods."""


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


class NodeClass(Struct, frozen=True, omit_defaults=True):
    """Nodes that are equal in this problem. Tuples per role are aligned with `PlacementProblem.roles`."""

    path: tuple[str, ...]
    """Domain names from the widest level down; shorter where the nodes lack the label of a level.

    Such a node is in no domain of that level: SameDomain excludes it, FewestDomains counts it as a domain. A
    label value may be empty.
    """
    free: tuple[int, ...]
    """Free amounts, aligned with `PlacementProblem.resources`; never negative."""
    eligible: tuple[bool, ...]
    """Per role, whether its pods may run here."""
    cost: tuple[int, ...]
    """Per role, the cost of one pod; smaller is better, at most OBJECTIVE_COEFFICIENT_MAX in absolute
    value."""
    nodes: tuple[NodeName, ...]
    """In order of preference.

    Nodes that no answer could need are left out: at most the sum of the roles' maxima remains.
    """
    budgets: tuple[int, ...] = ()
    """Indices, among the Budget rules in order, of those that count these nodes."""
    order: tuple[tuple[int, ...], ...] = ()
    """A sort key per node across classes, smaller first; empty where `ties` is Pack.

    It begins with the fragmentation that a pod leaves on the node where that is to be minimised.
    """
    label_values: tuple[str, ...] = ()
    """Values of the labels in `PlacementProblem.label_keys`; empty for none."""
    domain_capacity: int = 0
    """What its domain of the gang's deepest level adds to the tightness term if the gang opens it.

    It is equal for all classes of a domain and includes nodes that are not listed. Where the nodes lack the
    label of that level it is what each node adds. 0 in problems without a tightness term.
    """
    subgroup_capacities: tuple[tuple[int, int], ...] = ()
    """The same of its domains of the levels that subgroups ask for, by index of the level."""


class PlacementProblem(Struct, frozen=True, dict=True):
    """Place these roles on these classes under these rules."""

    resources: tuple[str, ...]
    levels: tuple[str, ...]
    """Names of the topology levels, widest first."""
    roles: tuple[RoleDemand, ...]
    classes: tuple[NodeClass, ...]
    rules: tuple[Rule, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    """Where members of the gang already run; SameDomain and FewestDomains count them."""
    seed: int = 0
    subgroup_anchors: tuple[SubgroupAnchor, ...] = ()
    """The same for each subgroup that a rule is about."""
    ties: Objective = Objective.PACK
    """Which of equally good placements is preferred."""
    keys: tuple[str, ...] = ()
    """Node labels of affinity rules. A label that is not listed has a different value on every node."""
    spread: int = 0
    """Where `ties` is Spread: how many domain numbers, widest first, end the keys of `NodeClass.order`."""

    @cached_property
    def has_costs(self) -> bool:
        """Whether some node has a cost."""
        return any(map(any, set(map(attrgetter("cost"), self.classes))))

    @cached_property
    def prefers_tightness(self) -> bool:
        """Whether the tightness term is part of the objective."""
        return any(map(attrgetter("domain_capacity"), self.classes))

    @cached_property
    def packs_subgroups(self) -> bool:
        """Whether the objective has terms of tightness for subgroups."""
        return any(map(attrgetter("subgroup_capacities"), self.classes))


class Assignment(Struct, frozen=True):
    """`count` pods of the role with this index go to this node."""

    role: int
    node: NodeName
    count: int


class Placed(Struct, frozen=True):
    """A complete, checked placement with its certificate."""

    assignments: tuple[Assignment, ...]
    certificate: Certificate
    errors: tuple[str, ...] = ()
    """Solver errors: answers of backends that failed and were dropped."""


class Unplaceable(Struct, frozen=True):
    """No placement was found."""

    proven: bool
    """Whether none exists."""
    by: str
    """The backend that answered."""
    errors: tuple[str, ...] = ()
    """As in Placed."""


Answer = Placed | Unplaceable


class SolveLimits(Struct, frozen=True):
    """Effort limit of one answer."""

    deterministic: float = SOLVE_DETERMINISTIC_LIMIT
    """CP-SAT's deterministic time units, shared by all of its solves; with 0 CP-SAT is not used."""
