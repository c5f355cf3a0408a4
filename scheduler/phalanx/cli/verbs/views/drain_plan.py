"""An order in which nodes can be emptied with few restarts of gangs.

One node after the other is drained, while all nodes that are still to be drained take no new pods. A gang
that stops because of it starts again elsewhere, whole: on nodes that are not in the plan, or were drained and
are back. So each gang on the nodes stops at least once. It stops again only if there was no capacity for it
elsewhere. The next node is the one whose gangs find capacity, that stops the fewest gangs, and that loses the
least run time; empty nodes come first, and give their capacity to the gangs of the others.

Capacity elsewhere is counted by the requests of pods, without selectors, topology and queues: the plan is an
order, not a promise. `phalanx what-if --drain` decides one step exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.nodes import FaultOf, NodeRow, nodes_view
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources, fits, subtract

_PLAN_CANDIDATES: Final = 16
"""Nodes of which `drain-plan` checks whether their gangs have capacity elsewhere. One is usually enough."""


GangKey = tuple[str, str]
"""Namespace and name."""


class DrainStep(Struct, frozen=True, rename="camel"):
    """The next node."""

    node: str
    stops: tuple[str, ...] = ()
    """Gangs that stop and start again elsewhere."""
    loses_pods: tuple[str, ...] = ()
    """Gangs that go on without the pods of this node until they are created again."""
    no_capacity: tuple[str, ...] = ()
    """Gangs that stop and find no capacity elsewhere: they wait, or stop again on a later node."""
    no_controller: tuple[str, ...] = ()
    """Pods that nobody creates again."""
    protected: tuple[str, ...] = ()
    """Pods that a PodDisruptionBudget allows no eviction of now."""
    lost_device_seconds: int = 0


class DrainPlan(Struct, frozen=True, rename="camel"):
    """The order."""

    steps: tuple[DrainStep, ...]
    stops: int
    """Stops of gangs in all."""
    stops_at_least: int
    """Gangs of which any order stops each once."""
    returns: bool
    """Whether a drained node is back before the next one is drained."""


class _Load(Struct):
    """What is on a node of the plan."""

    row: NodeRow
    gangs: dict[GangKey, Gang]
    stopping: int = 0
    """Gangs that stop if the node is drained now."""


class _Search:
    """The state between two steps."""

    def __init__(
        self, seen: Seen, rows: Mapping[str, NodeRow], chosen: Sequence[str], *, returns: bool
    ) -> None:
        self._seen = seen
        self._returns = returns
        self._left = dict.fromkeys(chosen)
        self._elsewhere: dict[str, Resources] = {
            name: seen.cluster.nodes[NodeName(name)].free if seen.knows_all_pods else {}
            for name, row in rows.items()
            if name not in self._left and row.takes_pods
        }
        self._moved: set[GangKey] = set()
        self._loads = {name: _Load(rows[name], {}) for name in chosen}
        for gang in seen.cluster.gangs.values():
            for node in {pod.node for pod in gang.bound if pod.node in self._loads}:
                self._loads[str(node)].gangs[_key(gang)] = gang
        for name in chosen:
            self._count(name)

    def steps(self) -> Iterable[DrainStep]:
        """The nodes in their order."""
        while self._left:
            best = nsmallest(_PLAN_CANDIDATES, self._left, key=self._rank)
            name = next((each for each in best if self._has_capacity(each)), best[0])
            del self._left[name]
            yield self._drain(name)

    def _rank(self, name: str) -> tuple[int, int, str]:
        """Gangs that stop, run time lost, name."""
        load = self._loads[name]
        return (load.stopping, load.row.lost_device_seconds, name)

    def _has_capacity(self, name: str) -> bool:
        """Whether each gang that stops fits elsewhere, one at a time."""
        stopping = (gang for gang in self._loads[name].gangs.values() if self._stops(gang, name))
        return all(self._placed(gang) is not None for gang in stopping)

    def _count(self, name: str) -> None:
        load = self._loads[name]
        load.stopping = sum(self._stops(gang, name) for gang in load.gangs.values())

    def _stops(self, gang: Gang, node: str) -> bool:
        """Whether the gang stops; one that moved away before is not there any more."""
        if _key(gang) in self._moved:
            return False
        return not gang.minimum.is_reached([pod for pod in gang.bound if pod.node != node])

    def _placed(self, gang: Gang) -> dict[str, Resources] | None:
        """The free capacity elsewhere after the gang has moved there; None if it does not fit."""
        free = dict(self._elsewhere)
        pods = sorted(gang.bound, key=lambda pod: -sum(pod.shape.requests.values()))
        return free if all(_place(pod, free) for pod in pods) else None

    def _drain(self, name: str) -> DrainStep:
        load = self._loads[name]
        stops: list[str] = []
        loses: list[str] = []
        stuck: list[str] = []
        lost = 0
        for key, gang in sorted(load.gangs.items()):
            if key in self._moved:
                continue
            losses = next(each for each in load.row.gangs if (each.namespace, each.name) == key)
            lost += losses.lost_device_seconds
            if not self._stops(gang, name):
                loses.append(str(gang))
                continue
            stops.append(str(gang))
            after = self._placed(gang)
            if after is None:
                stuck.append(str(gang))
            else:
                self._elsewhere = after
                self._moved.add(key)
                for node in {str(pod.node) for pod in gang.bound} & self._left.keys():
                    self._count(node)
        if self._returns and load.row.takes_pods:
            self._elsewhere[name] = load.row.allocatable
        pods = [pod for gang in load.gangs.values() for pod in gang.bound if pod.node == name]
        return DrainStep(
            node=name,
            stops=tuple(stops),
            loses_pods=tuple(loses),
            no_capacity=tuple(stuck),
            no_controller=tuple(sorted(_name(pod) for pod in pods if pod.controller is None)),
            protected=tuple(sorted(_name(pod) for pod in pods if self._is_protected(pod))),
            lost_device_seconds=lost,
        )

    def _is_protected(self, pod: Pod) -> bool:
        labels = dict((*pod.labels.pairs, *pod.per_pod_labels.pairs))
        return any(
            budget.allowed == 0 and budget.namespace == pod.namespace and budget.protects(labels)
            for budget in self._seen.cluster.disruption_budgets
        )


def drain_plan(seen: Seen, fault_of: FaultOf, nodes: Sequence[str], *, returns: bool) -> DrainPlan:
    """The order for these nodes. `returns`: a drained node is back before the next one is drained."""
    rows = {row.name: row for row in nodes_view(seen, fault_of, resource=None).nodes}
    steps = tuple(_Search(seen, rows, nodes, returns=returns).steps())
    chosen = {NodeName(name) for name in nodes}
    at_least = sum(1 for gang in seen.cluster.gangs.values() if _must_stop(gang, chosen))
    return DrainPlan(steps, sum(len(step.stops) for step in steps), at_least, returns)


def _must_stop(gang: Gang, chosen: set[NodeName]) -> bool:
    """Whether some node of the plan alone stops the gang, whatever the order."""
    nodes = {pod.node for pod in gang.bound} & chosen
    return any(not gang.minimum.is_reached([pod for pod in gang.bound if pod.node != node]) for node in nodes)


def _place(pod: Pod, free: dict[str, Resources]) -> bool:
    """Take the capacity for a pod on the first node where it fits; False if there is none."""
    for name, amounts in free.items():
        if fits(pod.shape.requests, amounts):
            free[name] = subtract(amounts, pod.shape.requests)
            return True
    return False


def _key(gang: Gang) -> GangKey:
    return (gang.namespace, gang.name)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
