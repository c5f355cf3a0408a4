"""Greedy search: the largest role first, best fit, in the tightest domains that fit.

It proves nothing, but it is the first incumbent, the hint and the fallback of every longer search. Pods with
affinity rules, and subgroups that share a domain of another topology, are placed together into one domain of
the label at a time, the largest first. Segments of another topology are left to CP-SAT.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import numpy as np

from phalanx.rules.primitives import Near, ValueDomain
from phalanx.solver.arrays import BoolArray, Counts, IntArray, NodeTable, Placement, assignments_of
from phalanx.solver.checker import violated_rules
from phalanx.solver.single.best_fit import fill
from phalanx.solver.single.greedy_subgroups import gathered_subgroups, search_subgroups
from phalanx.solver.single.scopes import Scope
from phalanx.solver.single.spread import SkewLimits

DOMAINS_TRIED_MAX: Final = 16
"""Domains of one level that are tried alone, tightest first. The first one that could hold all pods usually
does."""


def search(table: NodeTable, scope: Scope) -> Placement | None:
    """Return a placement in the scope with as many pods as fit; None when the minimums were not reached."""
    found = _search(table, scope)
    return with_affinity(table, scope, found) if table.rows.rules.compares_values else found


def _search(table: NodeTable, scope: Scope) -> Placement | None:
    if table.rows.rules.subgroup_constraints:
        return search_subgroups(table, scope)
    found = _fill_minimums_then_surplus(table, scope.nodes)
    if found is None:
        return None
    for level in range(scope.depth, table.rows.rules.preferred_depth):
        found = _in_fewer_domains(table, found, level)
    return gathered_subgroups(table, found) if table.rows.rules.subgroup_preferences else found


def _fill_minimums_then_surplus(table: NodeTable, nodes: IntArray) -> Placement | None:
    roles = table.rows.problem.roles
    minimums, maximums = [role.minimum for role in roles], [role.maximum for role in roles]
    counts = fill(table, nodes, minimums)
    if counts.sum(axis=0).tolist() != minimums:
        return None
    return Placement(nodes=nodes, counts=fill(table, nodes, maximums, start=counts))


def _in_fewer_domains(table: NodeTable, found: Placement, level: int) -> Placement:
    """Repack the same number of pods into fewer domains of this level, where that succeeds."""
    domain = table.rows.domain[level][table.row[found.nodes]]
    for chosen in _domain_selections(table, found, level, domain):
        counts = fill(table, found.nodes[chosen], found.placed)
        if counts.sum(axis=0).tolist() == found.placed:
            used = np.unique(domain[chosen][counts.any(axis=1)])
            kept = np.isin(domain[chosen], used) | table.rows.tree.open[level][domain[chosen]]
            return Placement(nodes=found.nodes[chosen][kept], counts=counts[kept])
    return found


def _domain_selections(
    table: NodeTable, found: Placement, level: int, domain: IntArray
) -> Iterator[BoolArray]:
    """Selections of nodes by domain, best first: open domains, plus one, plus ever more of the largest."""
    fits = _fits_per_domain(table, found, level, domain)
    size = fits @ np.array(table.rows.role_weights, dtype=np.int64)
    opened = table.rows.tree.open[level]
    inside = opened[domain]
    if inside.any():
        yield inside
    enough = (fits + fits[opened].sum(axis=0) >= found.placed).all(axis=1) & ~opened
    tightest = np.argsort(size, kind="stable")
    for domain_number in tightest[enough[tightest]][:DOMAINS_TRIED_MAX].tolist():
        yield inside | (domain == domain_number)
    largest = np.argsort(-size, kind="stable")
    yield from _growing(inside, domain, largest[~opened[largest]], fits, found.placed)


def _fits_per_domain(table: NodeTable, found: Placement, level: int, domain: IntArray) -> IntArray:
    """Pods that fit when the role has the nodes alone, at most those placed, by [domain, role]."""
    fits = np.zeros((len(table.rows.tree.open[level]), len(found.placed)), dtype=np.int64)
    np.add.at(fits, domain, table.rows.fits[table.row[found.nodes]])
    return np.minimum(fits, found.placed)


def _growing(
    inside: BoolArray, domain: IntArray, largest: IntArray, fits: IntArray, placed: Sequence[int]
) -> Iterator[BoolArray]:
    """The fewest largest domains that could hold all, then more of them in steps that double."""
    together = np.cumsum(fits[largest], axis=0)
    enough = np.flatnonzero((together >= placed).all(axis=1))
    count, step = int(enough[0]) + 1 if len(enough) else len(largest), 1
    while count < len(largest):
        yield inside | np.isin(domain, largest[:count])
        count, step = count + step, step * 2


_ChosenValues = Sequence[tuple[Near | ValueDomain, str]]
"""Constraints that gather pods, each with the value in which it is to hold."""


def with_affinity(table: NodeTable, scope: Scope, found: Placement | None) -> Placement | None:
    """Return the placement if it satisfies all affinity rules, else another one in the scope that does."""
    if found is not None and _keeps_rules(table, found):
        return found
    roles = table.rows.problem.roles
    minimums, maximums = [role.minimum for role in roles], [role.maximum for role in roles]
    for chosen in itertools.islice(_domain_choices(table, scope.nodes), DOMAINS_TRIED_MAX):
        masks = [_mask(table, scope.nodes, role, chosen) for role in range(len(roles))]
        counts = np.zeros((len(scope.nodes), len(roles)), dtype=np.int64)
        for want in (minimums, maximums):
            counts = _filled(table, scope.nodes, want, masks, counts)
        other = Placement(nodes=scope.nodes, counts=counts)
        enough = all(have >= least for have, least in zip(other.placed, minimums, strict=True))
        if enough and _keeps_rules(table, other):
            return other
    return None


def _keeps_rules(table: NodeTable, found: Placement) -> bool:
    return not violated_rules(table.rows.problem, assignments_of(table, found))


def _domain_choices(table: NodeTable, nodes: IntArray) -> Iterator[_ChosenValues]:
    whole = [constraint for constraint in table.rows.rules.value_domains if not constraint.size]
    gathering: list[Near | ValueDomain] = [*table.rows.rules.near, *whole]
    domains = [_largest_first(table, nodes, constraint) for constraint in gathering]
    for label_values in itertools.product(*domains):
        yield list(zip(gathering, label_values, strict=True))


def _largest_first(table: NodeTable, nodes: IntArray, affinity: Near | ValueDomain) -> list[str]:
    fits_there: dict[str, int] = {}
    for row in table.row[nodes].tolist():
        label_value = table.rows.label_values[row][affinity.key]
        fits = int(table.rows.fits[row, list(affinity.owners)].sum())
        if label_value and fits:
            fits_there[label_value] = fits_there.get(label_value, 0) + fits
    match affinity:
        case ValueDomain(existing=[_, *_]):
            return [value for value, _ in affinity.existing if value]
        case ValueDomain() | Near():
            return sorted(fits_there, key=lambda label_value: (-fits_there[label_value], label_value))
        case _:
            assert_never(affinity)


def _mask(table: NodeTable, nodes: IntArray, role: int, chosen: _ChosenValues) -> BoolArray:
    """The nodes on which the affinity rules of the role hold."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for affinity, label_value in chosen:
        match affinity:
            case Near():
                allowed = {label_value, *(affinity.existing if role in affinity.owners else ())}
                is_bound = role in (*affinity.owners, *affinity.others)
            case ValueDomain():
                allowed, is_bound = {label_value}, role in affinity.owners
            case _:
                assert_never(affinity)
        if is_bound:
            mask &= _has_label_value(table, nodes, affinity.key, allowed)
    return mask


def _has_label_value(table: NodeTable, nodes: IntArray, key: int, label_values: set[str]) -> BoolArray:
    per_row = np.array([row[key] in label_values for row in table.rows.label_values], dtype=np.bool_)
    selected: BoolArray = per_row[table.row[nodes]]
    return selected


def _filled(
    table: NodeTable, nodes: IntArray, want: Sequence[int], masks: Sequence[BoolArray], counts: Counts
) -> Counts:
    """Place the roles in turn on nodes that neither anti-affinity nor spread constraints forbid."""
    skews = SkewLimits(table, nodes)
    for role in table.rows.role_order:
        one_each = _goes_one_by_one(table, role)
        before = -1
        while before < int(counts[:, role].sum()) < want[role]:
            before = int(counts[:, role].sum())
            wanted = counts.sum(axis=0).tolist()
            wanted[role] = before + 1 if one_each else want[role]
            only = masks[role] & ~_forbidden(table, nodes, role, counts)
            only &= skews.allowed(role, counts)
            counts = fill(table, nodes, wanted, start=counts, only=only)
    return counts


def _goes_one_by_one(table: NodeTable, role: int) -> bool:
    """Whether pods of the role must be apart from each other, or are counted by a spread constraint."""
    rules = table.rows.rules
    is_apart = any(role in apart.owners and role in apart.others for apart in rules.apart)
    return is_apart or any(role in skew.others for skew in rules.skews)


def _forbidden(table: NodeTable, nodes: IntArray, role: int, counts: Counts) -> BoolArray:
    """The nodes that anti-affinity with placed pods forbids."""
    away = np.zeros(len(nodes), dtype=np.bool_)
    for affinity in table.rows.rules.apart:
        avoided = [
            *(affinity.others if role in affinity.owners else ()),
            *(affinity.owners if role in affinity.others else ()),
        ]
        lines = np.flatnonzero(counts[:, avoided].any(axis=1)).tolist()
        label_values = {table.rows.label_values[table.row[nodes[line]]][affinity.key] for line in lines} - {
            ""
        }
        if label_values:
            away |= _has_label_value(table, nodes, affinity.key, label_values)
    return away
