"""Other subgroups than the first ones, for a gang that may start with some of them."""

from collections.abc import Callable

from phalanx.actions.demand import Demand, start_of
from phalanx.actions.limits import SUBGROUPS_TRIED_MAX
from phalanx.solver.problem import Placed


def start_with_others(
    demand: Demand, fits: Callable[[Demand], Placed | None]
) -> tuple[Demand, Placed] | None:
    """A start of subgroups that fit together, and where: one after the other, without those with no room.

    Goes through all that may be tried, though the cycle be exhausted by that: a gang that is cut short again
    and again would never come to the last ones, and nobody behind it to anything.
    """
    kept: list[str] = []
    for name in demand.candidates[:SUBGROUPS_TRIED_MAX]:
        trial, is_enough = start_of(demand.gang, [*kept, name])
        answer = fits(trial) if trial.batches else None
        if answer is not None or not trial.batches:
            kept.append(name)
        if answer is not None and is_enough:
            return trial, answer
    return None
