"""One run: pods arrive one by one, and each is placed on a node for ever or dropped."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from phalanx.solver.fragmentation import Fragmentation, Integers

from bench.openb.cluster import Cluster, ShapeTable, outlook_of
from bench.openb.policies import Policy
from bench.openb.shapes import Machine, Shape
from bench.openb.traces import capacity_of

NEVER = np.iinfo(np.int64).max
"""The cost of a node on which the shape does not fit."""


class Mark(Struct, frozen=True):
    """The state of the cluster at one arrived demand; all values in percent of all devices."""

    arrived: int
    allocated: float
    fragmented: float


class Run(Struct, frozen=True):
    """The result of a run: the marks at each percent, and the arrived demand at the first dropped pod."""

    marks: tuple[Mark, ...]
    first_dropped: float | None
    dropped: int


class Board:
    """The costs of every shape on every node; a placement changes one column."""

    def __init__(self, cluster: Cluster, table: ShapeTable, policy: Policy) -> None:
        self._cluster, self._table, self._policy = cluster, table, policy
        shapes, nodes = len(table.shapes), len(cluster.machines)
        self._costs: Integers = np.empty((shapes, nodes), dtype=np.int64)
        self._device = np.empty((shapes, nodes), dtype=np.int8)
        self.renew()

    def renew(self) -> None:
        """Recompute all columns; equal nodes are computed once."""
        known: dict[tuple[object, ...], int] = {}
        for node in range(len(self._cluster.machines)):
            first = known.setdefault(self._state(node), node)
            if first == node:
                self.update(node)
            else:
                self._costs[:, node] = self._costs[:, first]
                self._device[:, node] = self._device[:, first]

    def _state(self, node: int) -> tuple[object, ...]:
        machine, cluster = self._cluster.machines[node], self._cluster
        whole = (machine.model, machine.gpus, machine.cpu, machine.memory)
        return (*whole, int(cluster.cpu[node]), int(cluster.memory[node]), cluster.devices[node].tobytes())

    def update(self, node: int) -> None:
        """Recompute the column of a changed node."""
        outlook = outlook_of(self._cluster, self._table, node)
        fits, fits_device = self._table.fits(self._cluster, node)
        able = np.where(outlook.share[:, None], fits_device, fits[:, None])
        costs = np.where(able, self._policy.costs(outlook, node), NEVER)
        device = costs.argmin(axis=1)
        self._device[:, node] = device
        self._costs[:, node] = np.take_along_axis(costs, device[:, None], axis=1)[:, 0]

    def choose(self, shape: int) -> tuple[int, int] | None:
        """The node and device for the shape, or None when it fits on no node."""
        row = self._costs[shape]
        candidates = np.flatnonzero(row != NEVER)
        if not candidates.size:
            return None
        node = self._policy.pick(row[candidates], candidates, self._cluster)
        return node, int(self._device[shape, node])


class Recorder:
    """Records marks as demand arrives."""

    def __init__(self, cluster: Cluster, measure: Fragmentation) -> None:
        self._cluster, self._measure = cluster, measure
        self._capacity = capacity_of(cluster.machines)
        self.marks: list[Mark] = []

    def before(self, demand: int) -> None:
        """Record a mark for each percent that the arrived demand crosses when it rises to this value."""
        while (len(self.marks) + 1) * self._capacity < demand * 100:
            self.note()

    def note(self) -> None:
        """Record the mark of the next percent."""
        idle = 100 * self._cluster.idle / self._capacity
        lost = int(self._measure.of_nodes(self._cluster.rows(slice(None))).sum())
        fragmented = 100 * lost / (self._capacity * self._measure.pods)
        self.marks.append(Mark(len(self.marks) + 1, 100 - idle, fragmented))


def replay(
    machines: Sequence[Machine],
    order: Sequence[Shape],
    policy: Policy,
    measure: Fragmentation,
    *,
    upto: int,
) -> Run:
    """Replay all pods in order, with marks up to `upto` percent of arrived demand."""
    cluster = Cluster(machines)
    table = ShapeTable(sorted(set(order)), [machine.model for machine in machines])
    number = {shape: index for index, shape in enumerate(table.shapes)}
    board, recorder = Board(cluster, table, policy), Recorder(cluster, measure)
    arrived = dropped = 0
    first_dropped = None
    for pod in order:
        arrived += pod.demand
        recorder.before(arrived)
        if policy.saw(pod):
            board.renew()
        found = board.choose(number[pod])
        if found is not None:
            cluster.place(found[0], pod, found[1])
            board.update(found[0])
        else:
            dropped += 1
            first_dropped = first_dropped or 100 * arrived / capacity_of(machines)
    while len(recorder.marks) < upto:
        recorder.note()
    return Run(tuple(recorder.marks[:upto]), first_dropped, dropped)
