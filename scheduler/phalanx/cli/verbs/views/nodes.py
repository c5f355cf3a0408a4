"""Nodes: state, faults, why they are avoided, who is there, and what would be lost by draining them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from phalanx.cli.verbs.formatting import is_device, main_resource
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.gangs import is_alive, kind_of_gang
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.nodes import CORDON_TAINT, HARD_EFFECTS, Node, NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

FaultOf = Callable[[Node], str | None]
"""The fault of a node as the scheduler finds it; None for a healthy one."""


class NodeCondition(StrEnum):
    """Whether a node takes pods."""

    READY = "Ready"
    CORDONED = "Cordoned"
    FAULTY = "Faulty"
    NOT_READY = "NotReady"


class GangOnNode(Struct, frozen=True, rename="camel"):
    """A gang with pods on a node, and what it would lose if they are evicted."""

    namespace: str
    name: str
    kind: str
    pods: int
    """Its pods on the node."""
    stops: bool
    """Whether the gang falls below its minimum without them, so that all of it stops."""
    lost_seconds: int
    """Run time that is lost, since the start or the last checkpoint, of one pod."""
    lost_device_seconds: int
    """The same times the devices of all pods that stop."""


class NodeRow(Struct, frozen=True, rename="camel"):
    name: str
    condition: NodeCondition
    faults: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    """Why new pods stay away."""
    takes_pods: bool = True
    """Whether pods without special tolerations may be placed there."""
    allocatable: Resources = {}
    used: Resources | None = None
    """None if the user may not read all pods."""
    free: Resources | None = None
    gangs: tuple[GangOnNode, ...] = ()
    """Gangs of this scheduler that the user may see."""

    @property
    def lost_device_seconds(self) -> int:
        """What draining the node would cost."""
        return sum(gang.lost_device_seconds for gang in self.gangs)


class NodesView(Struct, frozen=True, rename="camel"):
    resource: str
    nodes: tuple[NodeRow, ...]


def nodes_view(seen: Seen, fault_of: FaultOf, *, resource: str | None, only: Sequence[str] = ()) -> NodesView:
    """All nodes, or some by name: faulty ones first."""
    states = seen.cluster.nodes
    present = gangs_by_node(seen)
    rows = [
        _row(name, state, present.get(name, ()), seen, fault_of)
        for name, state in states.items()
        if not only or name in only
    ]
    order = {condition: -place for place, condition in enumerate(NodeCondition)}
    rows.sort(key=lambda row: (order[row.condition], row.name))
    return NodesView(resource or main_resource(row.allocatable for row in rows), tuple(rows))


def gangs_by_node(seen: Seen) -> Mapping[NodeName, list[Gang]]:
    found: dict[NodeName, list[Gang]] = {}
    for gang in seen.cluster.gangs.values():
        for node in sorted({pod.node for pod in gang.members if pod.node is not None and is_alive(pod)}):
            found.setdefault(node, []).append(gang)
    return found


def _row(name: NodeName, state: NodeState, gangs: Sequence[Gang], seen: Seen, fault_of: FaultOf) -> NodeRow:
    node, knows = state.node, seen.knows_all_pods
    faults = tuple(_faults(node, fault_of))
    return NodeRow(
        name=name,
        condition=_condition(node, faults),
        faults=faults,
        avoided=tuple(_avoided(node)),
        takes_pods=_condition(node, faults) is NodeCondition.READY and not node.has_state_taint,
        allocatable=node.allocatable,
        used=_published(state.used) if knows else None,
        free=_published(state.free) if knows else None,
        gangs=tuple(on_node(gang, name, seen.now_ms // 1000) for gang in gangs),
    )


def _published(amounts: Resources) -> Resources:
    """Without what the scheduler counts beside resources, such as NUMA zones and host ports.

    Their names have a bracket, which no name of Kubernetes has.
    """
    return {name: number for name, number in amounts.items() if "[" not in name}


def _condition(node: Node, faults: Sequence[str]) -> NodeCondition:
    if not node.is_ready:
        return NodeCondition.NOT_READY
    if faults:
        return NodeCondition.FAULTY
    return NodeCondition.CORDONED if node.unschedulable else NodeCondition.READY


def _faults(node: Node, fault_of: FaultOf) -> Iterator[str]:
    fault = fault_of(node)
    if fault:
        yield fault
    yield from (problem.message for problem in node.problems)


def _avoided(node: Node) -> Iterator[str]:
    if node.unschedulable:
        yield "cordoned"
    for taint in node.taints:
        if taint.effect in HARD_EFFECTS and taint.key != CORDON_TAINT:
            value = f"={taint.value}" if taint.value else ""
            yield f"taint {taint.key}{value}:{taint.effect}"
    if node.has_unknown_topology:
        yield "its network position is unknown"


def on_node(gang: Gang, node: NodeName, now: int) -> GangOnNode:
    """What the gang has on a node, and what it would lose there. `now` is in seconds."""
    holders = [pod for pod in gang.members if pod.node is not None and is_alive(pod)]
    here = [pod for pod in holders if pod.node == node]
    stops = not gang.minimum.is_reached([pod for pod in gang.bound if pod.node != node])
    stopping = holders if stops else here
    lost = [_lost_seconds(pod, gang, now) for pod in stopping]
    return GangOnNode(
        namespace=gang.namespace,
        name=gang.name,
        kind=kind_of_gang(gang),
        pods=len(here),
        stops=stops,
        lost_seconds=max(lost, default=0),
        lost_device_seconds=sum(seconds * devices(pod) for seconds, pod in zip(lost, stopping, strict=True)),
    )


def _lost_seconds(pod: Pod, gang: Gang, now: int) -> int:
    since = max(pod.running_since or pod.bound_since, gang.checkpointed, pod.checkpointed)
    return max(0, now - since) if since else 0


def devices(pod: Pod) -> int:
    """The devices that the pod requests; 1 for a pod without any, whose time counts too."""
    return sum(number for name, number in pod.shape.requests.items() if is_device(name)) or 1
