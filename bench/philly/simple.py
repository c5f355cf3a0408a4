"""Two simple schedulers for comparison: gangs in strict FIFO order, and pod by pod. Both ignore tenants."""

from collections import deque

from phalanx_simulator.lab.engine.jobs import Job
from phalanx_simulator.lab.engine.play import Decided

from bench.philly.week import GPUS_PER_NODE, Cluster


class Nodes:
    """The free GPUs of each node. A pod is placed on the fullest node on which it fits."""

    def __init__(self, count: int) -> None:
        self._by_free: list[list[int]] = [[] for _ in range(GPUS_PER_NODE + 1)]
        self._by_free[GPUS_PER_NODE] = list(range(count))
        self._free = [GPUS_PER_NODE] * count

    def take(self, gpus: int) -> int | None:
        """Place a pod and return its node; None when it fits on no node."""
        free = next((free for free in range(gpus, GPUS_PER_NODE + 1) if self._by_free[free]), None)
        if free is None:
            return None
        node = self._by_free[free][-1]
        self._move(node, -gpus)
        return node

    def give_back(self, node: int, gpus: int) -> None:
        """Release the GPUs of a pod."""
        self._move(node, gpus)

    def _move(self, node: int, more: int) -> None:
        self._by_free[self._free[node]].remove(node)
        self._free[node] += more
        self._by_free[self._free[node]].append(node)


class _Simple:
    """The nodes of running jobs; a simple scheduler evicts nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = Nodes(cluster.nodes)
        self._on: dict[int, list[int]] = {}

    def ended(self, job: Job) -> None:
        """Release the nodes of a finished job."""
        for node in self._on.pop(job.number):
            self._nodes.give_back(node, job.gpus)

    def gone(self, job: Job) -> None:
        """Not called, since nothing is evicted."""
        raise AssertionError(job.name)

    def _place(self, job: Job, pods: int) -> bool:
        """Place all of these pods or none."""
        taken: list[int] = []
        while len(taken) < pods:
            node = self._nodes.take(job.gpus)
            if node is None:
                for each in taken:
                    self._nodes.give_back(each, job.gpus)
                return False
            taken.append(node)
        self._on.setdefault(job.number, []).extend(taken)
        return True


class StrictFifo(_Simple):
    """The oldest gang starts when all its pods fit; no other gang starts before it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._queue: deque[Job] = deque()

    def arrived(self, job: Job) -> None:
        """Append the job to the queue."""
        self._queue.append(job)

    def decide(self, now: int) -> Decided:
        """Start gangs from the head of the queue while they fit."""
        placed = []
        while self._queue and self._place(self._queue[0], self._queue[0].pods):
            job = self._queue.popleft()
            placed.append((job, job.pods))
        return Decided(placed=tuple(placed))


class PodByPod(_Simple):
    """Pods are placed as soon as they fit, the oldest first, without gangs, like kube-scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._queues: dict[int, deque[list[Job]]] = {gpus: deque() for gpus in range(1, GPUS_PER_NODE + 1)}
        """By pod size: a list for each job, which contains the job once for each waiting pod."""

    def arrived(self, job: Job) -> None:
        """Append the pods of the job."""
        self._queues[job.gpus].append([job] * job.pods)

    def decide(self, now: int) -> Decided:
        """Place pods by age. Free capacity only shrinks meanwhile, so a size that did not fit is skipped."""
        placed = []
        open_sizes = [gpus for gpus, line in self._queues.items() if line]
        while open_sizes:
            gpus = min(open_sizes, key=lambda size: self._queues[size][0][-1].number)
            line = self._queues[gpus]
            job = line[0][-1]
            if not self._place(job, 1):
                open_sizes.remove(gpus)
                continue
            placed.append((job, 1))
            line[0].pop()
            if not line[0]:
                line.popleft()
            if not line:
                open_sizes.remove(gpus)
        return Decided(placed=tuple(placed))
