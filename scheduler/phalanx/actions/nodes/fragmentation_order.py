"""The order of nodes for single pods that are to leave as little fragmentation as they can.

The scoring itself is `solver/fragmentation.py`; here the session's nodes and pods become its arrays. Costs
are kept per shape of pod and node, and computed anew for the nodes that changed.
"""

from functools import cached_property

import numpy as np

from phalanx.actions.limits import FRAGMENT_CORES_MAX, FRAGMENT_DEVICES_MAX
from phalanx.actions.nodes.fullness import Fullness, Vector
from phalanx.actions.nodes.typical import typical
from phalanx.framework.session import Session
from phalanx.model.gpu_shares import WHOLE_DEVICE, device_count, free_devices, requests_share, share_on_node
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Device, Pod
from phalanx.model.resources import CPU, GPU, Resources
from phalanx.solver.fragmentation import Forecast, Integers, NodeRows, PodRows, TrialPlacement

_NEVER = np.iinfo(np.int64).max


class FragmentationOrders:
    """The orders of one session, all by the same typical pods: those of when it was first asked."""

    def __init__(self, session: Session, fullness: Fullness) -> None:
        self._session = session
        self._fullness = fullness
        self._orders: dict[ShapeKey, LeastFragmentation] = {}

    def order(self, pod: Pod) -> "LeastFragmentation":
        """For pods of this shape."""
        if pod.shape.key not in self._orders:
            self._orders[pod.shape.key] = LeastFragmentation(self._scores, self._fullness, pod)
        return self._orders[pod.shape.key]

    @cached_property
    def _scores(self) -> "_Scores":
        return _Scores(self._session)


class LeastFragmentation:
    """Nodes by what a pod costs there; of equals the fullest, as with Pack."""

    def __init__(self, scores: "_Scores", fullness: Fullness, pod: Pod) -> None:
        self._scores = scores
        self._fullness = fullness
        self._pod = pod
        self._gpus, self._milli = scores.asked(pod)
        self._costs: list[int] = []
        self._devices: list[int] = []
        self._followed = 0

    def of(self, node: NodeName) -> Vector:
        """Means something only where the pod fits."""
        self._follow()
        return (self._costs[self._scores.number[node]], *self._fullness.of(node))

    def device(self, node: NodeName) -> Device | None:
        """Where on the node a share goes; None for a pod without one."""
        if not requests_share(self._pod.shape.requests):
            return None
        self._follow()
        number = self._scores.number[node]
        return Device(index=self._devices[number], taken=int(self._milli[number]))

    def _follow(self) -> None:
        log = self._scores.log
        if not self._costs:
            self._followed = len(log)
            self._costs, self._devices = self._computed(np.arange(len(self._scores.number)))
        elif self._followed < len(log):
            changed = [self._scores.number[node] for node in dict.fromkeys(log[self._followed :])]
            self._followed = len(log)
            for number, cost, device in zip(changed, *self._computed(np.array(changed)), strict=True):
                self._costs[number], self._devices[number] = cost, device

    def _computed(self, numbers: Integers) -> tuple[list[int], list[int]]:
        """The cost on each of these nodes, and there the index of the best device."""
        cpu = min(FRAGMENT_CORES_MAX, self._pod.shape.requests.get(CPU, 0))
        pods = PodRows(np.array([cpu]), np.array([self._gpus]), self._milli[numbers])
        nodes = self._scores.rows(numbers)
        costs = self._scores.costs(nodes, pods, numbers)
        if requests_share(self._pod.shape.requests):
            costs = np.where(nodes.devices >= pods.milli[:, None], costs, _NEVER)
        device = costs.argmin(axis=1)
        return costs[np.arange(len(numbers)), device].tolist(), device.tolist()


class _Scores:
    """The session's nodes as arrays, which follow its log of changes, and the forecast for them.

    `number` is the position of each node in the arrays.
    """

    def __init__(self, session: Session) -> None:
        found = typical(session)
        self.log = session.changed_nodes
        self.number = {node: number for number, node in enumerate(session.nodes)}
        self._session = session
        self._forecast = Forecast(found.pods, found.takes, found.gpus, kinds=found.kinds)
        self._kind = found.kind
        shared = [device_count(state.node.allocatable) for state in session.nodes.values()]
        self._cpu: Integers = np.zeros(len(self.number), dtype=np.int64)
        self._loose: Integers = np.zeros(len(self.number), dtype=np.int64)
        self._devices: Integers = np.zeros((len(self.number), max([1, *shared])), dtype=np.int64)
        self._followed = len(self.log)
        for node in self.number:
            self._read(node)

    def asked(self, pod: Pod) -> tuple[int, Integers]:
        """How many devices a pod asks for, and by [node] how many thousandths of each."""
        requests = pod.shape.requests
        if requests_share(requests):
            states = self._session.nodes.values()
            sizes = [min(WHOLE_DEVICE, share_on_node(requests, state.node.allocatable)) for state in states]
            return 1, np.array(sizes, dtype=np.int64)
        gpus = min(FRAGMENT_DEVICES_MAX, requests.get(GPU, 0))
        return gpus, np.full(len(self.number), WHOLE_DEVICE if gpus else 0, dtype=np.int64)

    def rows(self, numbers: Integers) -> NodeRows:
        """These nodes as they are now."""
        for node in dict.fromkeys(self.log[self._followed :]):
            self._read(node)
        self._followed = len(self.log)
        return NodeRows(self._kind[numbers], self._cpu[numbers], self._devices[numbers], self._loose[numbers])

    def costs(self, nodes: NodeRows, pods: PodRows, numbers: Integers) -> Integers:
        """By [node, device], for the nodes with these numbers."""
        found = self._forecast.costs(TrialPlacement(nodes, pods), self._forecast.prices[numbers])
        return np.broadcast_to(found, nodes.devices.shape)

    def _read(self, node: NodeName) -> None:
        state, free, number = self._session.nodes[node], self._session.free(node), self.number[node]
        self._cpu[number] = _between(free.get(CPU, 0), FRAGMENT_CORES_MAX)
        self._loose[number] = _loose(state, free)
        for index, left in enumerate(free_devices(state, free)):
            self._devices[number, index] = _between(left, WHOLE_DEVICE)


def _loose(state: NodeState, free: Resources) -> int:
    """Whole devices that nobody tells apart: those of nodes that do not share theirs."""
    if device_count(state.node.allocatable):
        return 0
    return _between(free.get(GPU, 0), min(state.node.allocatable.get(GPU, 0), FRAGMENT_DEVICES_MAX))


def _between(amount: int, most: int) -> int:
    return max(0, min(amount, most))
