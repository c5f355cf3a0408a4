"""What it is worth that a node can still take a pod with several devices."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bench.openb.cluster import Integers
from bench.openb.shapes import WHOLE, Machine, Shape

WORTH_PERCENT = 25
"""Of a shape's devices, where every node that could take it will be needed."""

DEVIATIONS = 2
"""Pods expected beyond the mean, in standard deviations of a Poisson law: rare shapes get some room too."""

MICRO = 1000
"""Millionths of a device in a thousandth."""


class Rooms:
    """Tables by model, free cores and whole devices; made from the numbers of the shapes seen."""

    def __init__(self, seen: Mapping[Shape, int], machines: Sequence[Machine]) -> None:
        worth = {shape: worth_of(shape, seen, machines) for shape in seen if shape.gpus > 1}
        most = max(machine.gpus for machine in machines)
        self._steps: Integers = np.array(sorted({shape.cpu for shape in worth}), dtype=np.int64)
        self._tables: dict[str, Integers] = {}
        for model in sorted({machine.model for machine in machines}):
            table = np.zeros((len(self._steps) + 1, most + 1), dtype=np.int64)
            for shape, each in worth.items():
                if shape.admits(model):
                    table[int(np.searchsorted(self._steps, shape.cpu)) + 1 :, shape.gpus :] += each
            self._tables[model] = table

    def worth(self, model: str, cpu: Integers, whole: Integers) -> Integers:
        """In millionths of a device; arguments broadcast against each other."""
        found: Integers = self._tables[model][np.searchsorted(self._steps, cpu, side="right"), whole]
        return found


def worth_of(shape: Shape, seen: Mapping[Shape, int], machines: Sequence[Machine]) -> int:
    """Of room for one pod: its devices times the chance that the room is needed.

    Pods are expected as often as seen, for as much demand as there are devices; the chance is their number by
    that of the nodes that could take one when empty.
    """
    rooms = sum(machine.takes(shape) for machine in machines)
    if not rooms:
        return 0
    devices = sum(machine.gpus for machine in machines) * WHOLE
    hundredths = 100 * seen[shape] * devices // sum(count * each.demand for each, count in seen.items())
    needed = min(100 * rooms, hundredths + DEVIATIONS * math.isqrt(100 * hundredths))
    return shape.demand * MICRO * WORTH_PERCENT * needed // (100 * 100 * rooms)
