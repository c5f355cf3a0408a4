"""Greedy search under subgroup rules: one rule after the other, the widest subgroup first.

A subgroup that must share a domain tries domains, tightest first, and everything inside it is placed before
the rest. A subgroup that prefers few domains tries single domains of the deepest level, then of wider ones,
then takes the largest. Backtracking is limited to SUBGROUP_TRIES_MAX domains; what is not found is left to
CP-SAT.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from phalanx.rules.primitives import SubgroupConstraint, SubgroupPreference
from phalanx.solver.arrays import (
    BoolArray,
    Counts,
    IntArray,
    NodeTable,
    Placement,
    allowed_domains,
    anchored_counts,
    anchored_numbers,
    subgroup_capacities,
)
from phalanx.solver.domains import is_domain
from phalanx.solver.single.best_fit import fill, fits_beside
from phalanx.solver.single.scopes import Scope

SUBGROUP_TRIES_MAX: Final = 256
"""Domains that the greedy search tries for all subgroups of one gang. Beyond it CP-SAT takes over."""

Rule = SubgroupConstraint | SubgroupPreference


def search_subgroups(table: NodeTable, scope: Scope) -> Placement | None:
    """Return a placement of all maximums, else of all minimums, under the subgroup rules."""
    roles, preferences = table.rows.problem.roles, table.rows.rules.subgroup_preferences
    for want in ([role.maximum for role in roles], [role.minimum for role in roles]):
        for subgroup_preferences in dict.fromkeys((preferences, ())):
            counts = _Search(table, scope.nodes, want).run(
                (*table.rows.rules.subgroup_constraints, *subgroup_preferences)
            )
            if counts is not None:
                return Placement(nodes=scope.nodes, counts=counts)
    return None


def gathered_subgroups(table: NodeTable, found: Placement) -> Placement:
    """Place as many pods on the same nodes with fewer domains per subgroup, where that succeeds."""
    counts = _Search(table, found.nodes, found.placed).run(table.rows.rules.subgroup_preferences)
    if counts is None:
        return found
    return min(
        found, Placement(nodes=found.nodes, counts=counts), key=lambda number: _domains_opened(table, number)
    )


def _domains_opened(table: NodeTable, found: Placement) -> list[int]:
    """Domains per level that subgroups with a preference open, added up."""
    rows = table.rows
    opened_per_level = [0] * rows.rules.subgroup_preferred_depth
    for preference in rows.rules.subgroup_preferences:
        used = table.row[found.nodes[found.counts[:, list(preference.roles)].any(axis=1)]]
        for level in range(preference.depth):
            opened = np.setdiff1d(rows.domain[level][used], anchored_numbers(rows, preference, level))
            opened_per_level[level] += len(opened)
    return opened_per_level


def _place_in_order(rule: Rule) -> tuple[int, int, int, int]:
    """Sort key: the widest first; of equal ones preferences, then shared domains, then segments."""
    if isinstance(rule, SubgroupPreference):
        return (-len(rule.roles), 0, rule.depth, 0)
    return (-len(rule.roles), 2 if rule.size else 1, rule.level, rule.size)


class _Search:
    """One attempt to place so many pods per role on the selected nodes."""

    def __init__(self, table: NodeTable, nodes: IntArray, want: Sequence[int]) -> None:
        self._table = table
        self._nodes = nodes
        self._row = table.row[nodes]
        self._want = list(want)
        self._tries = 0
        self._preferences: list[SubgroupPreference] = []
        self._known_pod_capacities: dict[int, IntArray] = {}

    def run(self, rules: Sequence[Rule]) -> Counts | None:
        """Return the pods by [node, role], or None."""
        nothing = np.zeros((len(self._nodes), len(self._want)), dtype=np.int64)
        everywhere = np.ones(len(self._nodes), dtype=np.bool_)
        ordered = sorted(rules, key=_place_in_order)
        self._preferences = [rule for rule in ordered if isinstance(rule, SubgroupPreference)]
        return self._place(nothing, frozenset(range(len(self._want))), ordered, everywhere)

    def _place(
        self, counts: Counts, roles: frozenset[int], rules: Sequence[Rule], where: BoolArray
    ) -> Counts | None:
        """Place all pods of these roles on top of the counts, on nodes of `where`."""
        if not rules:
            around = [number for number in self._preferences if roles and roles <= frozenset(number.roles)]
            preference = min(around, key=lambda number: len(number.roles), default=None)
            return (
                self._in_few(counts, roles, preference, where)
                if preference
                else self._all_of(counts, roles, where)
            )
        rule, rest = rules[0], rules[1:]
        inner = [other for other in rest if frozenset(other.roles) <= frozenset(rule.roles)]
        others = [other for other in rest if other not in inner]
        for placed in self._ways(counts, rule, inner, where):
            complete = self._place(placed, roles - frozenset(rule.roles), others, where)
            if complete is not None:
                return complete
        return None

    def _ways(self, counts: Counts, rule: Rule, inner: Sequence[Rule], where: BoolArray) -> Iterator[Counts]:
        """Yield ways to place the pods of the rule's roles, best first."""
        if isinstance(rule, SubgroupPreference):
            domains = self._preferred_domains(counts, rule, where)
        elif not rule.size:
            domains = self._allowed_nodes(counts, rule, where)
        elif not any(isinstance(number, SubgroupConstraint) for number in inner):
            domains = iter([where])
        else:
            return
        for within in domains:
            if self._tries >= SUBGROUP_TRIES_MAX:
                return
            self._tries += 1
            if isinstance(rule, SubgroupConstraint) and rule.size:
                placed = self._in_segments(counts, rule, within)
            else:
                placed = self._place(counts, frozenset(rule.roles), inner, within)
            if placed is not None:
                yield placed

    def _allowed_nodes(
        self, counts: Counts, constraint: SubgroupConstraint, where: BoolArray
    ) -> Iterator[BoolArray]:
        """The nodes of each allowed domain that could hold the pods, tightest first."""
        rows = self._table.rows
        domain, allowed = rows.domain[constraint.level][self._row], allowed_domains(rows, constraint)
        for number in self._domains_that_fit(
            counts, constraint.roles, constraint.level, where & self._in_some_domain(constraint)
        ):
            if allowed is None or number in allowed:
                yield where & (domain == number)

    def _preferred_domains(
        self, counts: Counts, preference: SubgroupPreference, where: BoolArray
    ) -> Iterator[BoolArray]:
        """The nodes of each domain that fits the subgroup, deepest level first, at last all nodes."""
        rows = self._table.rows
        for level in reversed(range(preference.depth)):
            domain, anchored = rows.domain[level][self._row], anchored_numbers(rows, preference, level)
            fitting = self._domains_that_fit(counts, preference.roles, level, where)
            for number in (
                *(number for number in fitting if number in anchored),
                *(number for number in fitting if number not in anchored),
            ):
                yield where & (domain == number)
        yield where

    def _domains_that_fit(
        self, counts: Counts, roles: Sequence[int], level: int, where: BoolArray
    ) -> list[int]:
        """The domains that could hold each of the roles alone beside the counts, tightest first."""
        fits = self._fits_per_domain(counts, roles, level, where)
        enough = np.flatnonzero((fits >= [self._want[role] for role in roles]).all(axis=1))
        capacity = self._pod_capacities(level)
        return sorted(
            enough.tolist(), key=lambda number: (int(capacity[number]), int(fits[number].sum()), number)
        )

    def _pod_capacities(self, level: int) -> IntArray:
        if level not in self._known_pod_capacities:
            self._known_pod_capacities[level] = subgroup_capacities(self._table.rows, level)
        return self._known_pod_capacities[level]

    def _fits_per_domain(
        self, counts: Counts, roles: Sequence[int], level: int, where: BoolArray
    ) -> IntArray:
        """Pods that fit beside the counts when the role is alone, by [domain, role]."""
        rows = self._table.rows
        fits = np.zeros((len(rows.tree.open[level]), len(roles)), dtype=np.int64)
        per_node = fits_beside(self._table, self._nodes[where], counts[where], roles)
        np.add.at(fits, rows.domain[level][self._row[where]], per_node)
        return fits

    def _in_few(
        self, counts: Counts, roles: frozenset[int], preference: SubgroupPreference, where: BoolArray
    ) -> Counts | None:
        """Place all pods of the roles where the subgroup already is, and in the fewest largest domains."""
        level, ordered = preference.depth - 1, sorted(roles)
        domain = self._table.rows.domain[level][self._row]
        used = domain[counts[:, list(preference.roles)].any(axis=1)]
        anchored = np.union1d(used, anchored_numbers(self._table.rows, preference, level)).astype(np.int64)
        want = [self._want[role] for role in ordered]
        fits = np.minimum(self._fits_per_domain(counts, ordered, level, where), want)
        others = np.setdiff1d(np.flatnonzero(fits.any(axis=1)), anchored)
        largest = others[np.argsort(-fits[others].sum(axis=1), kind="stable")]
        together = np.cumsum(np.vstack([fits[anchored].sum(axis=0), fits[largest]]), axis=0)
        count, step = int((together < want).any(axis=1).sum()), 1
        while True:
            chosen = np.isin(domain, np.concatenate([anchored, largest[:count]]))
            placed = self._all_of(counts, roles, where & chosen)
            if placed is not None or count >= len(largest):
                return placed
            count, step = count + step, step * 2

    def _in_some_domain(self, constraint: SubgroupConstraint) -> BoolArray:
        """Which nodes are in a domain of the constraint's level."""
        rows = self._table.rows
        known = np.array([is_domain(key) for key in rows.tree.keys[constraint.level]], dtype=np.bool_)
        in_domain: BoolArray = known[rows.domain[constraint.level][self._row]]
        return in_domain

    def _in_segments(self, counts: Counts, constraint: SubgroupConstraint, where: BoolArray) -> Counts | None:
        """First complete the segments of anchored domains, then fill other domains with the rest."""
        rows = self._table.rows
        domain = rows.domain[constraint.level][self._row]
        in_domain = where & self._in_some_domain(constraint)
        for number, count in anchored_counts(rows, constraint).items():
            complete = self._place_amount(
                counts, constraint, in_domain & (domain == number), -count % constraint.size
            )
            counts = counts if complete is None else complete
        more: Counts | None = counts
        while more is not None and (missing := self._missing(more, constraint)) > 0:
            more = self._fill_one_more_domain(more, constraint, domain, in_domain, missing)
        return more

    def _missing(self, counts: Counts, constraint: SubgroupConstraint) -> int:
        return sum(self._want[role] - int(counts[:, role].sum()) for role in constraint.roles)

    def _fill_one_more_domain(
        self,
        counts: Counts,
        constraint: SubgroupConstraint,
        domain: IntArray,
        in_domain: BoolArray,
        missing: int,
    ) -> Counts | None:
        """Whole segments in one more domain: the tightest that takes the rest, else the largest."""
        options = []
        for number, capacity in self._capacities(counts, constraint, domain, in_domain, missing):
            if capacity >= constraint.size:
                options.append(
                    (min(capacity // constraint.size * constraint.size, missing), capacity, number)
                )
        for most, _, number in sorted(options, key=lambda number: (-number[0], number[1], number[2])):
            for amount in range(most // constraint.size * constraint.size, 0, -constraint.size):
                more = self._place_amount(counts, constraint, in_domain & (domain == number), amount)
                if more is not None:
                    return more
        return None

    def _capacities(
        self,
        counts: Counts,
        constraint: SubgroupConstraint,
        domain: IntArray,
        in_domain: BoolArray,
        missing: int,
    ) -> Iterator[tuple[int, int]]:
        """How many of the missing pods of the constraint's roles each domain takes."""
        numbers = np.unique(domain[in_domain]).tolist()
        if len(constraint.roles) == 1 and not self._table.rows.rules.budgets:
            # What fits alone is all there is to know, for all domains at once.
            fits = self._fits_per_domain(counts, constraint.roles, constraint.level, in_domain)[:, 0]
            yield from ((number, min(int(fits[number]), missing)) for number in numbers)
            return
        for number in numbers:
            here = in_domain & (domain == number)
            filled = fill(self._table, self._nodes, self._wanted(constraint), start=counts, only=here)
            yield number, int((filled - counts).sum())

    def _place_amount(
        self, counts: Counts, constraint: SubgroupConstraint, where: BoolArray, amount: int
    ) -> Counts | None:
        """Place so many pods of the constraint's roles, in their order, on these nodes."""
        want = counts.sum(axis=0).tolist()
        for role in constraint.roles:
            more = min(amount, self._want[role] - want[role])
            want[role] += more
            amount -= more
        filled = fill(self._table, self._nodes, want, start=counts, only=where)
        return filled if not amount and filled.sum(axis=0).tolist() == want else None

    def _wanted(self, constraint: SubgroupConstraint) -> list[int]:
        return [want if role in constraint.roles else 0 for role, want in enumerate(self._want)]

    def _all_of(self, counts: Counts, roles: frozenset[int], where: BoolArray) -> Counts | None:
        here = counts.sum(axis=0).tolist()
        want = [self._want[role] if role in roles else count for role, count in enumerate(here)]
        filled = fill(self._table, self._nodes, want, start=counts, only=where)
        return filled if filled.sum(axis=0).tolist() == want else None
