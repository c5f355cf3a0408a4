"""Other subgroups than the first ones, for a gang that may start with some of them."""

from collections.abc import Callable

from phalanx.actions.demands.demand import Demand, start_demand
from phalanx.actions.limits import SUBGROUP_CHOICES_MAX
from phalanx.solver.problem import Placed


def start_with_other_subgroups(
    demand: Demand, fits: Callable[[Demand], Placed | None]
) -> tuple[Demand, Placed] | None:
    """A start of subgroups that fit together, and where.

    One after the other, without those that find no room; where that is not enough, without the last one that
    did, and so on back: what does not fit does not fit with more either. Goes through all that may be tried,
    though the cycle be exhausted by that: a gang that is cut short again and again would never come to the
    last ones, and nobody behind it to anything.
    """
    names, least = demand.candidates, demand.gang.min_subgroups
    kept: list[int] = []
    index = tried = 0
    while tried < SUBGROUP_CHOICES_MAX:
        if len(kept) + len(names) - index < least or index == len(names):
            if not kept:
                return None
            index = kept.pop() + 1
            continue
        tried += 1
        trial, is_enough = start_demand(demand.gang, [names[each] for each in (*kept, index)])
        answer = fits(trial) if trial.batches else None
        if answer is not None and is_enough:
            return trial, answer
        if answer is not None or not trial.batches:
            kept.append(index)
        index += 1
    return None
