"""The domains inside one region, and the demand of shares on them.

Variables count the pods that each role set of a share demands of each inner domain. A constraint of the
component becomes a linear constraint on these counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from ortools.sat.python import cp_model

from phalanx.solver.arrays import IntArray
from phalanx.solver.cp_sat import CpModel
from phalanx.solver.joint.arrays import JointArrays, Region, Share, labelled
from phalanx.solver.joint.components import Component, ComponentConstraint


class InnerDomains:
    """The domains of a region by depth and number."""

    def __init__(self, region: Region) -> None:
        self.region = region

    def fits(self, depth: int, *, labels: int = 0) -> list[list[int]]:
        """Pods of each role that fit alone per domain of this depth, on nodes with so many labels."""
        per_row = np.where(labelled(self.region, labels)[:, None], self._fits, 0)
        rows = self.region.table.rows
        fits = np.zeros((len(rows.tree.open[depth - 1]), per_row.shape[1]), dtype=np.int64)
        np.add.at(fits, rows.domain[depth - 1], per_row)
        listed: list[list[int]] = fits.tolist()
        return listed

    def outer(self, domain: int, depth: int, outer: int) -> int:
        """The domain of depth `outer` that contains a domain of a deeper level."""
        for level in range(depth - 1, outer - 1, -1):
            domain = int(self.region.table.rows.tree.parent[level][domain])
        return domain

    @cached_property
    def _fits(self) -> IntArray:
        rows = self.region.table.rows
        most = [role.maximum for role in rows.problem.roles]
        return np.minimum(rows.fits, most) * rows.count[:, None]


DomainRole = tuple[int, int]
"""A domain and a role of the region's model."""

DomainDemands = Mapping[DomainRole, cp_model.LinearExprT]
"""Pods demanded per domain and role."""


class _RoleSetDemand(Struct, frozen=True):
    """The demand of one role set."""

    demand: dict[int, int]
    """Pods per role."""
    pods: dict[DomainRole, cp_model.IntVar]
    """Variables: pods per domain and role."""


class DomainDemandModel:
    """Adds the demands of shares to one CP-SAT model."""

    def __init__(
        self, cp: CpModel, arrays: JointArrays, inner_domains: InnerDomains, pod_classes: Sequence[int]
    ) -> None:
        self._cp, self._arrays, self._inner_domains, self._pod_classes = (
            cp,
            arrays,
            inner_domains,
            pod_classes,
        )
        self.opened: list[cp_model.IntVar] = []

    def of(self, share: Share) -> tuple[DomainDemands, ...]:
        """Return the demands on domains of the innermost depth, per role set of the component.

        Every pod is demanded once. Where the domains hold the demands, the component keeps its rules. Empty
        where no inner level matters.
        """
        component, depth = self._arrays.components[share.component], self._arrays.inner_depth(share.component)
        if depth == 0:
            return ({},) * len(component.role_sets)
        constraints = [
            constraint for constraint in component.constraints if constraint.depth > self._arrays.depth
        ]
        is_inner = component.required > self._arrays.depth
        chosen = self._chosen(component.required, self._demand(share.counts)) if is_inner else None
        if constraints or len(component.role_sets) > 1:
            return self._constrained(share, component, depth, constraints, chosen)
        demand = self._demand(share.counts)
        if chosen is None or depth > component.required:
            return (self._spread(depth, demand, (component.required, chosen)),)
        return (
            {
                (domain, role): count * here
                for domain, here in chosen.items()
                for role, count in demand.items()
            },
        )

    def _demand(self, counts: Sequence[int]) -> dict[int, int]:
        return {
            role: counts[pod_class] for role, pod_class in enumerate(self._pod_classes) if counts[pod_class]
        }

    def _chosen(self, depth: int, demand: Mapping[int, int]) -> dict[int, cp_model.IntVar]:
        """A boolean per domain of this depth that could hold everything; exactly one is true."""
        chosen = {
            domain: self._cp.new_bool_var("")
            for domain, here in enumerate(self._inner_domains.fits(depth, labels=depth))
            if all(here[role] >= count for role, count in demand.items())
        }
        self._cp.add_exactly_one(chosen.values())
        return chosen

    def _spread(
        self, depth: int, demand: Mapping[int, int], chosen: tuple[int, dict[int, cp_model.IntVar] | None]
    ) -> DomainDemands:
        """Pods per domain of this depth, inside the chosen domain if there is one."""
        pods = self._pods(depth, demand, chosen)
        for domain in dict.fromkeys(domain for domain, _ in pods):
            here = {role: variable for (other, role), variable in pods.items() if other == domain}
            is_open = self._cp.new_bool_var("")
            self.opened.append(is_open)
            if chosen[1] is not None:
                self._cp.add_implication(
                    is_open, chosen[1][self._inner_domains.outer(domain, depth, chosen[0])]
                )
            for role, variable in here.items():
                self._cp.add(variable <= demand[role] * is_open)
        return pods

    def _pods(
        self,
        depth: int,
        demand: Mapping[int, int],
        chosen: tuple[int, dict[int, cp_model.IntVar] | None],
        *,
        labels: int = 0,
    ) -> dict[DomainRole, cp_model.IntVar]:
        """Counts per domain and role that add up to the demand, on nodes with so many labels."""
        pods: dict[DomainRole, cp_model.IntVar] = {}
        for domain, fits in enumerate(self._inner_domains.fits(depth, labels=labels)):
            if chosen[1] is not None and self._inner_domains.outer(domain, depth, chosen[0]) not in chosen[1]:
                continue
            for role, count in demand.items():
                if fits[role]:
                    pods[domain, role] = self._cp.new_int_var(0, min(count, fits[role]), "")
        for role, count in demand.items():
            here = [variable for (_, other), variable in pods.items() if other == role]
            self._cp.add(cp_model.LinearExpr.sum(here) == count)
        return pods

    def _constrained(
        self,
        share: Share,
        component: Component,
        depth: int,
        constraints: Sequence[ComponentConstraint],
        chosen: dict[int, cp_model.IntVar] | None,
    ) -> tuple[DomainDemands, ...]:
        """Pods per role set, domain and role under all constraints inside the region."""
        role_sets = []
        for role_set in range(len(component.role_sets)):
            demand = self._demand(self._arrays.counts_in(share, role_set))
            labels = max(
                [constraint.depth for constraint in constraints if role_set in constraint.role_sets],
                default=0,
            )
            pods = self._pods(depth, demand, (component.required, chosen), labels=labels)
            role_sets.append(_RoleSetDemand(demand, pods))
        if chosen is not None:
            self._all_in_one(depth, component.required, role_sets, chosen)
        for constraint in constraints:
            members = [role_sets[role_set] for role_set in constraint.role_sets]
            if constraint.size:
                self._in_segments(depth, constraint, members)
            else:
                self._in_one(depth, constraint, members)
        if component.preferred > self._arrays.depth:
            self._in_few(depth, component.preferred, role_sets)
        return tuple(role_set.pods for role_set in role_sets)

    def _in_one(self, depth: int, constraint: ComponentConstraint, members: Sequence[_RoleSetDemand]) -> None:
        chosen = {
            domain: self._cp.new_bool_var("") for domain, _ in self._around(depth, constraint.depth, members)
        }
        self._cp.add_exactly_one(chosen.values())
        self._all_in_one(depth, constraint.depth, members, chosen)

    def _all_in_one(
        self, depth: int, outer: int, members: Sequence[_RoleSetDemand], chosen: Mapping[int, cp_model.IntVar]
    ) -> None:
        """Demand nothing outside of the chosen domain."""
        for member in members:
            inside: dict[DomainRole, list[cp_model.IntVar]] = {}
            for (domain, role), variable in member.pods.items():
                inside.setdefault((self._inner_domains.outer(domain, depth, outer), role), []).append(
                    variable
                )
            for (domain, role), pods in inside.items():
                self._cp.add(cp_model.LinearExpr.sum(pods) <= member.demand[role] * chosen[domain])

    def _in_segments(
        self, depth: int, constraint: ComponentConstraint, members: Sequence[_RoleSetDemand]
    ) -> None:
        for _, pods in self._around(depth, constraint.depth, members):
            number = self._cp.new_int_var(0, _count(members) // constraint.size, "")
            self._cp.add(cp_model.LinearExpr.sum(pods) == constraint.size * number)

    def _in_few(self, depth: int, outer: int, members: Sequence[_RoleSetDemand]) -> None:
        for _, pods in self._around(depth, outer, members):
            is_open = self._cp.new_bool_var("")
            self.opened.append(is_open)
            self._cp.add(cp_model.LinearExpr.sum(pods) <= _count(members) * is_open)

    def _around(
        self, depth: int, outer: int, members: Iterable[_RoleSetDemand]
    ) -> Iterable[tuple[int, list[cp_model.IntVar]]]:
        """Each domain of an outer depth with the variables inside it."""
        found: dict[int, list[cp_model.IntVar]] = {}
        for member in members:
            for (domain, _), variable in member.pods.items():
                found.setdefault(self._inner_domains.outer(domain, depth, outer), []).append(variable)
        return found.items()


def _count(members: Iterable[_RoleSetDemand]) -> int:
    return sum(count for member in members for count in member.demand.values())
