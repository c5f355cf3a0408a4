"""The order of equally good nodes, by the objective of the queue."""

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import Protocol

from phalanx.actions.demands.demand import Demand
from phalanx.actions.nodes.fragmentation_order import FragmentationOrders
from phalanx.actions.nodes.fullness import Fullness, Vector
from phalanx.framework.nodes.topology import Path
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Assignments, Pod
from phalanx.model.queues import Objective
from phalanx.model.snapshot import Topology
from phalanx.model.supplies.supply import NO_PARTS, Parts
from phalanx.solver.domains import DomainKey, domain_key


class NodeOrder(Protocol):
    """Keys of nodes; smaller goes first. All keys of one order have the same length."""

    def of(self, node: NodeName) -> Vector: ...


def objective_of(session: Session, demand: Demand) -> Objective:
    """The objective of the queue, or of its nearest ancestor that has one.

    Least fragmentation applies to single pods; several pods that are placed together are packed.
    """
    preferred = session.queues.inherited(demand.gang.queue, lambda queue: queue.objective) or Objective.PACK
    if preferred is Objective.LEAST_FRAGMENTATION and demand.count != 1:
        return Objective.PACK
    return preferred


class NodeOrders:
    """The node orders of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fullness = Fullness(session)
        self._fragments = FragmentationOrders(session, self._fullness)
        self._emptiest = {
            on_devices: _EmptiestFirst(self._fullness, on_devices) for on_devices in (True, False)
        }
        self._by_domain: dict[str, NodeOrder] = {}
        self._numbered: dict[str, Mapping[NodeName, Vector]] = {}

    def order(
        self, objective: Objective, topology: Topology | None, pods: Sequence[Pod], *, spread: int = 0
    ) -> NodeOrder:
        """The order for this objective and topology, given one pod of each shape.

        `spread` is the number of levels over which the pods are spread; see `PlacementProblem.spread`.
        """
        if objective is Objective.LEAST_FRAGMENTATION:
            return self._fragments.order(pods[0])
        if objective is Objective.SPREAD:
            emptiest = self._emptiest[_on_devices(pods)]
            return _Numbered(emptiest, self._domains(topology)) if topology and spread else emptiest
        if objective is Objective.LARGEST_HOLE and topology is not None and topology.levels:
            if topology.name not in self._by_domain:
                self._by_domain[topology.name] = _FullestDomainFirst(self._session, topology, self._fullness)
            return self._by_domain[topology.name]
        return self._fullness

    def _domains(self, topology: Topology) -> Mapping[NodeName, Vector]:
        """For each node, the numbers of its domains, one for each level."""
        if topology.name not in self._numbered:
            paths = self._session.topologies.paths(topology)
            self._numbered[topology.name] = _numbers(paths, len(topology.levels))
        return self._numbered[topology.name]

    def parts(self, demand: Demand, assignments: Assignments) -> Parts:
        """The parts of nodes for these pods; empty if the objective chooses none."""
        if objective_of(self._session, demand) is not Objective.LEAST_FRAGMENTATION:
            return NO_PARTS
        chosen = {
            pod.uid: self._fragments.order(pod).device(node) for node, pods in assignments for pod in pods
        }
        return {uid: device for uid, device in chosen.items() if device is not None}


def _on_devices(pods: Iterable[Pod]) -> bool:
    return any("/" in name for pod in pods for name, need in pod.shape.requests.items() if need > 0)


class _EmptiestFirst:
    """Emptiest nodes first; pods without devices avoid device nodes here too."""

    def __init__(self, fullness: Fullness, on_devices: bool) -> None:
        self._fullness = fullness
        self._on_devices = on_devices

    def of(self, node: NodeName) -> Vector:
        devices, *others = self._fullness.of(node)
        return (-devices if self._on_devices else devices, *(-amount for amount in others))


class _Numbered:
    """The key in another order, then the numbers of the node's domains; see `PlacementProblem.spread`."""

    def __init__(self, order: NodeOrder, numbers: Mapping[NodeName, Vector]) -> None:
        self._order = order
        self._numbers = numbers

    def of(self, node: NodeName) -> Vector:
        return (*self._order.of(node), *self._numbers[node])


def _numbers(paths: Mapping[NodeName, Path], levels: int) -> dict[NodeName, Vector]:
    """The numbers of domains; a node without the label of a level is a domain of that level by itself."""
    known: dict[DomainKey, int] = {}
    found: dict[NodeName, Vector] = {}
    for node, path in paths.items():
        domains = (domain_key(path, level, node) for level in range(levels))
        found[node] = tuple([known.setdefault(domain, len(known)) for domain in domains])
    return found


class _FullestDomainFirst:
    """The fullest domain of the widest level first, in it the fullest of the next level, down to the node.

    So the emptiest domain of each level is used last. The fullness of domains is computed once, so that the
    domain that is being filled is filled further.
    """

    def __init__(self, session: Session, topology: Topology, fullness: Fullness) -> None:
        self._fullness = fullness
        self._paths = session.topologies.paths(topology)
        self._levels = len(topology.levels)
        self._keys = _keys_by_domain(session, self._paths, fullness)

    def of(self, node: NodeName) -> Vector:
        """The numbers of domains; a node without the label of a level is a domain of that level by itself."""
        own, path = self._fullness.of(node), self._paths.get(node, ())
        domains = [
            self._keys[path[: depth + 1]] if depth < len(path) else (*own, 0) for depth in range(self._levels)
        ]
        return tuple([amount for key in (*domains, own) for amount in key])


def _keys_by_domain(
    session: Session, paths: Mapping[NodeName, Path], fullness: Fullness
) -> dict[Path, Vector]:
    """The free amounts of each domain and its number, so that equally full domains do not mix."""
    free: dict[Path, Vector] = {}
    for node in session.nodes:
        path, own = paths.get(node, ()), fullness.of(node)
        for depth in range(len(path)):
            domain = path[: depth + 1]
            free[domain] = tuple(map(add, free[domain], own)) if domain in free else own
    return {path: (*free[path], number) for number, path in enumerate(sorted(free), start=1)}
