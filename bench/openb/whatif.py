"""What a node would look like after each shape, as arrays: the input of every incremental policy."""

import numpy as np

from bench.openb.cluster import Cluster, Flags, Integers, ShapeTable
from bench.openb.fragmentation import Fragmentation
from bench.openb.shapes import WHOLE


class Outlook:
    """One node before and after each shape. Arrays by [shape, device] hold a share on that device.

    Where a pod takes no share, each column holds the node after the pod's whole devices, or none, are gone.
    """

    def __init__(self, cluster: Cluster, table: ShapeTable, node: int) -> None:
        row = cluster.devices[node]
        whole = int((row == WHOLE).sum())
        self.machine = cluster.machines[node]
        self.row: Integers = row
        self.fits, self.fits_device = table.fits(cluster, node)
        self.cpu_before = int(cluster.cpu[node])
        self.idle_before = int(row.sum())
        self.whole_before = whole
        self.cpu: Integers = np.maximum(self.cpu_before - table.cpu, 0)
        self.idle: Integers = np.maximum(self.idle_before - table.demand, 0)
        taken = np.where(table.share, 0, table.gpus)
        broken = table.share[:, None] & (row == WHOLE)[None, :]
        self.whole: Integers = np.maximum(whole - taken[:, None] - broken, 0)
        self.left: Integers = np.maximum(row[None, :] - table.milli[:, None], 0)
        self.share: Flags = table.share
        self.taken: Integers = taken

    def fragments(self, measure: Fragmentation) -> tuple[int, Integers]:
        """The measure before, and after by [shape, device]."""
        before_cores = measure.cores(np.array([self.cpu_before]))
        before = measure.of_devices(self.machine.model, before_cores, self.row).sum() + measure.of_node(
            self.machine.model, before_cores, np.array([self.whole_before]), np.array([self.idle_before])
        )
        cores = measure.cores(self.cpu)[:, None]
        parts = measure.of_devices(self.machine.model, cores, self.row[None, :])
        replaced = measure.of_devices(self.machine.model, cores, self.left)
        gone = self.taken[:, None] * measure.of_devices(self.machine.model, cores, np.full((1, 1), WHOLE))
        change = np.where(self.share[:, None], replaced - parts, -gone)
        after = parts.sum(axis=1, keepdims=True) + change
        return int(before[0]), after + measure.of_node(
            self.machine.model, cores, self.whole, self.idle[:, None]
        )
