"""The order of nodes for single pods that leaves the least fragmentation of GPUs.

Fragmentation gradient descent (Weng et al., "Beware of Fragmentation", ATC 2023): a pod goes where it adds
least to the expected free capacity that typical pods cannot use. The scoring is in `solver/fragmentation.py`;
this module makes its arrays from the nodes and pods of the session.

Typical pods are those of the most frequent shapes among all waiting, bound and running pods of all queues, if
an empty node fits them. Pod affinity is ignored: where it allows pods to come depends on other pods. Nodes
that are eligible for the same typical pods are of one kind. Costs are cached by pod shape and node, and
computed again for changed nodes only.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.nodes.fullness import Fullness, Vector
from phalanx.framework.session import Session
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Device, Pod, without_affinity_state
from phalanx.model.resources import CPU, GPU, Resources
from phalanx.model.supplies.gpu_shares.devices import (
    GPU_MEMORY,
    GPU_SHARE,
    WHOLE_DEVICE,
    device_count,
    free_devices,
    requests_share,
    share_on_node,
)
from phalanx.solver.fragmentation import (
    Flags,
    Forecast,
    Integers,
    NodeRows,
    PodRows,
    TrialPlacement,
    TypicalPods,
)

NODE_KINDS_MAX: Final = 32
"""Node kinds that a set of pods distinguishes. Each has tables of its own: at most 2 MB, usually 20 kB."""

TYPICAL_SHAPES_MAX: Final = 512
"""Most frequent pod shapes by which fragmentation is measured: a large GPU cluster has 151, or 447 if a third
of its pods request certain models."""

TYPICAL_REQUIREMENTS_MAX: Final = 32
"""Different selectors, tolerations and the like among these pods. Each is matched with every node, which
takes 10 ms on 10,000 nodes."""

TYPICAL_WEIGHT_MAX: Final = 1 << 16
"""Pods that count as typical in total; of more, the share of each shape counts. Costs stay within 64 bits."""

FRAGMENT_CORES_MAX: Final = 1 << 24
"""Thousandths of cores of a node or a pod that matter to fragmentation: 16,777 cores."""

FRAGMENT_DEVICES_MAX: Final = 256
"""Devices of a node that matter to fragmentation. No server has that many."""


class Typical(Struct, frozen=True):
    """The typical pods of a session. Arrays by [node] are in the order of the session's nodes."""

    pods: tuple[TypicalPods, ...]

    takes: Flags
    """By [typical pods, node]: whether the pods fit the empty node."""

    gpus: Integers
    """By [node]: the number of GPUs."""

    kind: Integers
    """By [node]: the number of its kind, below `kinds`."""

    kinds: int


class _Group(Struct):
    """The number of pods of one shape, and one of them."""

    pod: Pod
    count: int


def typical(session: Session) -> Typical:
    """The typical pods of this session; empty if there are no pods."""
    groups = _most_frequent(session)
    eligible, kind = _eligible(session, groups)
    kinds = {requirements: tuple(np.unique(kind[flags]).tolist()) for requirements, flags in eligible.items()}
    columns = _Columns(session)
    pods: list[TypicalPods] = []
    takes: list[Flags] = []
    scale = max(TYPICAL_WEIGHT_MAX, sum(group.count for group in groups))
    for group in groups:
        requirements = _requirements(group.pod)
        if requirements not in eligible:
            continue
        fitting = eligible[requirements] & columns.enough_for(group.pod)
        if fitting.any():
            takes.append(fitting)
            pods.append(_typical_pods(session, group, fitting, kinds[requirements], scale))
    return Typical(
        pods=tuple(pods),
        takes=np.array(takes, dtype=np.bool_).reshape(len(takes), len(kind)),
        gpus=np.array([_devices(session, node) for node in session.nodes], dtype=np.int64),
        kind=kind,
        kinds=int(kind.max(initial=0)) + 1,
    )


def _most_frequent(session: Session) -> list[_Group]:
    groups: dict[ShapeKey, _Group] = {}
    for gang in session.gangs.values():
        alike = 1 + session.behind.get(gang.id, 0)
        for pod in gang.members:
            if pod.is_finished or pod.deleting:
                continue
            shape = without_affinity_state(pod.shape)
            group = groups.get(shape.key)
            if group is None:
                groups[shape.key] = _Group(replace(pod, shape=shape), alike)
            else:
                group.count += alike
    ordered = sorted(groups.items(), key=lambda item: (-item[1].count, item[0]))
    return [group for _, group in ordered[:TYPICAL_SHAPES_MAX]]


def _requirements(pod: Pod) -> Hashable:
    """All fields that decide on eligibility, sizes aside; equal ones are evaluated once."""
    shape = pod.shape
    asked = (GPU in shape.requests, GPU_SHARE in shape.requests, shape.requests.get(GPU_MEMORY))
    return (
        shape.node_selector,
        shape.required_affinity,
        shape.tolerations,
        shape.volumes,
        shape.device_slot,
        asked,
    )


def _eligible(session: Session, groups: Sequence[_Group]) -> tuple[dict[Hashable, Flags], Integers]:
    """Eligibility by [node] for the requirements of most pods, and the resulting kinds of nodes.

    Requirements that would make too many kinds are left out with their pods.
    """
    count: dict[Hashable, int] = {}
    first: dict[Hashable, Pod] = {}
    for group in groups:
        requirements = _requirements(group.pod)
        first.setdefault(requirements, group.pod)
        count[requirements] = count.get(requirements, 0) + group.count
    number = {node: index for index, node in enumerate(session.nodes)}
    kind: Integers = np.zeros(len(number), dtype=np.int64)
    eligible: dict[Hashable, Flags] = {}
    for requirements in sorted(count, key=lambda requirements: -count[requirements])[
        :TYPICAL_REQUIREMENTS_MAX
    ]:
        flags = _flags(session, first[requirements], number)
        found, finer = np.unique(2 * kind + flags, return_inverse=True)
        if len(found) <= NODE_KINDS_MAX:
            eligible[requirements], kind = flags, finer.astype(np.int64)
    return eligible, kind


def _flags(session: Session, pod: Pod, number: dict[NodeName, int]) -> Flags:
    rejected = [number[node] for node in session.eligibility(pod).rejected if node in number]
    flags: Flags = np.ones(len(number), dtype=np.bool_)
    flags[rejected] = False
    if GPU in pod.shape.requests:
        flags &= [GPU in state.node.allocatable for state in session.nodes.values()]
    return flags


class _Columns:
    """Allocatable amounts by [node] for each resource, as arrays that are made on first use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._columns: dict[str, Integers] = {}

    def enough_for(self, pod: Pod) -> Flags:
        """By [node]: whether the pod fits the empty node."""
        enough: Flags = np.ones(len(self._session.nodes), dtype=np.bool_)
        for name, need in pod.shape.requests.items():
            enough &= self._of(name) >= need
        return enough

    def _of(self, name: str) -> Integers:
        if name not in self._columns:
            amounts = [state.node.allocatable.get(name, 0) for state in self._session.nodes.values()]
            self._columns[name] = np.array(amounts, dtype=np.int64)
        return self._columns[name]


def _typical_pods(
    session: Session, group: _Group, fitting: Flags, kinds: tuple[int, ...], scale: int
) -> TypicalPods:
    """A share in bytes counts as its largest part of a device on an eligible node."""
    requests = group.pod.shape.requests
    gpus, milli = min(FRAGMENT_DEVICES_MAX, requests.get(GPU, 0)), WHOLE_DEVICE
    if requests_share(requests):
        nodes = [
            node for node, eligible in zip(session.nodes.values(), fitting.tolist(), strict=True) if eligible
        ]
        gpus, milli = 1, max(share_on_node(requests, state.node.allocatable) for state in nodes)
    return TypicalPods(
        cpu=min(FRAGMENT_CORES_MAX, requests.get(CPU, 0)),
        gpus=gpus,
        milli=milli if gpus else 0,
        kinds=kinds,
        count=max(1, group.count * TYPICAL_WEIGHT_MAX // scale),
    )


def _devices(session: Session, node: NodeName) -> int:
    allocatable = session.nodes[node].node.allocatable
    return device_count(allocatable) or min(FRAGMENT_DEVICES_MAX, allocatable.get(GPU, 0))


_NEVER = np.iinfo(np.int64).max


class FragmentationOrders:
    """The orders of one session, all by the typical pods at the time of the first use."""

    def __init__(self, session: Session, fullness: Fullness) -> None:
        self._session = session
        self._fullness = fullness
        self._orders: dict[ShapeKey, LeastFragmentation] = {}

    def order(self, pod: Pod) -> "LeastFragmentation":
        """The order for pods of this shape."""
        if pod.shape.key not in self._orders:
            self._orders[pod.shape.key] = LeastFragmentation(self._scores, self._fullness, pod)
        return self._orders[pod.shape.key]

    @cached_property
    def _scores(self) -> "_Scores":
        return _Scores(self._session)


class LeastFragmentation:
    """Nodes by the fragmentation that a pod adds; among equals the fullest first, as with Pack."""

    def __init__(self, scores: "_Scores", fullness: Fullness, pod: Pod) -> None:
        self._scores = scores
        self._fullness = fullness
        self._pod = pod
        self._gpus, self._milli = scores.asked(pod)
        self._costs: list[int] = []
        self._devices: list[int] = []
        self._followed = 0

    def of(self, node: NodeName) -> Vector:
        """The key of the node; meaningful only if the pod fits it."""
        self._follow()
        return (self._costs[self._scores.number[node]], *self._fullness.of(node))

    def device(self, node: NodeName) -> Device | None:
        """The device for a GPU share on this node; None for a pod without share."""
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
        """The cost on each of these nodes, and the index of its best device."""
        cpu = min(FRAGMENT_CORES_MAX, self._pod.shape.requests.get(CPU, 0))
        pods = PodRows(np.array([cpu]), np.array([self._gpus]), self._milli[numbers])
        nodes = self._scores.rows(numbers)
        costs = self._scores.costs(nodes, pods, numbers)
        if requests_share(self._pod.shape.requests):
            costs = np.where(nodes.devices >= pods.milli[:, None], costs, _NEVER)
        device = costs.argmin(axis=1)
        return costs[np.arange(len(numbers)), device].tolist(), device.tolist()


class _Scores:
    """The nodes of the session as arrays that follow its log of changes, and their forecast.

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
        """The number of devices that a pod requests, and by [node] the thousandths of each."""
        requests = pod.shape.requests
        if requests_share(requests):
            states = self._session.nodes.values()
            sizes = [min(WHOLE_DEVICE, share_on_node(requests, state.node.allocatable)) for state in states]
            return 1, np.array(sizes, dtype=np.int64)
        gpus = min(FRAGMENT_DEVICES_MAX, requests.get(GPU, 0))
        return gpus, np.full(len(self.number), WHOLE_DEVICE if gpus else 0, dtype=np.int64)

    def rows(self, numbers: Integers) -> NodeRows:
        """The rows of these nodes now."""
        for node in dict.fromkeys(self.log[self._followed :]):
            self._read(node)
        self._followed = len(self.log)
        return NodeRows(self._kind[numbers], self._cpu[numbers], self._devices[numbers], self._loose[numbers])

    def costs(self, nodes: NodeRows, pods: PodRows, numbers: Integers) -> Integers:
        """The costs by [node, device] for the nodes with these numbers."""
        found = self._forecast.costs(TrialPlacement(nodes, pods), self._forecast.prices[numbers])
        return np.broadcast_to(found, nodes.devices.shape)

    def _read(self, node: NodeName) -> None:
        state, free, number = self._session.nodes[node], self._session.free(node), self.number[node]
        self._cpu[number] = _between(free.get(CPU, 0), FRAGMENT_CORES_MAX)
        self._loose[number] = _loose(state, free)
        for index, left in enumerate(free_devices(state, free)):
            self._devices[number, index] = _between(left, WHOLE_DEVICE)


def _loose(state: NodeState, free: Resources) -> int:
    """Free whole devices of a node that does not share its devices."""
    if device_count(state.node.allocatable):
        return 0
    return _between(free.get(GPU, 0), min(state.node.allocatable.get(GPU, 0), FRAGMENT_DEVICES_MAX))


def _between(amount: int, most: int) -> int:
    return max(0, min(amount, most))
