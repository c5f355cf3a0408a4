"""Tracks whether the demands fit while units are evicted and restored.

Exact for one demand, first fit decreasing for several. Only nodes that changed are evaluated again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from phalanx.solver.preemption.problem import EvictionLimit, PreemptionProblem, Vector
from phalanx.solver.preemption.scopes import Scope, whole


class CapacityTracker:
    """Free capacity in one scope, or in the whole problem; `chosen` are the evicted units."""

    def __init__(self, problem: PreemptionProblem, scope: Scope | None = None) -> None:
        scope = scope or whole(problem)
        self._problem = problem
        self._gives = scope.frees
        self._largest_first_order = _largest_first(problem)
        self.free = {node: list(problem.nodes[node].free) for node in scope.nodes}
        self.chosen: set[int] = set()
        self._required_by: Counter[int] = Counter()
        self._outdated = set(scope.nodes)
        self._fits_on: dict[int, Vector] = {}
        self._total_fits = [0] * len(problem.demands)
        self._limits = _Limits(problem)

    def with_required(self, unit: int) -> list[int]:
        """Return the unit and all that it requires, without evicted ones."""
        found, pending = {unit}, [unit]
        while pending:
            for other in self._problem.units[pending.pop()].requires:
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return sorted(found - self.chosen)

    def is_required(self, unit: int) -> bool:
        """Whether an evicted unit is required by another evicted one."""
        return self._required_by[unit] > 0

    def evict(self, units: Iterable[int]) -> None:
        for unit in units:
            if unit not in self.chosen:
                self.chosen.add(unit)
                self._update_unit(unit, 1)

    def restore(self, units: Iterable[int]) -> None:
        for unit in units:
            if unit in self.chosen:
                self.chosen.discard(unit)
                self._update_unit(unit, -1)

    def missing(self) -> list[int]:
        """Per demand, the pods that do not fit even alone."""
        self._update()
        return [
            max(0, demand.count - group)
            for demand, group in zip(self._problem.demands, self._total_fits, strict=True)
        ]

    def keeps_limits(self, more: Iterable[int] = ()) -> bool:
        """Whether the eviction limits hold when these are evicted too."""
        return self._limits.keep_limits([unit for unit in more if unit not in self.chosen])

    def fits(self) -> bool:
        """Whether all demands fit, also into the quotas."""
        return self._limits.has_quota and self.fits_without_quota()

    def fits_without_quota(self) -> bool:
        """Whether all demands fit, whatever the quotas are."""
        if any(self.missing()):
            return False
        return len(self._problem.demands) == 1 or self._first_fit()

    def _first_fit(self) -> bool:
        demands = self._problem.demands
        missing_of = {demand: demands[demand].count for demand in self._largest_first_order}
        for node in sorted(self._fits_on):
            left = list(self.free[node])
            for demand in self._largest_first_order:
                request, most = demands[demand].request, self._problem.nodes[node].max_pods[demand]
                count = min(missing_of[demand], pods_that_fit(left, request, most))
                missing_of[demand] -= count
                for index, amount in enumerate(request):
                    left[index] -= amount * count
            if not any(missing_of.values()):
                return True
        return not any(missing_of.values())

    def _update_unit(self, unit: int, sign: int) -> None:
        for node, vector in self._gives.get(unit, ()):
            if node in self.free:
                free = self.free[node]
                for index, amount in enumerate(vector):
                    free[index] += sign * amount
                self._outdated.add(node)
        for other in self._problem.units[unit].requires:
            self._required_by[other] += sign
        self._limits.move(unit, sign)

    def _update(self) -> None:
        for node in self._outdated:
            takes = self._problem.nodes[node].max_pods
            before = self._fits_on.pop(node, None)
            now = tuple(
                pods_that_fit(self.free[node], demand.request, most)
                for demand, most in zip(self._problem.demands, takes, strict=True)
            )
            if any(now):
                self._fits_on[node] = now
            for index, count in enumerate(now):
                self._total_fits[index] += count - (before[index] if before is not None else 0)
        self._outdated.clear()


class _Limits:
    """The use of each eviction limit and the missing quota."""

    def __init__(self, problem: PreemptionProblem) -> None:
        self._eviction_limits = [_EvictionLimitUse(limit) for limit in problem.eviction_limits]
        self._takes = _by_unit([limit.amounts for limit in problem.eviction_limits])
        self._frees_quota = _by_unit([quota.frees for quota in problem.quota_limits])
        self._missing_quota = [
            [
                sum(demand.request[index] * demand.count for demand in problem.demands) - capacity
                for index, capacity in zip(quota.resources, quota.limit, strict=True)
            ]
            for quota in problem.quota_limits
        ]

    @property
    def has_quota(self) -> bool:
        return all(amount <= 0 for missing in self._missing_quota for amount in missing)

    def move(self, unit: int, sign: int) -> None:
        for limit, vector in self._takes.get(unit, ()):
            self._eviction_limits[limit].move(unit, vector, sign)
        for quota, vector in self._frees_quota.get(unit, ()):
            missing = self._missing_quota[quota]
            for position, amount in enumerate(vector):
                missing[position] -= sign * amount

    def keep_limits(self, more: Sequence[int]) -> bool:
        taken: dict[int, list[tuple[int, Vector]]] = {}
        for unit in more:
            for limit, vector in self._takes.get(unit, ()):
                taken.setdefault(limit, []).append((unit, vector))
        return all(self._eviction_limits[limit].may_take(takes) for limit, takes in taken.items())


class _EvictionLimitUse:
    """The use of one eviction limit, in total and per group."""

    def __init__(self, limit: EvictionLimit) -> None:
        self._capacity = limit.limit
        self._total = [0] * len(limit.limit)
        members = zip(limit.amounts, limit.groups, strict=bool(limit.groups))
        self._group_of = {unit: group for (unit, _), group in members}
        self._lost: list[dict[int, int]] = [{} for _ in limit.limit]

    def move(self, unit: int, vector: Vector, sign: int) -> None:
        for position, amount in enumerate(vector):
            self._total[position] += sign * amount
            if self._group_of:
                lost, group = self._lost[position], self._group_of[unit]
                lost[group] = lost.get(group, 0) + sign * amount

    def may_take(self, takes: Sequence[tuple[int, Vector]]) -> bool:
        """Whether these evictions are allowed; an exceeded limit still allows units that do not count."""
        for position, capacity in enumerate(self._capacity):
            more = [(unit, vector[position]) for unit, vector in takes if vector[position]]
            if more and self._counted(position, more) > capacity:
                return False
        return True

    def _counted(self, position: int, more: Sequence[tuple[int, int]]) -> int:
        total = self._total[position] + sum(amount for _, amount in more)
        if not self._group_of or total <= self._capacity[position]:
            return total
        lost = dict(self._lost[position])
        for unit, amount in more:
            group = self._group_of[unit]
            lost[group] = lost.get(group, 0) + amount
        return total - max(lost.values())


def pods_that_fit(free: Sequence[int], request: Vector, most: int) -> int:
    """Return how many pods of this request fit, at most `most`."""
    count = most
    for have, need in zip(free, request, strict=True):
        if need > 0 and have < need * count:
            count = max(0, have // need)
    return count


def _by_unit(all_parts: Sequence[Sequence[tuple[int, Vector]]]) -> dict[int, list[tuple[int, Vector]]]:
    """Index amounts by unit."""
    found: dict[int, list[tuple[int, Vector]]] = {}
    for index, parts in enumerate(all_parts):
        for unit, vector in parts:
            found.setdefault(unit, []).append((index, vector))
    return found


def _largest_first(problem: PreemptionProblem) -> list[int]:
    """Demands in the order for first fit: the largest part of any resource first."""
    most = [max(1, *amounts) for amounts in zip(*(demand.request for demand in problem.demands), strict=True)]

    def size(demand: int) -> int:
        request = problem.demands[demand].request
        return max((amount * 1000 // top for amount, top in zip(request, most, strict=True)), default=0)

    return sorted(range(len(problem.demands)), key=lambda demand: (-size(demand), demand))
