"""What the pods seen so far say about the pods to come: the tables behind the look-ahead policy.

Placing a pod costs, in millionths of a device times the number of pods seen, the sum of

- the growth of the expected unusable GPU of the node (`fragmentation`), over all shapes seen;
- CPU_WEIGHT times the growth of the GPUs that the node's free cores cannot feed: its idle devices less its
  free cores divided by CORES_PERCENT of the mean cores per GPU of the pods seen;
- the growth of what is left over at last on the devices when pods like those seen go on filling them at
  random;
- SCARCITY_WEIGHT times the demand that the class of node has to expect per device, for each device taken. A
  shape that fits few classes of nodes weighs on those, so pods that fit elsewhere stay away from them;
- what room for pods with several devices was worth that is there no more (`rooms`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from bench.openb.cluster import Integers
from bench.openb.fragmentation import Fragmentation, typical
from bench.openb.rooms import MICRO, Rooms
from bench.openb.shapes import WHOLE, Machine, Shape
from bench.openb.whatif import Outlook

CPU_WEIGHT = 4
CORES_PERCENT = 105
SCARCITY_WEIGHT = 2
STOP_PERCENT = 2
"""How often, for each pod, a device that is being filled at random gets no further pod."""


class Forecast:
    """Made from the numbers of the shapes seen, on a cluster of known nodes."""

    def __init__(self, seen: Mapping[Shape, int], machines: Sequence[Machine]) -> None:
        models = {machine.model for machine in machines}
        most = max(machine.gpus for machine in machines)
        self._pods = sum(seen.values())
        self._fragments = Fragmentation(typical(seen, covered_percent=100), models, most)
        self._leftover = leftover(seen)
        self._rooms = Rooms(seen, machines)
        self._price = prices(seen, machines)
        self._cpu = sum(count * shape.cpu for shape, count in seen.items() if shape.gpus) * CORES_PERCENT
        self._gpu = sum(count * shape.demand for shape, count in seen.items()) * 100

    def costs(self, outlook: Outlook) -> Integers:
        """By [shape, device]."""
        before, after = outlook.fragments(self._fragments)
        starved = self._starved(outlook.idle, outlook.cpu) - self._starved(
            np.array([outlook.idle_before]), np.array([outlook.cpu_before])
        )
        price = SCARCITY_WEIGHT * self._price[outlook.machine.kind]
        node = CPU_WEIGHT * MICRO * starved + price * (outlook.idle_before - outlook.idle)
        on_device = np.where(
            outlook.share[:, None],
            self._leftover[outlook.left] - self._leftover[outlook.row][None, :],
            -self._leftover[WHOLE] * outlook.taken[:, None],
        )
        found: Integers = MICRO * (after - before)
        return found + self._pods * (node[:, None] + on_device + self._lost_rooms(outlook))

    def _lost_rooms(self, outlook: Outlook) -> Integers:
        model = outlook.machine.model
        before = self._rooms.worth(model, np.array([outlook.cpu_before]), np.array([outlook.whole_before]))
        return before - self._rooms.worth(model, outlook.cpu[:, None], outlook.whole)

    def _starved(self, idle: Integers, cpu: Integers) -> Integers:
        """Thousandths of devices that the cores cannot feed."""
        if not self._cpu:
            return np.zeros_like(idle)
        short: Integers = np.maximum(idle - cpu * self._gpu // self._cpu, 0)
        return short


def leftover(seen: Mapping[Shape, int]) -> Integers:
    """By thousandths left of a device: the expected rest, in millionths, when pods fill it at random.

    Each step brings a pod of those seen that fits, or, with STOP_PERCENT for each pod seen, the end.
    """
    counts: Counter[int] = Counter()
    for shape, count in seen.items():
        if shape.gpus == 1:
            counts[shape.milli] += count
    stop = STOP_PERCENT * max(1, sum(seen.values()))
    table = [0]
    for left in range(1, WHOLE + 1):
        fitting = [(milli, count) for milli, count in sorted(counts.items()) if milli <= left]
        rest = stop * left * MICRO + 100 * sum(count * table[left - milli] for milli, count in fitting)
        table.append(rest // (stop + 100 * sum(count for _, count in fitting)))
    return np.array(table, dtype=np.int64)


def prices(seen: Mapping[Shape, int], machines: Sequence[Machine]) -> dict[Machine, int]:
    """By class of nodes: the demand to expect per device, in thousandths.

    Demand is scaled to all devices; each shape's is spread evenly over the devices of the classes it fits.
    """
    devices: Counter[Machine] = Counter()
    for machine in machines:
        devices[machine.kind] += machine.gpus
    scale = Fraction(devices.total() * WHOLE, max(1, sum(n * shape.demand for shape, n in seen.items())))
    found = dict.fromkeys(devices, Fraction(0))
    for shape, count in seen.items():
        fitting = [each for each in devices if each.takes(shape)]
        room = sum(devices[each] for each in fitting)
        for each in fitting:
            found[each] += count * shape.demand * scale / room
    return {each: int(price) for each, price in found.items()}
