"""Facts that follow from the nodes alone, so that they hold from one cycle to the next."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import MappingProxyType

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, TaintEffect
from phalanx.model.pods import PodShape
from phalanx.model.resources import Resources, largest, sum_of
from phalanx.model.supplies.known import opened
from phalanx.model.supplies.supply import OpenSupply

FaultCheck = Callable[[Node], str | None]
"""Why a node is faulty; None for a healthy one."""


class NodeFacts:
    """Immutable facts of a set of nodes, computed on first use."""

    def __init__(self, nodes: Sequence[Node], fault_checks: Iterable[FaultCheck]) -> None:
        """`nodes` are sorted by name."""
        self.nodes = tuple(nodes)
        self.faults = MappingProxyType(_faults(nodes, fault_checks))
        """The first fault of each node that has one."""

    @cached_property
    def suspect_nodes(self) -> frozenset[NodeName]:
        """Nodes that are not ready or have a taint that may evict pods."""
        return frozenset([node.name for node in self.nodes if node.may_lose_pods])

    @cached_property
    def healthy(self) -> frozenset[NodeName]:
        """Nodes without fault or suspicion; a cordoned node is healthy for the pods that run there."""
        return frozenset([node.name for node in self.nodes]) - self.suspect_nodes - self.faults.keys()

    @cached_property
    def open_nodes(self) -> tuple[NodeName, ...]:
        """Nodes that are neither faulty nor cordoned."""
        return tuple(
            [node.name for node in self.nodes if not node.unschedulable and node.name not in self.faults]
        )

    @cached_property
    def open_allocatable(self) -> Resources:
        """The total allocatable amounts of the open nodes."""
        names = frozenset(self.open_nodes)
        return sum_of(node.allocatable for node in self.nodes if node.name in names)

    @cached_property
    def any_cordoned(self) -> bool:
        return any(node.unschedulable for node in self.nodes)

    @cached_property
    def any_taint(self) -> bool:
        return any(node.taints for node in self.nodes)

    @cached_property
    def any_soft_taint(self) -> bool:
        """Whether some node has a taint that pods avoid, but that does not reject them."""
        soft = TaintEffect.PREFER_NO_SCHEDULE
        return any(taint.effect == soft for node in self.nodes for taint in node.taints)

    @cached_property
    def largest_allocatable(self) -> Resources:
        """Per resource, the largest allocatable amount of a node."""
        return largest(node.allocatable for node in self.nodes)

    @cached_property
    def open_supplies(self) -> tuple[OpenSupply, ...]:
        """The supplies of which some nodes have parts."""
        return opened(self.nodes)

    def needed_supplies(self, shapes: Iterable[PodShape]) -> list[OpenSupply]:
        if not self.open_supplies:
            return []
        asked = tuple(shapes)
        return [each for each in self.open_supplies if any(each.need(shape) is not None for shape in asked)]

    def are_estimated(self, shapes: Iterable[PodShape]) -> bool:
        """Whether what nodes have of parts for such pods is counted with some safety."""
        return not all(supply.is_exact for supply in self.needed_supplies(shapes))


def _faults(nodes: Sequence[Node], fault_checks: Iterable[FaultCheck]) -> dict[NodeName, str]:
    faults: dict[NodeName, str] = {}
    for find_fault in fault_checks:
        for node in nodes:
            fault = find_fault(node) if node.name not in faults else None
            if fault is not None:
                faults[node.name] = fault
    return faults
