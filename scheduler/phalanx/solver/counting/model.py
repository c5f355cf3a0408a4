"""The counting model: how many pods of each role go to each group of nodes, as variables of CP-SAT."""

from collections.abc import Iterable, Sequence

import numpy as np
from ortools.sat.python import cp_model

from phalanx.limits import MODEL_SUM_MAX
from phalanx.solver.anchors import inhabited
from phalanx.solver.arrays import TooLarge
from phalanx.solver.counting.node_groups import Group
from phalanx.solver.cp_sat import CpModel
from phalanx.solver.nodetable import NodeTable


class CountingModel:
    """Variables: `pods[role, group]`; `used[group, pattern]`: nodes with a pattern; `opened[level][domain]`.

    Only groups with more than one pattern have `used`; only closed domains of preferred levels are opened.
    `gathered` are the wishes of subgroups, each with what it opens, `[level][domain]` too.
    """

    def __init__(self, table: NodeTable, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.rows = table.rows
        self.problem = table.rows.problem
        self.cp = CpModel()
        self._most: dict[int, int] = {}
        self.pods = {
            (role, index): self._count(min(demand.maximum, group.room[role] * len(group.nodes)))
            for index, group in enumerate(groups)
            for role, demand in enumerate(self.problem.roles)
            if group.room[role] > 0
        }
        self.used = {
            (index, pattern): self._count(len(group.nodes))
            for index, group in enumerate(groups)
            if len(group.patterns) > 1
            for pattern in range(len(group.patterns))
        }
        self.opened = {
            level: self._openable(level, np.flatnonzero(table.rows.tree.open[level]).tolist())
            for level in self.levels
        }
        self.gathered = [
            (one, {lvl: self._openable(lvl, inhabited(table.rows, one, lvl)) for lvl in range(one.depth)})
            for one in table.rows.book.gatherings
        ]

    @property
    def levels(self) -> range:
        """The preferred levels below the required one: those whose domains this model opens."""
        return range(self.rows.book.required_depth, self.rows.book.preferred_depth)

    def pods_of(self, role: int, groups: Iterable[int]) -> list[cp_model.IntVar]:
        """The counts of a role on those of the groups that can hold it."""
        return [self.pods[role, index] for index in groups if (role, index) in self.pods]

    def total(
        self, variables: Sequence[cp_model.IntVar], factors: Sequence[int] | None = None
    ) -> cp_model.LinearExpr:
        """The (weighted) sum of variables, once it is proven that it stays exact; TooLarge otherwise."""
        weights = factors if factors is not None else [1] * len(variables)
        reach = sum(abs(weight) * self.most([one]) for one, weight in zip(variables, weights, strict=True))
        if reach > MODEL_SUM_MAX:
            raise TooLarge
        return cp_model.LinearExpr.weighted_sum(variables, weights)

    def most(self, variables: Sequence[cp_model.IntVar]) -> int:
        """The largest sum that the variables' own bounds allow."""
        return sum(self._most[one.index] for one in variables)

    def _count(self, most: int) -> cp_model.IntVar:
        variable = self.cp.new_int_var(0, most, "")
        self._most[variable.index] = most
        return variable

    def _openable(self, level: int, there: Sequence[int]) -> dict[int, cp_model.IntVar]:
        """A variable for each domain of the level but those where members run."""
        known = frozenset(there)
        domains = dict.fromkeys(group.domains[level] for group in self.groups)
        return {domain: self._count(1) for domain in domains if domain not in known}
