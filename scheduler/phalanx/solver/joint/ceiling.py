"""A ceiling on value: what could be admitted if the cluster were one node, exactly.

CP-SAT closes the last per mille of a bound slowly where many sizes add up to many sums. A knapsack by dynamic
programming settles that at once, for one kind of unit at a time.
"""

from collections.abc import Sequence

import numpy as np

from phalanx.limits import JOINT_KNAPSACK_UNITS_MAX, OBJECTIVE_COEFFICIENT_MAX
from phalanx.solver.arrays import IntArray
from phalanx.solver.joint.problem import GangDemand


def ceiling(gangs: Sequence[GangDemand], weights: IntArray, room: Sequence[int]) -> int:
    """No admissible set is worth more. `weights` has a line per gang and a column per unit, as `room` has."""
    total = sum(gang.value for gang in gangs)
    if total > OBJECTIVE_COEFFICIENT_MAX:
        return total
    return min(
        [
            total,
            *(_knapsack(gangs, column.tolist(), most) for column, most in zip(weights.T, room, strict=True)),
        ]
    )


def _knapsack(gangs: Sequence[GangDemand], sizes: Sequence[int], room: int) -> int:
    """The most value within the room, together with those that must be in it."""
    kept = sum(gang.value for gang, size in zip(gangs, sizes, strict=True) if gang.must_admit or size == 0)
    room -= sum(size for gang, size in zip(gangs, sizes, strict=True) if gang.must_admit)
    others = [
        (gang.value, size) for gang, size in zip(gangs, sizes, strict=True) if size and not gang.must_admit
    ]
    room = min(room, sum(size for _, size in others))
    if not 0 <= room <= JOINT_KNAPSACK_UNITS_MAX:
        return sum(gang.value for gang in gangs)
    best = np.zeros(room + 1, dtype=np.int64)
    for value, size in others:
        if size <= room:
            best[size:] = np.maximum(best[size:], best[: room + 1 - size] + value)
    return kept + int(best[-1])
