"""A placement problem and its answer, as data. The solver knows no policy: actions build the problem."""

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
"""Nodes of a problem up to which CP-SAT is asked where nothing but tightness is left to be proven."""


class RoleDemand(Struct, frozen=True):
    """Interchangeable pods to place. `request` is aligned with `Problem.resources`; all entries are >= 0.

    At least `minimum` and at most `maximum` of them are placed, as many as possible; 0 <= minimum <= maximum.
    `subgroups` are those in which the role lies, whatever their order. `shape` is what rules about company
    know its pods by.
    """

    name: str
    request: tuple[int, ...]
    minimum: int
    maximum: int
    subgroups: tuple[str, ...] = ()
    shape: str = ""


class SubgroupAnchor(Struct, frozen=True):
    """`count` members of the subgroup already run in the domain with this path."""

    subgroup: str
    path: tuple[str, ...]
    count: int


class NodeClass(Struct, frozen=True, omit_defaults=True):
    """Nodes that are the same to this problem. All tuples per role are aligned with `Problem.roles`.

    `path` holds the domain names from the widest level down; shorter where a node lacks the label of a level.
    Such a node is in no domain of that level: SameDomain excludes it, FewestDomains counts it by itself.
    `free` is aligned with `Problem.resources` and is never negative. `price` is per pod, smaller is better,
    at most OBJECTIVE_COEFFICIENT_MAX in absolute value.
    `budgets` are indices into the Budget rules of `Problem.rules` (in their order) that count these nodes.
    `nodes` come in order of preference: backends take them from the front where nothing else decides. Nodes
    that no answer could need are left out: never more than the roles' maxima together. `order` has a key for
    each node by which nodes of different classes compare, smaller first; it begins with the fragments that a
    pod leaves there, where these are to be few, and is empty where `Problem.ties` is Pack. `spots` are the
    values of the labels in `Problem.keys`, empty for none. `room` is what each node adds to the room of its
    domain, of which an answer opens as little as it can; 0 where no pod fits or tightness does not matter.
    `left_out` is how many nodes of the class are left out; they have room too.
    """

    path: tuple[str, ...]
    free: tuple[int, ...]
    eligible: tuple[bool, ...]
    cost: tuple[int, ...]
    nodes: tuple[NodeName, ...]
    budgets: tuple[int, ...] = ()
    order: tuple[tuple[int, ...], ...] = ()
    label_values: tuple[str, ...] = ()
    capacity: int = 0
    left_out: int = 0


class PlacementProblem(Struct, frozen=True, dict=True):
    """Place these roles on these classes under these rules.

    `levels` are the names of the topology's levels, widest first. `anchors` are the domain paths of members
    of the gang that already run; SameDomain and FewestDomains count them. `subgroup_anchors` tell the same of
    each subgroup that a rule is about. `ties` says which of equally good placements is taken. `keys` are the
    node labels of rules about company; one that is not here has another value on every node. Where `ties` is
    Spread, `spread` tells how many numbers of domains, widest first, end the keys of `NodeClass.order`.
    """

    resources: tuple[str, ...]
    levels: tuple[str, ...]
    roles: tuple[RoleDemand, ...]
    classes: tuple[NodeClass, ...]
    rules: tuple[Rule, ...] = ()
    anchors: tuple[tuple[str, ...], ...] = ()
    seed: int = 0
    subgroup_anchors: tuple[SubgroupAnchor, ...] = ()
    ties: Objective = Objective.PACK
    keys: tuple[str, ...] = ()
    spread: int = 0

    @cached_property
    def has_costs(self) -> bool:
        """Whether some node is dearer, or cheaper, than nothing."""
        return any(map(any, set(map(attrgetter("cost"), self.classes))))

    @cached_property
    def prefers_tightness(self) -> bool:
        """Whether tightness matters."""
        return any(map(attrgetter("capacity"), self.classes))


class Assignment(Struct, frozen=True):
    """`count` pods of the role with this index go to this node."""

    role: int
    node: NodeName
    count: int


class Placed(Struct, frozen=True):
    """A complete, checked placement with its certificate.

    `defects` names answers of a backend that failed the check and were dropped: a bug, to be reported.
    """

    assignments: tuple[Assignment, ...]
    certificate: Certificate
    errors: tuple[str, ...] = ()


class Unplaceable(Struct, frozen=True):
    """No placement was found. `proven` when none exists, by the backend `by`. `defects` as in Placed."""

    proven: bool
    by: str
    errors: tuple[str, ...] = ()


Answer = Placed | Unplaceable


class SolveLimits(Struct, frozen=True):
    """How much effort one answer may take. `deterministic` is in CP-SAT's units, shared by all of its solves.

    With 0 only closed forms, dynamic programs and greedy search answer.
    """

    deterministic: float = SOLVE_DETERMINISTIC_LIMIT
