"""A placement problem as data: roles of interchangeable pods, classes of equal nodes, and rules.

A rule joins several pods. Each kind of rule is a module of this package with one subclass of `Rule`, which
holds its data, says what it needs and what is left of it when it is relaxed, and checks a placement.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import ClassVar, Protocol

from msgspec import Struct

from phalanx.model.counted_nodes import CountedNodes
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.queues import Objective
from phalanx.model.reasons import Evidence, Reason
from phalanx.rules.anchors import Anchor, RoleAnchor, SubgroupAnchor
from phalanx.rules.primitives import UNIQUE_PER_NODE, Primitive


class Obstacle(StrEnum):
    """What prevents a placement, in the order in which it is named."""

    LIMITS = "limits"
    """The budgets."""

    LEVELS = "levels"
    """The required levels of the gang and its subgroups."""

    CAPACITY = "capacity"
    """Usage of nodes by other pods."""

    AFFINITY = "affinity"
    """Affinity and anti-affinity between pods."""


class RuleWords(Struct, frozen=True):
    """What a verdict says where a rule is why a gang waits, in the words of the plugin that made the rule."""

    message: str
    """Follows the number of pods that fit."""
    next_step: str = ""
    evidence: tuple[Evidence, ...] = ()
    reason: Reason = Reason.PLUGIN_LIMIT
    above: Reason = Reason.ABOVE_PLUGIN_LIMIT
    """The reason where the gang would not even fit the empty cluster."""


class Rule(Struct, frozen=True):
    """A constraint or a preference over several pods."""

    name: str

    reason: ClassVar[Reason] = Reason.POD_AFFINITY
    """The reason of a gang that waits because of it, where affinity is the obstacle."""
    is_about_pairs: ClassVar[bool] = False
    """Whether it is about pairs of pods, so that it needs a key only if nodes share values of it."""
    names_shapes: ClassVar[bool] = False
    """Whether it tells pods apart by their shape."""
    counts_others: ClassVar[bool] = False
    """Whether it counts pods outside the gang, so that their end changes it."""

    @property
    def is_complete(self) -> bool:
        """Whether its kind can be lowered and, unless it is a preference, checked."""
        kind = type(self)
        is_checked = self.obstacle is None or kind.violations is not Rule.violations
        return is_checked and kind.lower is not Rule.lower

    @property
    def obstacle(self) -> Obstacle | None:
        """The obstacle that the rule is part of; None for a preference, which is part of the objective.

        A placement never fails because of a preference.
        """
        return None

    @property
    def words(self) -> RuleWords | None:
        """What a verdict says about it; None for the words that its reason has."""
        return None

    def evidence(self, most: int) -> str:
        """What a verdict says about the pods that it counts, by at most so many domains."""
        return ""

    @property
    def gang_level(self) -> str:
        """The level that it asks for the whole gang; empty for none."""
        return ""

    @property
    def subgroup_level(self) -> str:
        """The level of the gang's topology that it asks for a subgroup; empty for none."""
        return ""

    def depth(self, levels: Sequence[str]) -> int:
        """How many of the levels, from the widest, it needs in the problem."""
        asked = (self.gang_level, self.subgroup_level)
        return max([number for number, level in enumerate(levels, 1) if level in asked], default=0)

    @property
    def keys(self) -> tuple[str, ...]:
        """The node labels, or levels of other topologies, whose values it compares."""
        return tuple(self.other_levels)

    @property
    def other_levels(self) -> "Mapping[str, OtherLevel]":
        """Those of its keys that are levels of other topologies."""
        return {}

    @property
    def counted_values(self) -> "Mapping[str, CountedValue]":
        """Those of its keys that have a value on some nodes with a label only."""
        return {}

    @property
    def limited(self) -> Collection[str]:
        """The resources whose use it limits."""
        return ()

    @property
    def is_met_by_others(self) -> bool:
        """Whether pods outside the gang satisfy it too."""
        return False

    def full(self, shape: ShapeKey) -> Mapping[str, frozenset[str]]:
        """By key, the values where one more pod of this shape would be too many beside other pods."""
        return {}

    def with_roles(self, members: tuple[str, ...], anchors: tuple[RoleAnchor, ...]) -> "Rule":
        """The rule for a problem whose roles have pods of these roles of the gang, beside running members."""
        return self

    def with_running(self, members: "RunningMembers") -> "Rule":
        """The rule with the running members of its subgroup, where it counts them itself."""
        return self

    def lower(self, problem: "PlacementProblem") -> Iterator[Primitive]:
        """What the rule is in terms of the primitives that back ends know."""
        raise NotImplementedError(f"{self.name}: a rule is made of primitives")

    def violations(self, placed: "PlacedPods") -> Iterator[str]:
        """How a placement breaks the rule, from the problem alone. A preference is never broken."""
        return iter(())

    def softened(self) -> "Rule | None":
        """What remains of the rule where it is dropped: a preference, or nothing."""
        return None


class OtherLevel(Struct, frozen=True):
    """A level of another topology than the gang's, as a key of the problem."""

    topology: str
    level: str
    counts_nodes: bool
    """Whether a node in no domain of the level is a domain of its own."""


class CountedValue(Struct, frozen=True):
    """The value of a label as a key of the problem; empty on nodes that are not counted."""

    label: str
    counted: CountedNodes


class RunningMembers(Protocol):
    """Where members of a gang already run."""

    def nodes(self, subgroup: str) -> Sequence[NodeName]:
        """The node of each member of the subgroup that has one."""

    def value(self, node: NodeName, topology: str, level: str) -> str:
        """The domain that the labels of the node name; empty for none."""


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

    def roles_in(self, subgroup: str) -> tuple[int, ...]:
        """The indices of the roles in the subgroup."""
        return tuple([index for index, role in enumerate(self.roles) if subgroup in role.subgroups])

    def roles_with(self, shapes: Collection[str]) -> tuple[int, ...]:
        """The indices of the roles whose pods have one of these shapes."""
        return tuple([index for index, role in enumerate(self.roles) if role.shape in shapes])

    def key_of(self, key: str) -> int:
        """The index of a key, or UNIQUE_PER_NODE."""
        return self.keys.index(key) if key in self.keys else UNIQUE_PER_NODE

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


class PlacedPods(Struct, frozen=True):
    """A finished placement, for the check of a rule."""

    problem: PlacementProblem
    assignments: Sequence[Assignment]
    classes: Mapping[NodeName, NodeClass]
    """The class of each used node."""

    def of_subgroup(self, subgroup: str) -> list[Assignment]:
        """The assignments of roles in the subgroup."""
        return [one for one in self.assignments if subgroup in self.problem.roles[one.role].subgroups]

    def by_value(self, key: str) -> dict[str, Counter[str]]:
        """The pods by shape and value of a label; the empty value where nodes lack it."""
        number = self.problem.keys.index(key) if key in self.problem.keys else None
        pods: dict[str, Counter[str]] = {}
        for one in self.assignments:
            value = one.node if number is None else self.classes[one.node].label_values[number]
            pods.setdefault(value, Counter())[self.problem.roles[one.role].shape] += one.count
        return pods
