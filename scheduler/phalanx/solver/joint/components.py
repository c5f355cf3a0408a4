"""Splits a gang into components that are distributed to regions independently.

A component is a set of pods that must share one domain, or pods that no rule ties to a domain.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from phalanx.model.rules import FewestDomains, SameDomain, SubgroupDomain, SubgroupFewest, SubgroupSegments
from phalanx.solver.joint.problem import GangDemand, JointProblem


class Unsupported(Exception):
    """The problem has a rule or a budget that this engine does not model."""


class ComponentConstraint(Struct, frozen=True):
    """A rule about some role sets of a component."""

    depth: int
    """The level as a depth: 1 is the widest."""
    size: int
    """0: one domain holds all of their pods. Otherwise each domain holds a multiple of it."""
    role_sets: tuple[int, ...]
    """Indices into `Component.role_sets`."""


class Component(Struct, frozen=True):
    """Pods of a gang that share a domain, or that may be placed anywhere."""

    gang: int
    required: int
    """Depth of the domain that all pods share; 0 where they may be placed anywhere."""
    preferred: int
    """Depth down to which few domains are preferred."""
    role_sets: tuple[tuple[int, ...], ...]
    """Roles of the gang, by index, grouped by the rules that mention them."""
    constraints: tuple[ComponentConstraint, ...] = ()
    """Where `required` is 0: none, or a single one about segments of all pods."""

    @property
    def segment(self) -> int:
        """Segment size where the component may be placed anywhere; every region holds a multiple of it."""
        return self.constraints[0].size if self.constraints and not self.required else 0

    @property
    def depth(self) -> int:
        """The deepest level that a rule names; wider levels follow from it."""
        return max([self.required, *(constraint.depth for constraint in self.constraints)])


class _RoleConstraint(Struct, frozen=True):
    """A rule about some roles of a gang, by index; `size` as in ComponentConstraint."""

    depth: int
    size: int
    roles: frozenset[int]


def components_of(problem: JointProblem, gang: int) -> tuple[Component, ...]:
    """Return the components of a gang.

    Raises Unsupported where segments enclose roles that have a rule of their own.
    """
    demand = problem.gangs[gang]
    required = max(
        [_depth(problem, rule.level) for rule in demand.rules if isinstance(rule, SameDomain)], default=0
    )
    role_constraints = sorted(
        _role_constraints(problem, demand),
        key=lambda found: (-len(found.roles), found.size > 0, -found.depth),
    )
    left = frozenset(range(len(demand.roles)))
    if required:
        return (_component(problem, gang, left, required, role_constraints),)
    components = []
    for found in role_constraints:
        if not found.roles <= left:
            continue
        inner = [other for other in role_constraints if other is not found and other.roles <= found.roles]
        if found.size and inner:
            raise Unsupported(f"{demand.name}: segments around roles that have a level of their own")
        left -= found.roles
        own = [found] if found.size else inner
        components.append(_component(problem, gang, found.roles, 0 if found.size else found.depth, own))
    if left:
        components.append(_component(problem, gang, left, 0, ()))
    return tuple(components)


def _role_constraints(problem: JointProblem, demand: GangDemand) -> Iterator[_RoleConstraint]:
    for rule in demand.rules:
        if isinstance(rule, SubgroupDomain | SubgroupSegments):
            roles = _roles_in(demand, rule.subgroup)
            if roles:
                size = rule.size if isinstance(rule, SubgroupSegments) else 0
                yield _RoleConstraint(_depth(problem, rule.level), size, roles)


def _component(
    problem: JointProblem,
    gang: int,
    roles: frozenset[int],
    required: int,
    role_constraints: Sequence[_RoleConstraint],
) -> Component:
    """Build a component; rules about wider levels than the shared one are implied and dropped."""
    demand = problem.gangs[gang]
    kept = [found for found in role_constraints if found.size or found.depth > required]
    role_sets: dict[tuple[bool, ...], list[int]] = {}
    for role in sorted(roles):
        role_sets.setdefault(tuple(role in found.roles for found in kept), []).append(role)
    constraints = tuple(
        ComponentConstraint(
            found.depth, found.size, tuple(place for place, inside in enumerate(role_sets) if inside[index])
        )
        for index, found in enumerate(kept)
    )
    preferred = [
        _depth(problem, rule.level)
        for rule in demand.rules
        if isinstance(rule, FewestDomains)
        or (isinstance(rule, SubgroupFewest) and roles <= _roles_in(demand, rule.subgroup))
    ]
    return Component(
        gang, required, max(preferred, default=0), tuple(map(tuple, role_sets.values())), constraints
    )


def _roles_in(demand: GangDemand, subgroup: str) -> frozenset[int]:
    return frozenset(index for index, role in enumerate(demand.roles) if subgroup in role.subgroups)


def _depth(problem: JointProblem, level: str) -> int:
    return problem.levels.index(level) + 1
