"""The term `fragments` as docs/fragmentation.md defines it.

Nothing of `phalanx` is imported here: these definitions check those of the product.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isqrt

from msgspec import Struct

from tests.certificates.cluster import CPU, GPU, Kind, Node, Pod, Situation, may_use, needs


class Shape(Struct, frozen=True):
    """Typical pods of one shape."""

    kind: Kind
    count: int

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return 1 if self.kind.share else dict(self.kind.requests).get(GPU, 0)

    @property
    def milli(self) -> int:
        """Thousandths of each GPU."""
        return self.kind.share or (1000 if self.gpus else 0)

    @property
    def cores(self) -> int:
        """Thousandths of cores."""
        return dict(self.kind.requests).get(CPU, 0)

    @property
    def demand(self) -> int:
        """Thousandths of GPUs of all of them."""
        return self.count * self.gpus * self.milli


class State(Struct, frozen=True):
    """What is free on a node."""

    cores: int
    gpus: tuple[int, ...]
    """Idle thousandths of each GPU."""

    @property
    def idle(self) -> int:
        """Idle thousandths of all GPUs."""
        return sum(self.gpus)


def fragments(before: Situation, pod: Pod, name: str) -> int:
    """The cost of a single pod on a node: that of its best GPU."""
    forecast = _Forecast(before)
    node = next(node for node in before.case.nodes if node.name == name)
    state = _state(before, node)
    return min(forecast.cost(node, state, after) for after in _afters(state, pod.kind))


def _state(before: Situation, node: Node) -> State:
    free = before.free(node)
    gpus = tuple(before.free_devices(node)) if node.shared_gpus else (1000,) * max(0, free.get(GPU, 0))
    return State(max(0, free.get(CPU, 0)), gpus)


def _afters(state: State, kind: Kind) -> Iterator[State]:
    shape = Shape(kind, 1)
    cores = state.cores - shape.cores
    if kind.share:
        for index, left in enumerate(state.gpus):
            if left >= kind.share:
                yield State(cores, (*state.gpus[:index], left - kind.share, *state.gpus[index + 1 :]))
        return
    idle = [left for left in state.gpus if left == 1000]
    others = [left for left in state.gpus if left < 1000]
    yield State(cores, (*others, *idle[shape.gpus :], *(0,) * shape.gpus))


class _Forecast:
    def __init__(self, before: Situation) -> None:
        case = before.case
        self._nodes = case.nodes
        kinds: dict[Kind, int] = {}
        ours = [pod for pod in case.pods if (pod.gang or not pod.node) and not pod.finished]
        for pod in ours:
            shape = _without_place(pod.kind)
            kinds[shape] = kinds.get(shape, 0) + 1
        found = [Shape(kind, count) for kind, count in kinds.items()]
        self._shapes = [shape for shape in found if any(_takes(shape, node) for node in self._nodes)]
        self._n = sum(shape.count for shape in self._shapes)
        self._demand = sum(shape.demand for shape in self._shapes)
        self._cores = sum(shape.count * shape.cores for shape in self._shapes if shape.gpus)
        self._gpus = sum(_gpus_of(node) for node in self._nodes)

    def cost(self, node: Node, before: State, after: State) -> int:
        """The cost of a place."""
        taken = before.idle - after.idle
        parts = [
            1000 * (self._unusable(node, after) - self._unusable(node, before)),
            4000 * self._n * (self._starved(after) - self._starved(before)),
            self._n * (self._rests(after) - self._rests(before)),
            2 * self._n * taken * self._price(node),
            self._n * (self._holes(node, before) - self._holes(node, after)),
        ]
        return sum(parts)

    def _unusable(self, node: Node, state: State) -> int:
        total = 0
        for shape in self._shapes:
            able = _may_run(shape, node) and shape.gpus > 0 and state.cores >= shape.cores
            able = able and sum(left >= shape.milli for left in state.gpus) >= shape.gpus
            useless = sum(left for left in state.gpus if left < shape.milli) if able else state.idle
            total += shape.count * useless
        return total

    def _starved(self, state: State) -> int:
        if not self._cores:
            return 0
        return max(0, state.idle - state.cores * 100 * self._demand // (105 * self._cores))

    def _rests(self, state: State) -> int:
        counts: dict[int, int] = {}
        for shape in self._shapes:
            if shape.gpus == 1:
                counts[shape.milli] = counts.get(shape.milli, 0) + shape.count
        sizes = tuple(sorted(counts.items()))
        return sum(_rest(left, sizes, self._n) for left in state.gpus)

    def _price(self, node: Node) -> int:
        total = 0
        for shape in self._shapes:
            if _takes(shape, node):
                reach = sum(_gpus_of(other) for other in self._nodes if _takes(shape, other))
                if reach:
                    part = shape.demand * self._gpus * 1000 * 1000 // (max(1, self._demand) * reach)
                    total += part
        return (total + 500) // 1000

    def _holes(self, node: Node, state: State) -> int:
        whole = sum(left == 1000 for left in state.gpus)
        return sum(
            self._value(shape)
            for shape in self._shapes
            if shape.gpus > 1 and _may_run(shape, node) and state.cores >= shape.cores and whole >= shape.gpus
        )

    def _value(self, shape: Shape) -> int:
        nodes = sum(_takes(shape, node) for node in self._nodes)
        expected = 100 * shape.count * 1000 * self._gpus // self._demand
        needed = min(100 * nodes, expected + 2 * isqrt(100 * expected))
        return shape.gpus * shape.milli * 1000 * 25 * needed // (100 * 100 * nodes)


@lru_cache(maxsize=100_000)
def _rest(left: int, sizes: Sequence[tuple[int, int]], pods: int) -> int:
    if left <= 0:
        return 0
    fitting = [(size, count) for size, count in sizes if size <= left]
    inner = sum(count * _rest(left - size, sizes, pods) for size, count in fitting)
    stop = 2 * max(1, pods)
    return (stop * left * 1000 + 100 * inner) // (stop + 100 * sum(count for _, count in fitting))


def _without_place(kind: Kind) -> Kind:
    return Kind(kind.requests, kind.share, kind.selector, kind.preferred, kind.tolerated, kind.apart)


def _gpus_of(node: Node) -> int:
    return node.shared_gpus or node.allocatable.get(GPU, 0)


def _may_run(shape: Shape, node: Node) -> bool:
    asks_whole = GPU in dict(shape.kind.requests)
    shares = bool(node.shared_gpus) and GPU not in node.allocatable
    return (
        may_use(shape.kind, node)
        and (not asks_whole or GPU in node.allocatable)
        and (not shape.kind.share or shares)
    )


def _takes(shape: Shape, node: Node) -> bool:
    amounts = needs(shape.kind)
    large = all(node.allocatable.get(name, 0) >= amount for name, amount in amounts.items())
    return _may_run(shape, node) and large and shape.kind.share <= 1000 * node.shared_gpus
