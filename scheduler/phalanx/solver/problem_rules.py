"""Compiles the rules of a problem to indices of levels, roles and labels."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

from msgspec import Struct

from phalanx.rules.affinity import AffinityRule, PodAffinityRule, PodPairs
from phalanx.rules.budget import Budget
from phalanx.rules.levels import FewestDomains, SameDomain
from phalanx.rules.other_topologies import OtherTopologyDomain, OtherTopologyFewest
from phalanx.rules.problem import NodeClass, PlacementProblem, RoleDemand, SubgroupAnchor
from phalanx.rules.subgroups import SubgroupDomain, SubgroupFewest, SubgroupRule, SubgroupSegments
from phalanx.rules.topology_spread import TopologySpreadRule
from phalanx.rules.traffic import Traffic
from phalanx.solver.pair_preferences import UNIQUE_PER_NODE, PairPreference, preference_of
from phalanx.solver.traffic_matrix import TrafficMatrix, matrix_of


class SubgroupConstraint(Struct, frozen=True):
    """A hard rule about a subgroup."""

    rule: SubgroupRule
    level: int
    """Index of its level."""
    roles: tuple[int, ...]
    """Indices of the roles in the subgroup."""
    size: int
    """0: one domain holds all pods. Otherwise each domain holds a multiple of it."""
    anchors: Mapping[tuple[str, ...], int]
    """Running members by path down to the level; shorter where their nodes lack a label."""


class SubgroupPreference(Struct, frozen=True):
    """The preference of a subgroup for few domains."""

    depth: int
    """How many levels, from the widest, have its domains counted."""
    roles: tuple[int, ...]
    anchors: tuple[SubgroupAnchor, ...]
    """Where members already run."""


class SubgroupTightness(Struct, frozen=True):
    """A subgroup that is to open domains with little pod capacity."""

    level: int
    """The deepest one that the subgroup asks for."""
    roles: tuple[int, ...]
    anchors: tuple[SubgroupAnchor, ...]
    """Where members already run."""
    is_one: bool
    """Whether one domain must hold all of its pods."""


class AffinityConstraint(Struct, frozen=True):
    """An affinity or anti-affinity rule, or one about domains of another topology, of which `owners` are the
    roles in the subgroup."""

    rule: AffinityRule | OtherTopologyDomain
    key: int
    """Index of its label, or UNIQUE_PER_NODE."""
    owners: tuple[int, ...]
    """Roles that state the rule."""
    others: tuple[int, ...]
    """Roles that it selects."""
    begin: tuple[int, ...] = ()
    """Affinity only: roles of which one pod may start a new domain."""
    perhaps: tuple[int, ...] = ()
    """Spread only: roles that count on some nodes."""


class OtherTopologyPreference(Struct, frozen=True):
    """The preference of a subgroup for few domains of another topology."""

    keys: tuple[int, ...]
    """Indices of the keys of its levels, the widest first."""
    roles: tuple[int, ...]
    anchored: tuple[frozenset[str], ...]
    """Per level, the domains of running members."""
    open: tuple[frozenset[str], ...]
    """Per level, the domains whose use adds none."""


class ProblemRules(Struct, frozen=True):
    """The compiled rules. Levels are indices into `PlacementProblem.levels`."""

    required: int | None
    """The deepest level of which one domain must hold the gang; None without one."""
    preferred: int | None
    """The deepest level of which few domains are preferred; None without one."""
    budgets: tuple[Budget, ...]
    """In the order to which `NodeClass.budgets` refers."""
    subgroup_constraints: tuple[SubgroupConstraint, ...] = ()
    """Those with pods to place."""
    subgroup_preferences: tuple[SubgroupPreference, ...] = ()
    """Those with pods to place."""
    subgroup_tightness: tuple[SubgroupTightness, ...] = ()
    """Those with pods to place, the widest level first; none in problems without such terms."""
    affinity_constraints: tuple[AffinityConstraint, ...] = ()
    """Those with pods to place."""
    other_preferences: tuple[OtherTopologyPreference, ...] = ()
    """Those with pods to place."""
    traffic: TrafficMatrix | None = None
    """None if no pod to place sends or receives."""
    traffic_depth: int = 0
    """How many levels, from the widest, count traffic: all or none."""
    pairs: tuple[PairPreference, ...] = ()
    """Those with pods to place."""

    @property
    def other_keys(self) -> tuple[int, ...]:
        """The keys whose domains are preferred to be few, in the order of the terms: by topology as the rules
        name them, the widest level first."""
        deepest: dict[int, tuple[int, ...]] = {}
        for preference in self.other_preferences:
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


def read_rules(problem: PlacementProblem) -> ProblemRules:
    """Compile the rules. Raises ValueError when a rule names a level that the problem does not have."""
    if not problem.rules:
        return NO_RULES_READ
    level = problem.levels.index
    required = [level(rule.level) for rule in problem.rules if isinstance(rule, SameDomain)]
    preferred = [level(rule.level) for rule in problem.rules if isinstance(rule, FewestDomains)]
    traffic = next((matrix_of(rule) for rule in problem.rules if isinstance(rule, Traffic)), None)
    return ProblemRules(
        required=max(required, default=None),
        preferred=max(preferred, default=None),
        budgets=tuple(rule for rule in problem.rules if isinstance(rule, Budget)),
        subgroup_constraints=tuple(
            constraint for constraint in _subgroup_constraints(problem) if constraint.roles
        ),
        subgroup_preferences=tuple(
            preference for preference in _subgroup_preferences(problem) if preference.roles
        ),
        subgroup_tightness=tuple(_subgroup_tightness(problem)) if problem.packs_subgroups else (),
        affinity_constraints=tuple(
            affinity for affinity in _affinity_constraints(problem) if affinity.owners
        ),
        other_preferences=tuple(preference for preference in _other_preferences(problem) if preference.roles),
        traffic=traffic,
        traffic_depth=len(problem.levels) if traffic is not None else 0,
        pairs=tuple(pairs for pairs in _pairs(problem) if pairs is not None),
    )


def _pairs(problem: PlacementProblem) -> Iterator[PairPreference | None]:
    return (preference_of(problem, rule) for rule in problem.rules if isinstance(rule, PodPairs))


def _subgroup_constraints(problem: PlacementProblem) -> Iterator[SubgroupConstraint]:
    for rule in problem.rules:
        if isinstance(rule, SubgroupRule):
            level = problem.levels.index(rule.level)
            anchors: dict[tuple[str, ...], int] = {}
            for anchor in problem.subgroup_anchors:
                if anchor.subgroup == rule.subgroup:
                    path = anchor.path[: level + 1]
                    anchors[path] = anchors.get(path, 0) + anchor.count
            yield SubgroupConstraint(
                rule=rule,
                level=level,
                roles=_roles_in(problem, rule.subgroup),
                size=rule.size if isinstance(rule, SubgroupSegments) else 0,
                anchors=anchors,
            )


def _subgroup_preferences(problem: PlacementProblem) -> Iterator[SubgroupPreference]:
    for rule in problem.rules:
        if isinstance(rule, SubgroupFewest):
            yield SubgroupPreference(
                depth=problem.levels.index(rule.level) + 1,
                roles=_roles_in(problem, rule.subgroup),
                anchors=tuple(
                    anchor for anchor in problem.subgroup_anchors if anchor.subgroup == rule.subgroup
                ),
            )


def _subgroup_tightness(problem: PlacementProblem) -> list[SubgroupTightness]:
    deepest: dict[str, int] = {}
    shared: dict[str, int] = {}
    for rule in problem.rules:
        if isinstance(rule, SubgroupRule | SubgroupFewest):
            level = problem.levels.index(rule.level)
            deepest[rule.subgroup] = max(deepest.get(rule.subgroup, 0), level)
            if isinstance(rule, SubgroupDomain):
                shared[rule.subgroup] = max(shared.get(rule.subgroup, 0), level)
    found = [
        SubgroupTightness(
            level=level,
            roles=_roles_in(problem, subgroup),
            anchors=tuple(each for each in problem.subgroup_anchors if each.subgroup == subgroup),
            is_one=shared.get(subgroup) == level,
        )
        for subgroup, level in sorted(deepest.items(), key=itemgetter(1))
    ]
    return [each for each in found if each.roles]


def _other_preferences(problem: PlacementProblem) -> Iterator[OtherTopologyPreference]:
    for rule in problem.rules:
        if isinstance(rule, OtherTopologyFewest):
            nowhere = ((),) * len(rule.levels)
            yield OtherTopologyPreference(
                keys=tuple([problem.keys.index(key) for key in rule.keys]),
                roles=_roles_in(problem, rule.subgroup),
                anchored=tuple(map(frozenset, rule.existing or nowhere)),
                open=tuple(map(frozenset, rule.open or nowhere)),
            )


def _affinity_constraints(problem: PlacementProblem) -> Iterator[AffinityConstraint]:
    for rule in problem.rules:
        if isinstance(rule, OtherTopologyDomain):
            yield AffinityConstraint(
                rule=rule,
                key=problem.keys.index(rule.key),
                owners=_roles_in(problem, rule.subgroup),
                others=(),
            )
        if isinstance(rule, AffinityRule):
            yield AffinityConstraint(
                rule=rule,
                key=problem.keys.index(rule.key) if rule.key in problem.keys else UNIQUE_PER_NODE,
                owners=roles_with_shapes(problem, rule.owners),
                others=roles_with_shapes(problem, rule.others),
                begin=roles_with_shapes(problem, rule.starters) if isinstance(rule, PodAffinityRule) else (),
                perhaps=roles_with_shapes(problem, rule.perhaps)
                if isinstance(rule, TopologySpreadRule)
                else (),
            )


def roles_with_shapes(problem: PlacementProblem, shapes: Sequence[str]) -> tuple[int, ...]:
    """Return the roles whose pods have one of these shapes."""
    return tuple(index for index, role in enumerate(problem.roles) if role.shape in shapes)


def domains_of(
    problem: PlacementProblem, spread: AffinityConstraint, rule: TopologySpreadRule
) -> dict[str, int]:
    """The domains of a spread constraint with the counted pods there, those that owners may use included."""
    values = {
        group.label_values[spread.key]
        for group in problem.classes
        if any(group.eligible[owner] for owner in spread.owners)
    }
    return {**dict.fromkeys(sorted(values - {""}), 0), **dict(rule.existing)}


def _roles_in(problem: PlacementProblem, subgroup: str) -> tuple[int, ...]:
    return tuple(index for index, role in enumerate(problem.roles) if subgroup in role.subgroups)


def pods_allowed(problem: PlacementProblem, budget: Budget, role: RoleDemand) -> int:
    """How many pods of the role the budget allows while no other pod uses it, at most its maximum."""
    counts = [
        max(0, budget.remaining[name]) // need
        for name, need in zip(problem.resources, role.request, strict=True)
        if need > 0 and name in budget.remaining
    ]
    return min(role.maximum, *counts) if counts else role.maximum
