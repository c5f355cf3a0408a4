"""Variables, objective terms, hints and solutions of the counting model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from ortools.sat.python import cp_model

from phalanx.rules.primitives import FewValues
from phalanx.solver.arrays import (
    Counts,
    NodeTable,
    Placement,
    TooLarge,
    anchored_numbers,
    subgroup_capacities,
)
from phalanx.solver.counting.node_groups import NodeGroup, Pattern, split
from phalanx.solver.counting.traffic import TrafficTerms
from phalanx.solver.cp_sat import CpModel
from phalanx.solver.domains import anchored_domains
from phalanx.solver.limits import MODEL_SUM_MAX
from phalanx.solver.objective import (
    COST,
    DOMAINS,
    NODE_TRAFFIC,
    SUBGROUP_DOMAINS,
    SUBGROUP_TIGHTNESS,
    TIGHTNESS,
    TRAFFIC,
    UNPLACED,
    term_keys,
)

OBJECTIVE_COEFFICIENT_MAX: Final = 1 << 40
"""Largest coefficient in a model. Sums of 2^20 of them stay below the limit of the solver, 2^62."""


class CountingModel:
    """Variables: `pods[role, group]`, `used[group, pattern]`, `opened[level][domain]`.

    Only groups with more than one pattern have `used`. Only domains of preferred levels without running
    members are opened. `opened_by_subgroup` pairs each subgroup preference with the domains it opens;
    `opened_tightly` pairs each subgroup that prefers tight domains with those it opens.
    `opened_elsewhere` pairs each preference of a subgroup for domains of another topology with those it
    opens, per level. `traffic` builds the terms of traffic, `pairs` those of preferences between
    pods.
    """

    def __init__(self, table: NodeTable, groups: Sequence[NodeGroup]) -> None:
        self.groups = groups
        self.rows = table.rows
        self.problem = table.rows.problem
        self.cp = CpModel()
        self._most: dict[int, int] = {}
        matrix = table.rows.rules.traffic
        self.traffic = TrafficTerms(self, matrix) if matrix is not None else None
        self.pairs = [
            (pairs, TrafficTerms(self, pairs.matrix, exactly=table.rows.rules.counts_nodes))
            for pairs in table.rows.rules.pairs
        ]
        self.pods = {
            (role, index): self.count(min(demand.maximum, group.fits[role] * len(group.nodes)))
            for index, group in enumerate(groups)
            for role, demand in enumerate(self.problem.roles)
            if group.fits[role] > 0
        }
        self.used = {
            (index, pattern): self.count(len(group.nodes))
            for index, group in enumerate(groups)
            if len(group.patterns) > 1
            for pattern in range(len(group.patterns))
        }
        self.opened = {
            level: self._openable(level, np.flatnonzero(table.rows.tree.open[level]).tolist())
            for level in self.levels
        }
        self.opened_by_subgroup = [
            (
                preference,
                {
                    lvl: self._openable(lvl, anchored_numbers(table.rows, preference, lvl))
                    for lvl in range(preference.depth)
                },
            )
            for preference in table.rows.rules.subgroup_preferences
        ]
        self.opened_tightly = [
            (each, {each.level: self._openable(each.level, anchored_numbers(table.rows, each, each.level))})
            for each in table.rows.rules.subgroup_tightness
        ]
        self.opened_elsewhere = [
            (preference, [self._openable_values(preference, level) for level in range(len(preference.keys))])
            for preference in table.rows.rules.few_values
        ]

    @property
    def levels(self) -> range:
        """The preferred levels below the required one."""
        return range(self.rows.rules.required_depth, self.rows.rules.preferred_depth)

    @property
    def opened_by_roles(self) -> list[tuple[tuple[int, ...], dict[int, dict[int, cp_model.IntVar]]]]:
        """What subgroups open, few domains or tight ones, with the roles in the subgroup."""
        few = [(each.roles, opened) for each, opened in self.opened_by_subgroup]
        return [*few, *((each.roles, opened) for each, opened in self.opened_tightly)]

    def pods_of(self, role: int, groups: Iterable[int]) -> list[cp_model.IntVar]:
        """The counts of a role on those of the groups that can hold it."""
        return [self.pods[role, index] for index in groups if (role, index) in self.pods]

    def total(
        self, variables: Sequence[cp_model.IntVar], factors: Sequence[int] | None = None
    ) -> cp_model.LinearExpr:
        """Return the weighted sum of variables. Raises TooLarge unless it provably stays exact."""
        weights = factors if factors is not None else [1] * len(variables)
        reach = sum(
            abs(weight) * self.most([variable]) for variable, weight in zip(variables, weights, strict=True)
        )
        if reach > MODEL_SUM_MAX:
            raise TooLarge
        return cp_model.LinearExpr.weighted_sum(variables, weights)

    def most(self, variables: Sequence[cp_model.IntVar]) -> int:
        """The largest sum that the variables' own bounds allow."""
        return sum(self._most[variable.index] for variable in variables)

    def count(self, most: int) -> cp_model.IntVar:
        """A new variable from 0 to `most`."""
        variable = self.cp.new_int_var(0, most, "")
        self._most[variable.index] = most
        return variable

    def _openable(self, level: int, there: Sequence[int]) -> dict[int, cp_model.IntVar]:
        """A boolean for each domain of the level but the anchored ones."""
        known = frozenset(there)
        domains = dict.fromkeys(group.domains[level] for group in self.groups)
        return {domain: self.count(1) for domain in domains if domain not in known}

    def _openable_values(self, preference: FewValues, level: int) -> dict[str, cp_model.IntVar]:
        """A boolean for each domain of a level of another topology but the open ones."""
        values = dict.fromkeys(group.label_values[preference.keys[level]] for group in self.groups)
        return {value: self.count(1) for value in values if value not in preference.open[level]}


def objective_term(model: CountingModel, name: str) -> cp_model.LinearExpr:
    """Return the term of this name. Raises TooLarge when a cost is too large for the model."""
    if name == UNPLACED:
        return sum(role.maximum for role in model.problem.roles) - model.total(list(model.pods.values()))
    if name == COST:
        return _cost(model)
    if model.traffic is not None and name == NODE_TRAFFIC:
        return model.traffic.between_nodes()
    if model.traffic is not None and name.startswith(TRAFFIC):
        return model.traffic.between_domains(model.problem.levels.index(name.removeprefix(TRAFFIC)))
    if name.startswith(TIGHTNESS):
        return _tightness(model)
    if name.startswith(SUBGROUP_TIGHTNESS):
        return _tightness_of_subgroups(
            model, model.problem.levels.index(name.removeprefix(SUBGROUP_TIGHTNESS))
        )
    elsewhere = term_keys(model.rows.rules)
    if name in elsewhere:
        return _domains_elsewhere(model, elsewhere[name])
    if name.startswith(SUBGROUP_DOMAINS):
        return _subgroup_domains(model, model.problem.levels.index(name.removeprefix(SUBGROUP_DOMAINS)))
    return _domains(model, model.problem.levels.index(name.removeprefix(DOMAINS)))


def _cost(model: CountingModel) -> cp_model.LinearExpr:
    costs = [model.groups[index].cost[role] for role, index in model.pods]
    if any(abs(cost) > OBJECTIVE_COEFFICIENT_MAX for cost in costs):
        raise TooLarge
    of_pairs = sum([pairs.most - terms.near(pairs.key) for pairs, terms in model.pairs])
    return model.total(list(model.pods.values()), costs) + of_pairs


def _domains(model: CountingModel, level: int) -> cp_model.LinearExpr:
    """Domains spanned: anchored ones, opened ones, and the one of a required level."""
    anchored = len(anchored_domains(model.problem.anchors, level))
    if level in model.opened:
        return anchored + model.total(list(model.opened[level].values()))
    return model.cp.new_constant(anchored or 1) + 0


def _subgroup_domains(model: CountingModel, level: int) -> cp_model.LinearExpr:
    """Domains spanned by the subgroups with a preference, added up."""
    deep = [(preference, opened[level]) for preference, opened in model.opened_by_subgroup if level in opened]
    variables = [variable for _, opened in deep for variable in opened.values()]
    anchored = sum(len(anchored_domains(preference.anchors, level)) for preference, _ in deep)
    return anchored + model.total(variables)


def _domains_elsewhere(model: CountingModel, key: int) -> cp_model.LinearExpr:
    """Domains of a level of another topology that subgroups with a preference span, added up."""
    variables: list[cp_model.IntVar] = []
    anchored = 0
    for preference, opened in model.opened_elsewhere:
        if key in preference.keys:
            level = preference.keys.index(key)
            variables += opened[level].values()
            anchored += len(preference.anchored[level])
    return anchored + model.total(variables)


def _tightness(model: CountingModel) -> cp_model.LinearExpr:
    """Capacity of the domains opened on the deepest level; a required one is that of the scope."""
    capacity = model.rows.domain_capacity
    if capacity is None:
        raise AssertionError("tightness is a term only if nodes have capacity")
    level = model.rows.rules.gang_depth - 1
    if level in model.opened:
        opened = model.opened[level]
        return model.total(list(opened.values()), capacity[list(opened)].tolist())
    used = {group.domains[level] for group in model.groups}
    closed = [int(capacity[domain]) for domain in used if not model.rows.tree.open[level][domain]]
    return model.cp.new_constant(sum(closed)) + 0


def _tightness_of_subgroups(model: CountingModel, level: int) -> cp_model.LinearExpr:
    """Capacity of the domains that subgroups open on the deepest level they ask for, added up."""
    capacity = subgroup_capacities(model.rows, level)
    there = [opened[level] for _, opened in model.opened_tightly if level in opened]
    domains = [domain for opened in there for domain in opened]
    return model.total([each for opened in there for each in opened.values()], capacity[domains].tolist())


def hint(model: CountingModel, found: Placement) -> None:
    """Hint the value of every variable in this placement; earlier hints are dropped."""
    lines = {node: line for line, node in enumerate(found.nodes.tolist())}
    model.cp.clear_hints()  # type: ignore[no-untyped-call]
    used_domains: set[tuple[int, int, int]] = set()
    everyone = tuple(range(len(model.problem.roles)))
    opened_by_roles = [
        (everyone, model.opened),
        *model.opened_by_roles,
    ]
    placed: dict[tuple[int, int], int] = {}
    for index, group in enumerate(model.groups):
        here = found.counts[[lines[node] for node in group.nodes if node in lines]]
        for role, count in enumerate(here.sum(axis=0).tolist()):
            if (role, index) in model.pods:
                placed[role, index] = count
                model.cp.add_hint(model.pods[role, index], count)
        if len(group.patterns) > 1:
            times = _patterns_used(group, here, exactly=model.rows.rules.counts_nodes)
            for pattern, count in enumerate(times):
                model.cp.add_hint(model.used[index, pattern], count)
        for number, (roles, per_level) in enumerate(opened_by_roles):
            if here[:, list(roles)].any():
                used_domains.update((number, level, group.domains[level]) for level in per_level)
    _hint_elsewhere(model, placed)
    for number, (_, per_level) in enumerate(opened_by_roles):
        for level, opened in per_level.items():
            for domain, variable in opened.items():
                model.cp.add_hint(variable, (number, level, domain) in used_domains)
    for terms in (*([model.traffic] if model.traffic else []), *(terms for _, terms in model.pairs)):
        terms.hint(placed)


def _hint_elsewhere(model: CountingModel, placed: Mapping[tuple[int, int], int]) -> None:
    """Hint whether each openable domain of another topology holds placed pods of its subgroup."""
    for preference, opened in model.opened_elsewhere:
        groups = [group for (role, group), count in placed.items() if count and role in preference.roles]
        for key, variables in zip(preference.keys, opened, strict=True):
            used = {model.groups[group].label_values[key] for group in groups}
            for value, variable in variables.items():
                model.cp.add_hint(variable, value in used)


def solution(model: CountingModel, solver: cp_model.CpSolver) -> Placement:
    """Read the solver's placement."""
    groups = range(len(model.groups))
    roles = range(len(model.problem.roles))
    pods = [
        [solver.value(model.pods[role, index]) if (role, index) in model.pods else 0 for role in roles]
        for index in groups
    ]
    used = [
        [
            solver.value(model.used[index, pattern])
            for pattern in range(len(model.groups[index].patterns))
            if (index, pattern) in model.used
        ]
        for index in groups
    ]
    return split(model.groups, pods, used)


def _patterns_used(group: NodeGroup, here: Counts, *, exactly: bool) -> list[int]:
    """Per pattern, the nodes that use it when each takes the first that holds, or is, its pods."""
    times = [0] * len(group.patterns)
    for counts in here[here.any(axis=1)].tolist():
        if exactly:
            times[group.patterns.index(tuple(counts))] += 1
            continue
        times[next(index for index, pattern in enumerate(group.patterns) if _within(counts, pattern))] += 1
    return times


def _within(counts: list[int], pattern: Pattern) -> bool:
    return all(count <= most for count, most in zip(counts, pattern, strict=True))
