"""Entry point of preemption: greedy choices first, then exact search domain by domain."""

from collections.abc import Sequence

from msgspec import Struct

from phalanx.limits import VICTIM_DETERMINISTIC_LIMIT
from phalanx.solver.limits import SOLVE_EFFORT_MIN
from phalanx.solver.preemption.capacity import CapacityTracker
from phalanx.solver.preemption.greedy import greedy, most_for_the_cost
from phalanx.solver.preemption.limit_bounds import allow_too_little
from phalanx.solver.preemption.presolve import cost_bound
from phalanx.solver.preemption.problem import PreemptionProblem, VictimResult, VictimSet, check
from phalanx.solver.preemption.scopes import Scope, scopes_of


class _Start(Struct, frozen=True):
    """A domain with its greedy choice and the lower bound on any choice there."""

    scope: Scope
    found: VictimSet | None
    least: int


def choose_victims(problem: PreemptionProblem, *, effort: float = VICTIM_DETERMINISTIC_LIMIT) -> VictimResult:
    """Return the cheapest choice found with a proven lower bound on the cost.

    `effort` is in deterministic time units. No choice is reported as impossible only as far as the effort
    reaches.
    """
    scopes = [scope for scope in scopes_of(problem) if _could_fit(problem, scope)]
    starts = [_Start(scope, greedy(problem, scope), cost_bound(problem, scope)) for scope in scopes]
    best = min((start.found for start in starts if start.found is not None), key=_sort_key, default=None)
    if best is not None and best.cost == 0:
        return VictimResult(best, 0.0)
    chosen = _refined(problem, starts, best, effort)
    return (
        chosen if chosen.choice is None or chosen.choice.proven else _try_other_order(problem, scopes, chosen)
    )


def _try_other_order(
    problem: PreemptionProblem, scopes: Sequence[Scope], chosen: VictimResult
) -> VictimResult:
    """Where nothing is proven, the greedy rule may do better without eager updates."""
    assert chosen.choice is not None
    others = [most_for_the_cost(problem, scope, is_eager=False) for scope in scopes]
    best = min([chosen.choice, *(other for other in others if other is not None)], key=_sort_key)
    choice = VictimSet(best.units, best.cost, min(best.cost, chosen.choice.bound))
    return VictimResult(choice, chosen.spent, chosen.errors)


def _refined(
    problem: PreemptionProblem, starts: Sequence[_Start], best: VictimSet | None, effort: float
) -> VictimResult:
    """Search exactly in each domain that may hold a cheaper choice, the most promising first."""
    bounds: list[int] = []
    errors: list[str] = []
    left = effort
    for start in sorted(starts, key=lambda start: (start.found is None, start.least, start.scope.nodes)):
        if best is not None and start.least >= best.cost:
            continue
        if left <= 0:
            bounds.append(start.least)
            continue
        from phalanx.solver.preemption.exact import (
            cheapest,  # takes a quarter of a second, so only where needed
        )

        answer = cheapest(problem, start.scope, below=None if best is None else best.cost, effort=left)
        left -= max(answer.spent, SOLVE_EFFORT_MIN)
        if answer.choice is not None and (found := [*check(problem, answer.choice)]):
            errors += found
            bounds.append(start.least)
            continue
        best = best if answer.choice is None else answer.choice
        if answer.bound is not None:
            bounds.append(max(answer.bound, start.least))
    choice = best and VictimSet(best.units, best.cost, min([best.cost, *bounds]))
    return VictimResult(choice, effort - left, tuple(errors))


def _could_fit(problem: PreemptionProblem, scope: Scope) -> bool:
    """Whether each demand alone would fit if all units were evicted, and limits allow enough evictions."""
    if allow_too_little(problem, scope):
        return False
    capacity = CapacityTracker(problem, scope)
    capacity.evict(scope.frees)
    return not any(capacity.missing())


def _sort_key(choice: VictimSet) -> tuple[int, tuple[int, ...]]:
    return choice.cost, choice.units
