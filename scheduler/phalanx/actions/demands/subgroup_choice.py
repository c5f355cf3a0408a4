"""Search for a start with other subgroups than the first ones: depth-first search with backtracking."""

from collections.abc import Callable

from phalanx.actions.demands.demand import Demand
from phalanx.actions.demands.gang_demands import start_demand
from phalanx.actions.limits import SUBGROUP_CHOICES_MAX
from phalanx.solver.problem import Placed


def start_with_other_subgroups(
    demand: Demand, fits: Callable[[Demand], Placed | None]
) -> tuple[Demand, Placed] | None:
    """A start with subgroups that fit together, and its placement; None if none is found.

    The search adds one subgroup after the other and skips those that do not fit. If too few subgroups remain,
    it removes the last one and continues. The search is complete up to SUBGROUP_CHOICES_MAX attempts, since a
    set that does not fit has no superset that fits. It may exceed the limits of the cycle: a gang whose
    search was cut short in each cycle would never try its last subgroups, and would block later gangs.
    """
    names, least = demand.subgroup_choices, demand.gang.min_subgroups
    chosen: list[int] = []
    index = attempts = 0
    while attempts < SUBGROUP_CHOICES_MAX:
        if len(chosen) + len(names) - index < least or index == len(names):
            if not chosen:
                return None
            index = chosen.pop() + 1
            continue
        attempts += 1
        trial, is_enough = start_demand(demand.gang, [names[number] for number in (*chosen, index)])
        answer = fits(trial) if trial.batches else None
        if answer is not None and is_enough:
            return trial, answer
        if answer is not None or not trial.batches:
            chosen.append(index)
        index += 1
    return None
