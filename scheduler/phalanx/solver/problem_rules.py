"""Groups the primitives that the rules of a problem are made of, for the back ends."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, TypeVar, assert_never

from msgspec import Struct

from phalanx.rules.anchors import SubgroupAnchor
from phalanx.rules.primitives import (
    UNIQUE_PER_NODE,
    Apart,
    AtMost,
    FewGangDomains,
    FewValues,
    GangDomain,
    Near,
    PairPreference,
    Primitive,
    Skew,
    SubgroupConstraint,
    SubgroupPreference,
    ValueDomain,
)
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand, Rule
from phalanx.rules.traffic_matrix import TrafficMatrix

P = TypeVar("P")


class SubgroupTightness(Struct, frozen=True):
    """A subgroup that is to open domains with little pod capacity."""

    level: int
    """The deepest one that the subgroup asks for."""
    roles: tuple[int, ...]
    anchors: tuple[SubgroupAnchor, ...]
    """Where members already run."""
    is_one: bool
    """Whether one domain must hold all of its pods."""


class ProblemRules(Struct, frozen=True):
    """The primitives of a problem that have pods to place. Levels are indices into those of the problem."""

    required: int | None
    """The deepest level of which one domain must hold the gang; None without one."""
    preferred: int | None
    """The deepest level of which few domains are preferred; None without one."""
    budgets: tuple[AtMost, ...]
    """In the order to which `NodeClass.budgets` refers."""
    subgroup_constraints: tuple[SubgroupConstraint, ...] = ()
    subgroup_preferences: tuple[SubgroupPreference, ...] = ()
    subgroup_tightness: tuple[SubgroupTightness, ...] = ()
    """The widest level first; none in problems without such terms."""
    apart: tuple[Apart, ...] = ()
    near: tuple[Near, ...] = ()
    skews: tuple[Skew, ...] = ()
    value_domains: tuple[ValueDomain, ...] = ()
    few_values: tuple[FewValues, ...] = ()
    traffic: TrafficMatrix | None = None
    """None if no pod to place sends or receives."""
    traffic_depth: int = 0
    """How many levels, from the widest, count traffic: all or none."""
    pairs: tuple[PairPreference, ...] = ()

    @property
    def compares_values(self) -> bool:
        """Whether some constraint is about values of keys."""
        return bool(self.apart or self.near or self.skews or self.value_domains)

    @property
    def other_keys(self) -> tuple[int, ...]:
        """The keys whose domains are preferred to be few, in the order of the terms: by topology as the rules
        name them, the widest level first."""
        deepest: dict[int, tuple[int, ...]] = {}
        for preference in self.few_values:
            widest = preference.keys[0]
            deepest[widest] = max(deepest.get(widest, ()), preference.keys, key=len)
        return tuple([key for keys in deepest.values() for key in keys])

    @property
    def counts_nodes(self) -> bool:
        """Whether it matters which pods share a node."""
        return self.traffic is not None or any(each.key == UNIQUE_PER_NODE for each in self.pairs)

    @property
    def depth(self) -> int:
        """How many levels, from the widest, matter to any rule."""
        return max(
            self.gang_depth,
            self.traffic_depth,
            self.subgroup_preferred_depth,
            *(constraint.level + 1 for constraint in self.subgroup_constraints),
        )

    @property
    def subgroup_preferred_depth(self) -> int:
        """How many levels, from the widest, count the domains of some subgroup."""
        return max((preference.depth for preference in self.subgroup_preferences), default=0)

    @property
    def gang_depth(self) -> int:
        """How many levels, from the widest, matter to rules about the whole gang."""
        return max(self.required_depth, self.preferred_depth)

    @property
    def required_depth(self) -> int:
        """How many levels, from the widest, must be one domain."""
        return 0 if self.required is None else self.required + 1

    @property
    def preferred_depth(self) -> int:
        """How many levels, from the widest, have their domains counted by the objective."""
        return 0 if self.preferred is None else self.preferred + 1

    def budgets_of(self, node_class: NodeClass) -> tuple[int, ...]:
        """Return the indices of the budgets that count nodes of this class."""
        if not self.budgets:
            return ()
        return tuple(
            index
            for index, budget in enumerate(self.budgets)
            if budget.nodes is None or index in node_class.budgets
        )


NO_RULES_READ: Final = ProblemRules(required=None, preferred=None, budgets=())


def primitives_of(problem: PlacementProblem) -> Iterator[Primitive]:
    """What the rules are made of. Raises ValueError for a level that the problem does not have."""
    for rule in problem.rules:
        yield from rule.lower(problem)


def sole_primitive(problem: PlacementProblem, rule: Rule, kind: type[P]) -> P | None:
    """The primitive of this type, if the rule is made of it alone."""
    primitives = tuple(rule.lower(problem))
    return primitives[0] if len(primitives) == 1 and isinstance(primitives[0], kind) else None


def read_rules(problem: PlacementProblem) -> ProblemRules:
    """Group the primitives."""
    if not problem.rules:
        return NO_RULES_READ
    found: dict[type, list[Any]] = {}
    for primitive in primitives_of(problem):
        if _has_pods(primitive):
            found.setdefault(type(primitive), []).append(primitive)

    def of(kind: type[P]) -> tuple[P, ...]:
        return tuple(found.get(kind, ()))

    traffic = of(TrafficMatrix)
    return ProblemRules(
        required=max([each.level for each in of(GangDomain)], default=None),
        preferred=max([each.level for each in of(FewGangDomains)], default=None),
        budgets=of(AtMost),
        subgroup_constraints=of(SubgroupConstraint),
        subgroup_preferences=of(SubgroupPreference),
        subgroup_tightness=tuple(_tightness(problem)) if problem.packs_subgroups else (),
        apart=of(Apart),
        near=of(Near),
        skews=of(Skew),
        value_domains=of(ValueDomain),
        few_values=of(FewValues),
        traffic=traffic[0] if traffic else None,
        traffic_depth=len(problem.levels) if traffic else 0,
        pairs=of(PairPreference),
    )


def _has_pods(primitive: Primitive) -> bool:
    """Whether it is about pods of the problem. A new primitive is grouped above, and each back end states it
    or declines it."""
    match primitive:
        case SubgroupConstraint() | SubgroupPreference() | FewValues():
            return bool(primitive.roles)
        case Apart() | Near() | Skew() | ValueDomain():
            return bool(primitive.owners)
        case AtMost() | GangDomain() | FewGangDomains() | TrafficMatrix() | PairPreference():
            return True
        case _:
            assert_never(primitive)


def _tightness(problem: PlacementProblem) -> list[SubgroupTightness]:
    deepest: dict[str, int] = {}
    shared: dict[str, int] = {}
    roles: dict[str, tuple[int, ...]] = {}
    for primitive in primitives_of(problem):
        match primitive:
            case SubgroupConstraint(subgroup, level, members, size):
                deepest[subgroup] = max(deepest.get(subgroup, 0), level)
                if not size:
                    shared[subgroup] = max(shared.get(subgroup, 0), level)
                roles[subgroup] = members
            case SubgroupPreference(subgroup, depth, members):
                deepest[subgroup] = max(deepest.get(subgroup, 0), depth - 1)
                roles[subgroup] = members
    return [
        SubgroupTightness(
            level=level,
            roles=roles[subgroup],
            anchors=tuple([each for each in problem.subgroup_anchors if each.subgroup == subgroup]),
            is_one=shared.get(subgroup) == level,
        )
        for subgroup, level in sorted(deepest.items(), key=itemgetter(1))
        if roles[subgroup]
    ]


def domains_of(problem: PlacementProblem, skew: Skew) -> dict[str, int]:
    """The domains of a skew with the counted pods there, those that owners may use included."""
    values = {
        group.label_values[skew.key]
        for group in problem.classes
        if any(group.eligible[owner] for owner in skew.owners)
    }
    return {**dict.fromkeys(sorted(values - {""}), 0), **dict(skew.existing)}


def pods_allowed(problem: PlacementProblem, budget: AtMost, role: RoleDemand) -> int:
    """How many pods of the role the budget allows while no other pod uses it, at most its maximum."""
    counts = [
        max(0, budget.remaining[name]) // need
        for name, need in zip(problem.resources, role.request, strict=True)
        if need > 0 and name in budget.remaining
    ]
    return min(role.maximum, *counts) if counts else role.maximum
