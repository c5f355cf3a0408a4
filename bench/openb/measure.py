"""Runs a policy on a list with several seeds, and computes the figures."""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct
from phalanx.solver.fragmentation import Fragmentation

from bench.openb.policies import BestFit, Fgd, LookAhead, Policy, Random
from bench.openb.replay import Run, replay
from bench.openb.shapes import Machine, Shape
from bench.openb.traces import TUNED_PERCENT, arrivals, capacity_of, renamed
from bench.openb.typical import measure_of, typical

DECIMALS = 3
CURVE_STEP = 2

Maker = Callable[[Sequence[Machine], Fragmentation, random.Random], Policy]

POLICIES: dict[str, Maker] = {
    "Random": lambda machines, measure, rng: Random(rng),
    "BestFit": lambda machines, measure, rng: BestFit(),
    "FGD": lambda machines, measure, rng: Fgd(measure),
    "LookAhead": lambda machines, measure, rng: LookAhead(machines),
}
"""Policies by name; only Fgd knows the typical shapes of the whole list."""


class Spread(Struct, frozen=True):
    """Mean and sample standard deviation over the seeds."""

    mean: float
    sd: float


class Figures(Struct, frozen=True):
    """One policy on one list, in percent of all devices; by arrived demand in percent.

    `first_dropped` is the arrived demand at which the first pod was dropped. The curves are means over the
    seeds at each CURVE_STEP percent of arrived demand.
    """

    policy: str
    allocated: dict[str, Spread]
    fragmented: dict[str, Spread]
    first_dropped: Spread
    pods_dropped: Spread
    allocated_curve: tuple[float, ...]
    fragmented_curve: tuple[float, ...]


def run_once(machines: Sequence[Machine], pods: Sequence[Shape], policy: str, seed: int) -> Run:
    """One policy on the pods in the order of the seed, which is the same for all policies."""
    rng = random.Random(seed)
    order = arrivals(pods, capacity=capacity_of(machines), rng=rng)
    nodes = renamed(machines, rng)
    measure = measure_of(typical(Counter(pods)), machines)
    return replay(nodes, order, POLICIES[policy](nodes, measure, rng), measure, upto=TUNED_PERCENT)


def figures(policy: str, runs: Sequence[Run], at: Sequence[int]) -> Figures:
    """The figures of all runs of a policy on a list, at these percents of arrived demand."""
    allocated = [[mark.allocated for mark in run.marks] for run in runs]
    fragmented = [[mark.fragmented for mark in run.marks] for run in runs]
    return Figures(
        policy=policy,
        allocated={str(percent): spread([each[percent - 1] for each in allocated]) for percent in at},
        fragmented={str(percent): spread([each[percent - 1] for each in fragmented]) for percent in at},
        first_dropped=spread([run.first_dropped or TUNED_PERCENT for run in runs]),
        pods_dropped=spread([run.dropped for run in runs]),
        allocated_curve=_means(allocated),
        fragmented_curve=_means(fragmented),
    )


def spread(values: Sequence[float]) -> Spread:
    """Mean and deviation; the deviation of a single value is 0."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(round(statistics.fmean(values), DECIMALS), round(deviation, DECIMALS))


def _means(curves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(
        round(statistics.fmean(column), DECIMALS)
        for column in list(zip(*curves, strict=True))[CURVE_STEP - 1 :: CURVE_STEP]
    )
