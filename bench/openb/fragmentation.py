"""Expected unusable GPU of a node, for all shapes at once: the measure of "Beware of Fragmentation" (ATC'23).

A typical shape cannot use a node's idle devices at all when the node lacks cores or devices for it or has the
wrong model, and otherwise cannot use the devices with less left than it asks of one. The expectation over the
typical shapes splits into a part per device, which depends on the node's free cores and on what is left of
that device, and a part for shapes with several devices, which depends on the free cores and the number of
whole ones. Both are tables made once, so that one look-up per device replaces a walk over all typical shapes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from bench.openb.cluster import Cluster, Integers
from bench.openb.shapes import WHOLE, Shape

COVERED_PERCENT = 95
"""Of the pods, by the typical shapes of the published measure."""


def typical(pods: Mapping[Shape, int], *, covered_percent: int = COVERED_PERCENT) -> dict[Shape, int]:
    """The most frequent shapes, memory aside, that cover that much of the pods, with their numbers."""
    counts: Counter[Shape] = Counter()
    for pod, count in pods.items():
        counts[Shape(pod.cpu, 0, pod.gpus, pod.milli, pod.models)] += count
    wanted, covered = counts.total() * covered_percent, 0
    chosen: dict[Shape, int] = {}
    for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered * 100 >= wanted:
            break
        chosen[shape] = count
        covered += count
    return chosen


class Fragmentation:
    """Sums over typical pods, not means: divide by `pods` for thousandths of devices."""

    def __init__(self, shapes: Mapping[Shape, int], models: Iterable[str], devices: int) -> None:
        self.pods = sum(shapes.values())
        self.several = sum(count for shape, count in shapes.items() if shape.gpus > 1)
        self._steps: Integers = np.array(sorted({shape.cpu for shape in shapes}), dtype=np.int64)
        self._of_device: dict[str, Integers] = {}
        self._of_node: dict[str, Integers] = {}
        for model in sorted(set(models)):
            self._of_device[model] = self._device_table(shapes, model)
            self._of_node[model] = self._node_table(shapes, model, devices)

    def _device_table(self, shapes: Mapping[Shape, int], model: str) -> Integers:
        """[cores, left]: how many pods with at most one device cannot use a device with so much left."""
        table = np.zeros((len(self._steps) + 1, WHOLE + 1), dtype=np.int64)
        for shape, count in shapes.items():
            if shape.gpus == 1 and shape.admits(model):
                enough = int(np.searchsorted(self._steps, shape.cpu)) + 1
                table[:enough] += count
                table[enough:, : shape.milli] += count
            elif shape.gpus <= 1:
                table += count
        return table

    def _node_table(self, shapes: Mapping[Shape, int], model: str, devices: int) -> Integers:
        """[cores, whole devices]: how many pods with several devices find too little on the node."""
        table = np.zeros((len(self._steps) + 1, devices + 1), dtype=np.int64)
        for shape, count in shapes.items():
            if shape.gpus > 1 and shape.admits(model):
                enough = int(np.searchsorted(self._steps, shape.cpu)) + 1
                table[:enough] += count
                table[enough:, : shape.gpus] += count
            elif shape.gpus > 1:
                table += count
        return table

    def cores(self, cpu: Integers) -> Integers:
        """The row of the tables for so many free thousandths of cores; below zero counts as none."""
        return np.searchsorted(self._steps, cpu, side="right")

    def of_devices(self, model: str, cores: Integers, left: Integers) -> Integers:
        """Each device's part; arguments broadcast against each other."""
        found: Integers = left * self._of_device[model][cores, left]
        return found

    def of_node(self, model: str, cores: Integers, whole: Integers, idle: Integers) -> Integers:
        """The part of shapes with several devices: broken devices are no use to them, whole ones may be."""
        found: Integers = self._of_node[model][cores, whole] * WHOLE * whole
        return found + self.several * (idle - WHOLE * whole)

    def of_cluster(self, cluster: Cluster) -> int:
        """All nodes' parts together."""
        total = 0
        for model, nodes in cluster.nodes_of.items():
            left = cluster.devices[nodes]
            cores = self.cores(cluster.cpu[nodes])
            total += int(self.of_devices(model, cores[:, None], left).sum())
            whole = (left == WHOLE).sum(axis=1)
            total += int(self.of_node(model, cores, whole, left.sum(axis=1)).sum())
        return total
