"""The choice of victims as data. The solver knows no policy: actions say who may go and what that costs."""

from collections.abc import Collection, Iterator

from msgspec import Struct

Vector = tuple[int, ...]


class PodDemand(Struct, frozen=True):
    """`count` interchangeable pods that must all find a place. All vectors have the same resources."""

    request: Vector
    count: int


class TargetNode(Struct, frozen=True):
    """One node. `free` is negative where it is over-committed. `takes`: at most so many pods, per want.

    `domain`: in which of the domains it lies of which one must hold all pods; 0 where none must.
    """

    free: Vector
    max_pods: Vector
    domain: int = 0


class EvictionUnit(Struct, frozen=True):
    """Pods that are evicted together or not at all.

    `frees`: what that frees, by index of the place. `requires`: units, by index, that must go if this one does.
    """

    cost: int
    frees: tuple[tuple[int, Vector], ...]
    requires: tuple[int, ...] = ()


class QuotaLimit(Struct, frozen=True):
    """What the wants may use together of each resource: `limit`, and what each of these units gives back.

    `resources` are indices into the vectors; the others have no bound.
    """

    resources: tuple[int, ...]
    limit: Vector
    frees: tuple[tuple[int, Vector], ...]


class EvictionLimit(Struct, frozen=True):
    """What may be evicted at most of these units together: `limit`, of vectors of its own.

    `groups`: that of each of the units, in the order of `takes`; of each resource, the group that loses most
    of it is not counted. Without groups all are.
    """

    limit: Vector
    amounts: tuple[tuple[int, Vector], ...]
    groups: tuple[int, ...] = ()

    def holds(self, chosen: Collection[int]) -> bool:
        """Whether no more is taken when these units go."""
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
    """Of the pods of these units at most `most` should go; `takes`: how many each unit has."""

    most: int
    pods: tuple[tuple[int, int], ...]

    def violations(self, chosen: Collection[int]) -> int:
        """How many more go."""
        return max(0, sum(count for unit, count in self.pods if unit in chosen) - self.most)


class PreemptionProblem(Struct, frozen=True):
    """Choose units so that all wants fit, at the least cost. Each pod beyond a wish costs `violation_cost` as well.

    It may leave out rules that a placement must obey as well: then a choice may turn out to be too small, and
    the bound of its cost holds all the same.
    """

    demands: tuple[PodDemand, ...]
    nodes: tuple[TargetNode, ...]
    units: tuple[EvictionUnit, ...]
    quota_limits: tuple[QuotaLimit, ...] = ()
    eviction_limits: tuple[EvictionLimit, ...] = ()
    soft_limits: tuple[SoftEvictionLimit, ...] = ()
    violation_cost: int = 0
    seed: int = 0

    def cost_of(self, units: Collection[int]) -> int:
        """What it costs that these go together."""
        chosen = frozenset(units)
        violations = sum(soft_limit.violations(chosen) for soft_limit in self.soft_limits)
        return sum(self.units[unit].cost for unit in units) + self.violation_cost * violations


class VictimSet(Struct, frozen=True):
    """Indices of units, ascending; no choice costs less than `bound`."""

    units: tuple[int, ...]
    cost: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether none is cheaper."""
        return self.cost == self.bound


class VictimResult(Struct, frozen=True):
    """The cheapest choice found, None where nobody's end is enough, and the effort that it took.

    `defects`: what was wrong with choices that were dropped.
    """

    choice: VictimSet | None
    spent: float
    errors: tuple[str, ...] = ()


def check(problem: PreemptionProblem, choice: VictimSet) -> Iterator[str]:
    """What the choice breaks: who stays alone, what may not be taken, what it says that it costs."""
    chosen = frozenset(choice.units)
    for unit in choice.units:
        if not chosen.issuperset(problem.units[unit].requires):
            yield f"unit {unit} goes without those that must go with it"
    for number, limit in enumerate(problem.eviction_limits):
        if not limit.holds(chosen):
            yield f"more is taken than floor {number} allows"
    if choice.cost != problem.cost_of(choice.units):
        yield f"costs {problem.cost_of(choice.units)}, and {choice.cost} is said"
