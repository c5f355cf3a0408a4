"""The eligibility of nodes for the pods of one class, and the cost of a pod on each node."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState

NodeFilter = Callable[[Node], str | None]
"""The reason why a pod may not run on a node, which must fit after "12 nodes: "; None if it may."""

NodeCost = Callable[[Node], int]
"""The cost of a pod on a node, at least 0; 100 is a strong preference against the node."""

T = TypeVar("T")


class NodeQuestion(Struct, Generic[T], frozen=True):
    """A filter or cost of one plugin."""

    ask: Callable[[Node], T]
    failed: Callable[[Exception], T]
    """Records an error of `ask`, and gives the answer that stands for it."""


class Eligibility(Struct, frozen=True):
    """The answers of all plugins about the nodes for one class of pods."""

    rejected: Mapping[NodeName, str]
    """The ineligible nodes, each with the reason."""
    cost: Mapping[NodeName, int]
    """The cost of a pod on a node; nodes that are absent cost 0."""

    def count_by_reason(self) -> tuple[tuple[str, int], ...]:
        """The number of nodes that each reason rejects, the largest number first."""
        counts = Counter(self.rejected.values())
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def evaluate(
    nodes: Mapping[NodeName, NodeState],
    unusable: Iterable[Mapping[NodeName, str]],
    filters: Sequence[NodeQuestion[str | None]],
    costs: Sequence[NodeQuestion[int]],
) -> Eligibility:
    """Apply filters and costs to all nodes. `unusable`: nodes that no pod may use, with the reasons."""
    rejected = {name: reason for part in unusable for name, reason in part.items()}
    for name, state in nodes.items() if filters else ():
        for node_filter in filters if name not in rejected else ():
            try:
                reason = node_filter.ask(state.node)
            except Exception as error:
                reason = node_filter.failed(error)
            if reason is not None:
                rejected[name] = reason
                break
    cost: dict[NodeName, int] = {}
    for name, state in nodes.items() if costs else ():
        total = sum([_cost(node_cost, state.node) for node_cost in costs])
        if total:
            cost[name] = total
    return Eligibility(rejected=rejected, cost=cost)


def _cost(node_cost: NodeQuestion[int], node: Node) -> int:
    try:
        return node_cost.ask(node)
    except Exception as error:
        return node_cost.failed(error)
