"""The fragmentation cost of placing one pod: GPUs that become useless to the pods to come.

The pods to come are forecast from typical pods. The cost, in millionths of a device times the number of
typical pods, is the sum of

- the growth of the expected unusable GPU of the node over all typical pods: the measure of "Beware of
  Fragmentation" (Weng et al., USENIX ATC 2023). A pod cannot use the idle devices of a node where it may not
  run or that lacks cores or devices for it, and otherwise not the devices with less left than it requests;
- CPU_WEIGHT times the growth of GPUs that the free cores cannot serve: idle devices less free cores divided
  by CORES_PERCENT of the mean cores per GPU of the typical pods;
- the growth of the final rest of the devices when further typical pods fill them at random;
- SCARCITY_WEIGHT times the expected demand per device of the node, for each device taken: pods that fit
  elsewhere avoid nodes that few pods can replace;
- the lost value of capacity for pods with several devices.

Integer arithmetic. Everything is tabulated once, so that a look-up per device replaces a loop over typical
pods. Cores and devices are in thousandths. Arrays by [node] are aligned with each other, those by [pod] too;
an array with one row stands for all rows of the other.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE

FRAGMENT_COST_MAX: Final = 1 << 24
"""Largest expected demand per device, in thousandths of devices. Costs stay within 64 bits."""

FRAGMENT_RATIO_MAX: Final = 1 << 38
"""Largest term of the mean cores per GPU. Its product with the cores of a node stays within 64 bits."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

CPU_WEIGHT = 4
CORES_PERCENT = 105
SCARCITY_WEIGHT = 2

STOP_PERCENT = 2
"""How often, per pod, a device that is being filled at random gets no further pod."""

WORTH_PERCENT = 25
"""The value of capacity for a pod, in percent of its devices, where every node that could take it will be
needed."""

DEVIATIONS = 2
"""Pods expected beyond the mean, in standard deviations of a Poisson distribution: rare pods count too."""

MICRO = 1000
"""Millionths of a device in a thousandth."""


class TypicalPods(Struct, frozen=True):
    """`count` pods with these requests."""

    cpu: int
    """Thousandths of cores."""
    gpus: int
    """Devices; a share is of one device."""
    milli: int
    """Thousandths of each device."""
    kinds: tuple[int, ...]
    """Numbers of the kinds of nodes on which they may run."""
    count: int

    @property
    def demand(self) -> int:
        """Thousandths of devices of all of them."""
        return self.count * self.gpus * self.milli


class NodeRows(Struct, frozen=True):
    kind: Integers
    cpu: Integers
    devices: Integers
    """What is left of each device by [node, device]; 0 where there is none."""
    loose: Integers
    """Whole devices that are counted, not listed in `devices`."""


class PodRows(Struct, frozen=True):
    """Pods to place, one each, by [pod]; units as in TypicalPods."""

    cpu: Integers
    gpus: Integers
    milli: Integers

    @property
    def share(self) -> Flags:
        """True for a part of one device."""
        found: Flags = (self.gpus == 1) & (self.milli < WHOLE_DEVICE)
        return found


class TrialPlacement:
    """Nodes before and after a pod. Arrays by [row, device] hold the result of a share on that device.

    Where the pod takes no share, each column holds the node without its whole devices. Negative results are
    0: the caller knows whether the pod fits.
    """

    def __init__(self, nodes: NodeRows, pods: PodRows) -> None:
        devices = nodes.devices
        self.nodes = nodes
        self.share = pods.share
        self.idle_before: Integers = devices.sum(axis=1) + WHOLE_DEVICE * nodes.loose
        self.whole_before: Integers = (devices == WHOLE_DEVICE).sum(axis=1) + nodes.loose
        self.cpu: Integers = np.maximum(nodes.cpu - pods.cpu, 0)
        self.idle: Integers = np.maximum(self.idle_before - pods.gpus * pods.milli, 0)
        self.taken: Integers = np.where(self.share, 0, pods.gpus)
        broken = self.share[:, None] & (devices == WHOLE_DEVICE)
        self.whole: Integers = np.maximum((self.whole_before - self.taken)[:, None] - broken, 0)
        self.left: Integers = np.maximum(devices - pods.milli[:, None], 0)

    def fragments(self, measure: "Fragmentation") -> tuple[Integers, Integers]:
        """Return the measure before, by [node], and after, by [row, device]."""
        nodes = self.nodes
        kind, all_of_one = nodes.kind[:, None], np.full((1, 1), WHOLE_DEVICE)
        before = measure.of_nodes(nodes)
        cores = measure.cores(self.cpu)[:, None]
        parts = measure.of_devices(kind, cores, nodes.devices)
        replaced = measure.of_devices(kind, cores, self.left)
        per_device = measure.of_devices(kind, cores, all_of_one)
        change = np.where(self.share[:, None], replaced - parts, -self.taken[:, None] * per_device)
        after = parts.sum(axis=1, keepdims=True) + nodes.loose[:, None] * per_device + change
        return before, after + measure.of_several(kind, cores, self.whole, self.idle[:, None])


class Fragmentation:
    """Expected unusable GPU, as sums over typical pods: divide by `pods` for thousandths of devices.

    The expectation splits into a part per device, by kind of node, free cores and what is left of the device,
    and a part for pods with several devices, by the number of whole devices.
    """

    def __init__(self, pods: Sequence[TypicalPods], *, kinds: int, devices: int) -> None:
        """`kinds`: the number of kinds of nodes; `devices`: the most that one node has."""
        self.pods = sum(typical.count for typical in pods)
        self.several = sum(typical.count for typical in pods if typical.gpus > 1)
        self._steps: Integers = np.array(sorted({typical.cpu for typical in pods}), dtype=np.int64)
        sizes = np.array(sorted({typical.milli for typical in pods if typical.gpus == 1}), dtype=np.int64)
        self._column: Integers = np.searchsorted(sizes, np.arange(WHOLE_DEVICE + 1), side="right")
        single = sum(typical.count for typical in pods if typical.gpus <= 1)
        fitting = self.summed(
            [
                (typical, int(self._column[typical.milli]), typical.count)
                for typical in pods
                if typical.gpus == 1
            ],
            kinds=kinds,
            columns=len(sizes) + 1,
        )
        self._wasted: Integers = single - fitting
        fitting = self.summed(
            [(typical, typical.gpus, typical.count) for typical in pods if 1 < typical.gpus <= devices],
            kinds=kinds,
            columns=devices + 1,
        )
        self._several_wasted: Integers = self.several - fitting

    def summed(self, parts: Sequence[tuple[TypicalPods, int, int]], *, kinds: int, columns: int) -> Integers:
        """Sum the amounts of pods with enough cores and no larger a column, by [kind, cores, column].

        Each part is pods, the column they need, and the amount they add.
        """
        table = np.zeros((kinds, len(self._steps) + 1, columns), dtype=np.int64)
        for pods, column, amount in parts:
            row = int(np.searchsorted(self._steps, pods.cpu)) + 1
            table[list(pods.kinds), row, column] += amount
        return table.cumsum(axis=1).cumsum(axis=2)

    def cores(self, cpu: Integers) -> Integers:
        """The table row for so many free thousandths of cores."""
        return np.searchsorted(self._steps, cpu, side="right")

    def of_devices(self, kind: Integers, cores: Integers, left: Integers) -> Integers:
        """The part of each device; arguments broadcast against each other."""
        found: Integers = left * self._wasted[kind, cores, self._column[left]]
        return found

    def of_several(self, kind: Integers, cores: Integers, whole: Integers, idle: Integers) -> Integers:
        """The part of pods with several devices: only whole devices are of use to them."""
        found: Integers = self._several_wasted[kind, cores, whole] * WHOLE_DEVICE * whole
        return found + self.several * (idle - WHOLE_DEVICE * whole)

    def of_nodes(self, nodes: NodeRows) -> Integers:
        """All parts of each node."""
        cores = self.cores(nodes.cpu)
        whole = (nodes.devices == WHOLE_DEVICE).sum(axis=1) + nodes.loose
        idle = nodes.devices.sum(axis=1) + WHOLE_DEVICE * nodes.loose
        per_device = self.of_devices(nodes.kind, cores, np.full(1, WHOLE_DEVICE))
        parts = self.of_devices(nodes.kind[:, None], cores[:, None], nodes.devices).sum(axis=1)
        found: Integers = parts + nodes.loose * per_device + self.of_several(nodes.kind, cores, whole, idle)
        return found


class Forecast:
    """What typical pods imply for the nodes of a cluster.

    `takes` by [typical pods, node]: whether they fit on the empty node. `gpus` by [node]: its devices.
    `prices` by [node]: the expected demand per device.
    """

    def __init__(self, pods: Sequence[TypicalPods], takes: Flags, gpus: Integers, *, kinds: int) -> None:
        most = int(gpus.max(initial=0))
        self._pods = sum(typical.count for typical in pods)
        self._fragments = Fragmentation(pods, kinds=kinds, devices=most)
        self._leftover = leftover(pods)
        self.prices: Integers = prices(pods, takes, gpus)
        self._device_values = self._fragments.summed(
            [
                (typical, typical.gpus, worth_of(typical, pods, int(nodes_that_fit), int(gpus.sum())))
                for typical, nodes_that_fit in zip(pods, takes.sum(axis=1), strict=True)
                if 1 < typical.gpus <= most
            ],
            kinds=kinds,
            columns=most + 1,
        )
        self._cpu, self._gpu = _cores_per_gpu(pods)

    def costs(self, outlook: TrialPlacement, price: Integers) -> Integers:
        """Return the costs by [row, device]; `price` by [node] from `prices`. Only valid where the pod
        fits."""
        nodes = outlook.nodes
        before, after = outlook.fragments(self._fragments)
        starved = self._starved(outlook.idle, outlook.cpu) - self._starved(outlook.idle_before, nodes.cpu)
        scarce = SCARCITY_WEIGHT * price * (outlook.idle_before - outlook.idle)
        node = CPU_WEIGHT * MICRO * starved + scarce
        on_device = np.where(
            outlook.share[:, None],
            self._leftover[outlook.left] - self._leftover[nodes.devices],
            -self._leftover[WHOLE_DEVICE] * outlook.taken[:, None],
        )
        found: Integers = MICRO * (after - before[:, None])
        return found + self._pods * (node[:, None] + on_device + self._lost_device_value(outlook))

    def _lost_device_value(self, outlook: TrialPlacement) -> Integers:
        nodes, cores = outlook.nodes, self._fragments.cores
        before = self._device_values[nodes.kind, cores(nodes.cpu), outlook.whole_before]
        lost: Integers = (
            before[:, None]
            - self._device_values[nodes.kind[:, None], cores(outlook.cpu)[:, None], outlook.whole]
        )
        return lost

    def _starved(self, idle: Integers, cpu: Integers) -> Integers:
        """Thousandths of devices that the cores cannot serve."""
        if not self._cpu:
            return np.zeros_like(idle)
        short: Integers = np.maximum(idle - cpu * self._gpu // self._cpu, 0)
        return short


def _cores_per_gpu(pods: Sequence[TypicalPods]) -> tuple[int, int]:
    """Cores and devices in the ratio of pods with devices, the cores somewhat more."""
    cpu = sum(typical.count * typical.cpu for typical in pods if typical.gpus) * CORES_PERCENT
    gpu = sum(typical.demand for typical in pods) * 100
    shift = max(0, gpu.bit_length() - FRAGMENT_RATIO_MAX.bit_length())
    return (max(1, cpu >> shift) if cpu else 0), gpu >> shift


def leftover(pods: Sequence[TypicalPods]) -> Integers:
    """Expected rest in millionths by thousandths left of a device, when pods fill it at random.

    Each step brings a pod of those that fit, or, with STOP_PERCENT per pod, the end.
    """
    counts = np.zeros(WHOLE_DEVICE + 1, dtype=np.int64)
    for typical in pods:
        if typical.gpus == 1:
            counts[typical.milli] += typical.count
    sizes = np.flatnonzero(counts)
    weights = counts[sizes]
    enough = np.searchsorted(sizes, np.arange(WHOLE_DEVICE + 1), side="right").tolist()
    total = [0, *weights.cumsum().tolist()]
    stop = STOP_PERCENT * max(1, sum(typical.count for typical in pods))
    table = np.zeros(WHOLE_DEVICE + 1, dtype=np.int64)
    for left in range(1, WHOLE_DEVICE + 1):
        fitting = enough[left]
        rest = stop * left * MICRO + 100 * int(weights[:fitting] @ table[left - sizes[:fitting]])
        table[left] = rest // (stop + 100 * total[fitting])
    return table


def prices(pods: Sequence[TypicalPods], takes: Flags, gpus: Integers) -> Integers:
    """Expected demand per device by [node], in thousandths, at most FRAGMENT_COST_MAX.

    Demand is scaled to all devices; that of each pod is spread evenly over the devices of the nodes that
    could take it.
    """
    total, devices = max(1, sum(typical.demand for typical in pods)), int(gpus.sum())
    devices_that_fit: Integers = takes @ gpus
    parts = [
        min(
            FRAGMENT_COST_MAX * MICRO, typical.demand * devices * WHOLE_DEVICE * MICRO // (total * int(reach))
        )
        if reach
        else 0
        for typical, reach in zip(pods, devices_that_fit, strict=True)
    ]
    found: Integers = np.minimum(
        (np.array(parts, dtype=np.int64) @ takes + MICRO // 2) // MICRO, FRAGMENT_COST_MAX
    )
    return found


def worth_of(pod: TypicalPods, pods: Sequence[TypicalPods], nodes_that_fit: int, devices: int) -> int:
    """The value of capacity for one pod with several devices, in millionths of a device.

    Its devices times the probability that the capacity is needed: the number of such pods expected for as
    much demand as there are `devices`, divided by the number of empty nodes that could take one.
    """
    if not nodes_that_fit:
        return 0
    demand = sum(typical.demand for typical in pods)
    hundredths = 100 * pod.count * devices * WHOLE_DEVICE // demand
    needed = min(100 * nodes_that_fit, hundredths + DEVIATIONS * math.isqrt(100 * hundredths))
    return pod.gpus * pod.milli * MICRO * WORTH_PERCENT * needed // (100 * 100 * nodes_that_fit)
