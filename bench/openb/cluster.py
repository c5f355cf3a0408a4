"""The free resources of the nodes as arrays."""

from collections.abc import Sequence

import numpy as np
from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE
from phalanx.solver.fragmentation import Flags, Integers, NodeRows, PodRows, TrialPlacement

from bench.openb.shapes import Machine, Shape
from bench.openb.typical import models_of


class Cluster:
    """Row n is node n in the order of names. A device that a node does not have has no free capacity."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        most = max(machine.gpus for machine in machines)
        self.machines = tuple(machines)
        self.cpu: Integers = np.array([machine.cpu for machine in machines], dtype=np.int64)
        self.memory: Integers = np.array([machine.memory for machine in machines], dtype=np.int64)
        self.devices: Integers = np.array(
            [
                [WHOLE_DEVICE if device < machine.gpus else 0 for device in range(most)]
                for machine in machines
            ],
            dtype=np.int64,
        )
        self.idle = int(self.devices.sum())
        models = models_of(machines)
        self.kind: Integers = np.array([models.index(machine.model) for machine in machines], dtype=np.int64)

    def rows(self, nodes: slice) -> NodeRows:
        """The current state of these nodes."""
        kind = self.kind[nodes]
        return NodeRows(kind, self.cpu[nodes], self.devices[nodes], loose=np.zeros_like(kind))

    def place(self, node: int, shape: Shape, device: int) -> None:
        """Place a pod: a share on `device`, or whole devices from the first free ones."""
        self.cpu[node] -= shape.cpu
        self.memory[node] -= shape.memory
        row = self.devices[node]
        if shape.share:
            row[device] -= shape.milli
        else:
            row[np.flatnonzero(row == WHOLE_DEVICE)[: shape.gpus]] = 0
        self.idle -= shape.demand
        if self.cpu[node] < 0 or self.memory[node] < 0 or row.min() < 0:
            raise ValueError(f"node {self.machines[node].name} has no capacity for {shape}")


class ShapeTable:
    """All shapes of a run as columns, and on which device models each fits."""

    def __init__(self, shapes: Sequence[Shape], models: Sequence[str]) -> None:
        self.shapes = tuple(shapes)
        self.cpu: Integers = np.array([shape.cpu for shape in shapes], dtype=np.int64)
        self.memory: Integers = np.array([shape.memory for shape in shapes], dtype=np.int64)
        self.gpus: Integers = np.array([shape.gpus for shape in shapes], dtype=np.int64)
        self.milli: Integers = np.array([shape.milli for shape in shapes], dtype=np.int64)
        self.pods = PodRows(self.cpu, self.gpus, self.milli)
        self.share: Flags = self.pods.share
        self.admits: dict[str, Flags] = {
            model: np.array([shape.admits(model) for shape in shapes], dtype=np.bool_)
            for model in sorted(set(models))
        }

    def fits(self, cluster: Cluster, node: int) -> tuple[Flags, Flags]:
        """Whether each shape fits on the node, and per device whether the share fits."""
        row = cluster.devices[node]
        fits = self.admits[cluster.machines[node].model] & (cluster.cpu[node] >= self.cpu)
        fits &= cluster.memory[node] >= self.memory
        devices = self.share[:, None] & fits[:, None] & (row[None, :] >= self.milli[:, None])
        whole = ~self.share & fits & (self.gpus <= int((row == WHOLE_DEVICE).sum()))
        return whole | devices.any(axis=1), devices


def outlook_of(cluster: Cluster, table: ShapeTable, node: int) -> TrialPlacement:
    """One node before and after each shape."""
    return TrialPlacement(cluster.rows(slice(node, node + 1)), table.pods)
