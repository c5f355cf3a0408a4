"""The two simple schedulers beside ours: gangs in strict order, and pod by pod. Both know no tenants."""

from collections import deque

from bench.philly.play import Decided
from bench.philly.week import GPUS_PER_NODE, Cluster, Job


class Nodes:
    """How much is free on each node. A pod goes to the fullest node that takes it."""

    def __init__(self, count: int) -> None:
        self._by_free: list[list[int]] = [[] for _ in range(GPUS_PER_NODE + 1)]
        self._by_free[GPUS_PER_NODE] = list(range(count))
        self._free = [GPUS_PER_NODE] * count

    def take(self, gpus: int) -> int | None:
        """The node; None when there is none."""
        free = next((free for free in range(gpus, GPUS_PER_NODE + 1) if self._by_free[free]), None)
        if free is None:
            return None
        node = self._by_free[free][-1]
        self._move(node, -gpus)
        return node

    def give_back(self, node: int, gpus: int) -> None:
        """A pod has ended."""
        self._move(node, gpus)

    def _move(self, node: int, more: int) -> None:
        self._by_free[self._free[node]].remove(node)
        self._free[node] += more
        self._by_free[self._free[node]].append(node)


class _Simple:
    """Who is where, and nobody is ever evicted."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = Nodes(cluster.nodes)
        self._on: dict[int, list[int]] = {}

    def ended(self, job: Job) -> None:
        """Its pods are gone."""
        for node in self._on.pop(job.number):
            self._nodes.give_back(node, job.gpus)

    def gone(self, job: Job) -> None:
        """Never: nobody is evicted."""
        raise AssertionError(job.name)

    def _place(self, job: Job, pods: int) -> bool:
        """All of these pods or none."""
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
    """The oldest gang starts when it fits, whole; until then nobody does."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._line: deque[Job] = deque()

    def arrived(self, job: Job) -> None:
        """At the end of the line."""
        self._line.append(job)

    def decide(self, now: int) -> Decided:
        """As many as fit from the front."""
        placed = []
        while self._line and self._place(self._line[0], self._line[0].pods):
            job = self._line.popleft()
            placed.append((job, job.pods))
        return Decided(placed=tuple(placed))


class PodByPod(_Simple):
    """Each pod is placed once it fits, the oldest first, gang or not, as kube-scheduler does it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._lines: dict[int, deque[list[Job]]] = {gpus: deque() for gpus in range(1, GPUS_PER_NODE + 1)}
        """By the size of a pod: one entry for each job, as often in it as it has pods that wait."""

    def arrived(self, job: Job) -> None:
        """Its pods come after all others."""
        self._lines[job.gpus].append([job] * job.pods)

    def decide(self, now: int) -> Decided:
        """Capacity only shrinks on the way through the queue: a size that did not fit will not."""
        placed = []
        open_sizes = [gpus for gpus, line in self._lines.items() if line]
        while open_sizes:
            gpus = min(open_sizes, key=lambda size: self._lines[size][0][-1].number)
            line = self._lines[gpus]
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
