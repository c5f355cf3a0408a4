"""The constraints of the counting model: one function each, registered under the name used in logs."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ortools.sat.python import cp_model

from phalanx.rules.primitives import SubgroupConstraint
from phalanx.solver.arrays import allowed_domains, anchored_counts
from phalanx.solver.counting.model import CountingModel
from phalanx.solver.counting.node_groups import NodeGroup
from phalanx.solver.domains import is_domain
from phalanx.solver.problem_rules import domains_of

Constraint = Callable[[CountingModel], None]
Opened = dict[int, cp_model.IntVar]

CONSTRAINTS: Final[dict[str, Constraint]] = {}
"""Every constraint by name, in the order in which they are added."""

_COVER_BITS = 20
"""Amounts in cover cuts keep this many bits: enough to count domains, small enough for the solver's cuts."""


def constraint(name: str) -> Callable[[Constraint], Constraint]:
    """Register a constraint under a unique name."""

    def register(function: Constraint) -> Constraint:
        if name in CONSTRAINTS:
            raise ValueError(f"two constraints are named {name}")
        CONSTRAINTS[name] = function
        return function

    return register


@constraint("role-counts")
def role_counts(model: CountingModel) -> None:
    """Each role has between its minimum and its maximum of pods."""
    for role, demand in enumerate(model.problem.roles):
        pods = model.pods_of(role, range(len(model.groups)))
        model.cp.add_linear_constraint(model.total(pods), demand.minimum, demand.maximum)


@constraint("capacity-patterns")
def capacity_patterns(model: CountingModel) -> None:
    """Nodes with several patterns: each node uses one, and the pods fit into the patterns used.

    Where it matters which pods share a node, the pods are those of the patterns.
    """
    for index, group in enumerate(model.groups):
        if len(group.patterns) < 2:
            continue
        used = [model.used[index, pattern] for pattern in range(len(group.patterns))]
        model.cp.add(model.total(used) <= len(group.nodes))
        for role in range(len(model.problem.roles)):
            if (role, index) in model.pods:
                fits = model.total(used, [pattern[role] for pattern in group.patterns])
                pods = model.pods[role, index]
                model.cp.add(pods == fits if model.rows.rules.counts_nodes else pods <= fits)


@constraint("capacity-amounts")
def capacity_amounts(model: CountingModel) -> None:
    """Single nodes without patterns: the requests are within the free amounts."""
    for index, group in enumerate(model.groups):
        if not group.patterns:
            roles = [(role, index) for role in range(len(model.problem.roles)) if (role, index) in model.pods]
            for resource, free in enumerate(group.free):
                _at_most(model, roles, resource, free)


@constraint("subgroup-domain")
def subgroup_domain(model: CountingModel) -> None:
    """The pods of a subgroup are in one domain, that of its running members."""
    for subgroup in model.rows.rules.subgroup_constraints:
        if subgroup.size:
            continue
        allowed = allowed_domains(model.rows, subgroup)
        chosen = []
        for domain, pods in _pods_by_domain(model, subgroup):
            if domain is None or (allowed is not None and domain not in allowed):
                model.cp.add(model.total(pods) == 0)
                continue
            home = model.cp.new_bool_var("")
            chosen.append(home)
            model.cp.add(model.total(pods) <= min(_wanted(model, subgroup), model.most(pods)) * home)
        model.cp.add_at_most_one(chosen)


@constraint("subgroup-segments")
def subgroup_segments(model: CountingModel) -> None:
    """Each domain with pods of a subgroup holds whole segments, running members included."""
    for subgroup in model.rows.rules.subgroup_constraints:
        there = anchored_counts(model.rows, subgroup) if subgroup.size else {}
        for domain, pods in _pods_by_domain(model, subgroup) if subgroup.size else ():
            if domain is None:
                model.cp.add(model.total(pods) == 0)
                continue
            count, used = there.get(domain, 0), model.cp.new_bool_var("")
            segments = model.cp.new_int_var(0, (model.most(pods) + count) // subgroup.size, "")
            model.cp.add(model.total(pods) + count == subgroup.size * segments).only_enforce_if(used)
            model.cp.add(model.total(pods) == 0).only_enforce_if(~used)


def _pods_by_domain(
    model: CountingModel, subgroup: SubgroupConstraint
) -> Iterator[tuple[int | None, list[cp_model.IntVar]]]:
    """The counts of the constraint's roles per domain of its level; None for nodes in no domain."""
    for domain, groups in _groups_by_domain(model, subgroup.level):
        key = model.rows.tree.keys[subgroup.level][domain]
        pods = [count for role in subgroup.roles for count in model.pods_of(role, groups)]
        yield (domain if is_domain(key) else None), pods


def _wanted(model: CountingModel, subgroup: SubgroupConstraint) -> int:
    return sum(model.problem.roles[role].maximum for role in subgroup.roles)


@constraint("anti-affinity")
def anti_affinity(model: CountingModel) -> None:
    """No pod shares a domain with a pod that its anti-affinity selects; at most one if it selects itself."""
    for affinity in model.rows.rules.apart:
        for label_value, groups in _groups_by_label_value(model, affinity.key):
            for owner in affinity.owners if label_value else ():
                pods = model.pods_of(owner, groups)
                there = model.cp.new_bool_var("")
                most = 1 if owner in affinity.others else model.problem.roles[owner].maximum
                model.cp.add(model.total(pods) <= min(most, model.most(pods)) * there)
                for other in affinity.others:
                    avoided = model.pods_of(other, groups) if other != owner else []
                    if avoided:
                        model.cp.add(model.total(avoided) == 0).only_enforce_if(there)


@constraint("affinity")
def affinity(model: CountingModel) -> None:
    """Pods share a domain with a pod that their affinity selects, or all are in one new domain with a pod
    that may start it."""
    for affinity in model.rows.rules.near:
        started = []
        for label_value, groups in _groups_by_label_value(model, affinity.key):
            pods = _pods_of_roles(model, affinity.owners, groups)
            if not pods or label_value in affinity.existing:
                continue
            allowed = []
            for roles in (affinity.others, affinity.begin) if label_value else ():
                wanted = _pods_of_roles(model, roles, groups)
                if not wanted:
                    continue
                present = model.cp.new_bool_var("")
                model.cp.add(model.total(wanted) >= present)
                allowed.append(present)
                if roles is affinity.begin:
                    started.append(present)
            model.cp.add(model.total(pods) <= model.most(pods) * sum(allowed))
        model.cp.add_at_most_one(started)


@constraint("topology-spread")
def topology_spread(model: CountingModel) -> None:
    """Where owners are, there are at most `max_skew` more pods than in the domain with the fewest."""
    for spread in model.rows.rules.skews:
        groups = dict(_groups_by_label_value(model, spread.key))
        owners = {value: _pods_of_roles(model, spread.owners, groups[value]) for value in groups}
        there = domains_of(model.problem, spread)
        counted = {value: _pods_of_roles(model, spread.others, groups.get(value, ())) for value in there}
        least: cp_model.IntVar | int = 0
        if len(there) >= spread.min_domains and there:
            most = [count + model.most(counted[value]) for value, count in there.items()]
            least = model.cp.new_int_var(0, min(most), "")
            for value, count in there.items():
                model.cp.add(least <= count + model.total(counted[value]))
        for value, pods in owners.items():
            if not value:
                model.cp.add(model.total(pods) == 0)
            elif pods:
                used = model.cp.new_bool_var("")
                model.cp.add(model.total(pods) <= model.most(pods) * used)
                fits = there[value] + model.total(counted[value]) <= spread.max_skew + least
                model.cp.add(fits).only_enforce_if(used)


@constraint("other-topology")
def other_topology(model: CountingModel) -> None:
    """The pods of a subgroup are in one domain of another topology, or each domain holds whole segments."""
    for constraint in model.rows.rules.value_domains:
        there, chosen = dict(constraint.existing), []
        for value, groups in _groups_by_label_value(model, constraint.key):
            pods = _pods_of_roles(model, constraint.owners, groups)
            if not value or (not constraint.size and there and there.keys() != {value}):
                model.cp.add(model.total(pods) == 0)
                continue
            used, count = model.cp.new_bool_var(""), there.get(value, 0)
            if constraint.size:
                segments = model.cp.new_int_var(0, (model.most(pods) + count) // constraint.size, "")
                model.cp.add(model.total(pods) + count == constraint.size * segments).only_enforce_if(used)
                model.cp.add(model.total(pods) == 0).only_enforce_if(~used)
            else:
                chosen.append(used)
                model.cp.add(model.total(pods) <= model.most(pods) * used)
        model.cp.add_at_most_one(chosen)


@constraint("other-topology-opened")
def other_topology_opened(model: CountingModel) -> None:
    """Pods of a subgroup that prefers few domains of another topology are only in opened ones."""
    for preference, opened in model.opened_elsewhere:
        for level, key in enumerate(preference.keys):
            for value, groups in _groups_by_label_value(model, key):
                if value in opened[level]:
                    pods = _pods_of_roles(model, preference.roles, groups)
                    model.cp.add(model.total(pods) <= model.most(pods) * opened[level][value])


def _pods_of_roles(
    model: CountingModel, roles: Sequence[int], groups: Sequence[int]
) -> list[cp_model.IntVar]:
    return [count for role in roles for count in model.pods_of(role, groups)]


@constraint("budget")
def budget(model: CountingModel) -> None:
    """The pods on the nodes of a budget stay within what remains of it."""
    for number, rule in enumerate(model.rows.rules.budgets):
        counted = [key for key in model.pods if number in model.groups[key[1]].budgets]
        for resource, name in enumerate(model.problem.resources):
            if name in rule.remaining:
                _at_most(model, counted, resource, max(0, rule.remaining[name]))


@constraint("domain-opened")
def domain_opened(model: CountingModel) -> None:
    """Pods are only in opened domains, and the outer domain of an opened one is opened."""
    _only_opened(model, range(len(model.problem.roles)), model.opened)


@constraint("subgroup-opened")
def subgroup_opened(model: CountingModel) -> None:
    """The same for the domains that a subgroup with a preference opens, for few domains or tight ones."""
    for roles, opened in model.opened_by_roles:
        _only_opened(model, roles, opened)


def _only_opened(model: CountingModel, roles: Sequence[int], per_level: dict[int, Opened]) -> None:
    for level, opened in per_level.items():
        for domain, groups in _groups_by_domain(model, level):
            if domain not in opened:
                continue
            for role in roles:
                pods = model.pods_of(role, groups)
                most = min(model.problem.roles[role].maximum, model.most(pods))
                model.cp.add(model.total(pods) <= most * opened[domain])
            outer = int(model.rows.tree.parent[level][domain])
            if level - 1 in per_level and outer in per_level[level - 1]:
                model.cp.add_implication(opened[domain], per_level[level - 1][outer])


@constraint("domains-cover-roles")
def domains_cover_roles(model: CountingModel) -> None:
    """Redundant, for the bound: the opened domains together hold each role's minimum."""
    _cover_roles(model, range(len(model.problem.roles)), model.opened)


@constraint("subgroup-opened-covers")
def subgroup_opened_covers(model: CountingModel) -> None:
    """Redundant, for the bound: the domains that a subgroup opens hold the minimums of its roles."""
    for roles, opened in model.opened_by_roles:
        _cover_roles(model, roles, opened)


def _cover_roles(model: CountingModel, roles: Sequence[int], per_level: dict[int, Opened]) -> None:
    for level, opened in per_level.items():
        for role in roles:
            fits = {
                domain: model.most(model.pods_of(role, groups))
                for domain, groups in _groups_by_domain(model, level)
            }
            _cover(model, opened, fits, model.problem.roles[role].minimum)


@constraint("domains-cover-amounts")
def domains_cover_amounts(model: CountingModel) -> None:
    """Redundant, for the bound: the opened domains together hold the requests of the minimums."""
    for level, opened in model.opened.items():
        for resource in range(len(model.problem.resources)):
            fits = {
                domain: sum(_usable(model, model.groups[index], resource) for index in groups)
                for domain, groups in _groups_by_domain(model, level)
            }
            wanted = sum(role.minimum * role.request[resource] for role in model.problem.roles)
            _cover(model, opened, fits, wanted)


def _groups_by_domain(model: CountingModel, level: int) -> Iterator[tuple[int, list[int]]]:
    """Each domain of the level with the indices of its groups."""
    members: dict[int, list[int]] = {}
    for index, group in enumerate(model.groups):
        members.setdefault(group.domains[level], []).append(index)
    yield from members.items()


def _groups_by_label_value(model: CountingModel, key: int) -> Iterator[tuple[str, list[int]]]:
    """Each value of a label with the indices of its groups."""
    members: dict[str, list[int]] = {}
    for index, group in enumerate(model.groups):
        members.setdefault(group.label_values[key], []).append(index)
    yield from members.items()


def _usable(model: CountingModel, group: NodeGroup, resource: int) -> int:
    """The most of a resource that pods on the group's nodes can use."""
    patterns = group.patterns or (group.fits,)
    requests = [role.request[resource] for role in model.problem.roles]
    used = max(
        sum(count * request for count, request in zip(pattern, requests, strict=True)) for pattern in patterns
    )
    return len(group.nodes) * (used if group.patterns else min(used, group.free[resource]))


def _at_most(model: CountingModel, keys: Sequence[tuple[int, int]], resource: int, amount: int) -> None:
    """Limit the sum of requests, exactly, in units of their greatest common divisor."""
    asked = {key: model.problem.roles[key[0]].request[resource] for key in keys}
    asked = {key: request for key, request in asked.items() if request > 0}
    pods = [model.pods[key] for key in asked]
    if (
        sum(model.most([count]) * request for count, request in zip(pods, asked.values(), strict=True))
        <= amount
    ):
        return
    unit = math.gcd(*asked.values())
    used = model.total(pods, [request // unit for request in asked.values()])
    model.cp.add(used <= amount // unit)


def _cover(model: CountingModel, opened: Opened, fits: dict[int, int], wanted: int) -> None:
    """The opened domains hold what the anchored ones do not; amounts are shortened on the safe side."""
    missing = wanted - sum(amount for domain, amount in fits.items() if domain not in opened)
    if missing <= 0:
        return
    shift = max(0, missing.bit_length() - _COVER_BITS)
    limit = missing >> shift
    sizes = [min(limit, -(-fits[domain] >> shift)) for domain in opened]
    model.cp.add(model.total(list(opened.values()), sizes) >= limit)
