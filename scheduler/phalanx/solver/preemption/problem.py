"""The choice of victims as data, and the independent check of a choice.

Actions decide who may be evicted and what that costs. All vectors are amounts of the same resources.
"""

from collections.abc import Collection, Iterator

from msgspec import Struct

Vector = tuple[int, ...]


class PodDemand(Struct, frozen=True):
    """`count` interchangeable pods that must all be placed."""

    request: Vector
    count: int


class TargetNode(Struct, frozen=True):
    """A node on which pods may be placed."""

    free: Vector
    """Negative where the node is over-committed."""
    max_pods: Vector
    """At most so many pods per demand."""
    domain: int = 0
    """One domain must hold all pods; 0 for all nodes where there is no such rule."""


class EvictionUnit(Struct, frozen=True):
    """Pods that are evicted together or not at all."""

    cost: int
    frees: tuple[tuple[int, Vector], ...]
    """Freed amounts by node index."""
    requires: tuple[int, ...] = ()
    """Indices of units that must be evicted with this one."""


class QuotaLimit(Struct, frozen=True):
    """What the demands may use together of some resources."""

    resources: tuple[int, ...]
    """Indices into the vectors; other resources are not limited."""
    limit: Vector
    """Available now."""
    frees: tuple[tuple[int, Vector], ...]
    """What units release, by unit index."""


class EvictionLimit(Struct, frozen=True):
    """The most that may be evicted of some units together."""

    limit: Vector
    """A vector of its own resources."""
    amounts: tuple[tuple[int, Vector], ...]
    """What each unit counts, by unit index."""
    groups: tuple[int, ...] = ()
    """Group of each entry of `amounts`; the group that loses most of a resource does not count."""

    def holds(self, chosen: Collection[int]) -> bool:
        """Whether these evictions stay within the limit."""
        return all(
            self._counted(chosen, position) <= max(0, limit) for position, limit in enumerate(self.limit)
        )

    def _counted(self, chosen: Collection[int], position: int) -> int:
        lost: dict[int, int] = {}
        for index, (unit, vector) in enumerate(self.amounts):
            if unit in chosen:
                group = self.groups[index] if self.groups else 0
                lost[group] = lost.get(group, 0) + vector[position]
        return sum(lost.values()) - (max(lost.values(), default=0) if self.groups else 0)


class SoftEvictionLimit(Struct, frozen=True):
    """At most `most` pods of these units should be evicted."""

    most: int
    pods: tuple[tuple[int, int], ...]
    """Pods of each unit, by unit index."""

    def violations(self, chosen: Collection[int]) -> int:
        """Count the evicted pods beyond the limit."""
        return max(0, sum(count for unit, count in self.pods if unit in chosen) - self.most)


class PreemptionProblem(Struct, frozen=True):
    """Choose units so that all demands fit, at the least cost.

    The problem may omit rules of the placement: a choice may then turn out too small, but the bound on its
    cost holds.
    """

    demands: tuple[PodDemand, ...]
    nodes: tuple[TargetNode, ...]
    units: tuple[EvictionUnit, ...]
    quota_limits: tuple[QuotaLimit, ...] = ()
    eviction_limits: tuple[EvictionLimit, ...] = ()
    soft_limits: tuple[SoftEvictionLimit, ...] = ()
    violation_cost: int = 0
    """Added for each pod beyond a soft limit."""
    scales: tuple[int, ...] = (1,)
    """Ascending, from 1: costs are numbers with these values of their digits, each digit an objective of its
    own that no sum exceeds. Objectives of higher digits come first."""
    seed: int = 0

    def cost_of(self, units: Collection[int]) -> int:
        """Return the total cost of these evictions."""
        chosen = frozenset(units)
        violations = sum(soft_limit.violations(chosen) for soft_limit in self.soft_limits)
        return sum(self.units[unit].cost for unit in units) + self.violation_cost * violations


class VictimSet(Struct, frozen=True):
    """A choice of units."""

    units: tuple[int, ...]
    """Indices, ascending."""
    cost: int
    bound: int
    """No choice costs less."""

    @property
    def proven(self) -> bool:
        """Whether no choice is cheaper."""
        return self.cost == self.bound


class VictimResult(Struct, frozen=True):
    """The outcome of a search."""

    choice: VictimSet | None
    """The cheapest choice found; None where evicting all would not suffice, or none was found."""
    spent: float
    """Deterministic time units."""
    errors: tuple[str, ...] = ()
    """Solver errors: choices that failed their check and were dropped."""


def check(problem: PreemptionProblem, choice: VictimSet) -> Iterator[str]:
    """Yield the errors of a choice: missing required units, exceeded limits, a wrong cost."""
    chosen = frozenset(choice.units)
    for unit in choice.units:
        if not chosen.issuperset(problem.units[unit].requires):
            yield f"unit {unit} is chosen without the units that it requires"
    for number, limit in enumerate(problem.eviction_limits):
        if not limit.holds(chosen):
            yield f"eviction limit {number} is exceeded"
    if choice.cost != problem.cost_of(choice.units):
        yield f"the cost is {problem.cost_of(choice.units)}, not {choice.cost}"
