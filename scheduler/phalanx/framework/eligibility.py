"""Which nodes pods of one class may use, and the cost of the pods on each."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState

NodeFilter = Callable[[Node], str | None]
"""Why a pod may not run on a node, in words that fit behind "12 nodes: "; None where it may."""

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
    """Why a node is out, for those that are."""
    cost: Mapping[NodeName, int]
    """The cost of a pod on a node, where it is not 0."""

    def count_by_reason(self) -> tuple[tuple[str, int], ...]:
        """How many nodes each reason rejects, the largest number first."""
        counts = Counter(self.rejected.values())
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def evaluate(
    nodes: Mapping[NodeName, NodeState],
    unusable: Iterable[Mapping[NodeName, str]],
    filters: Sequence[NodeQuestion[str | None]],
    costs: Sequence[NodeQuestion[int]],
) -> Eligibility:
    """Apply filters and costs to all nodes. `unusable` says why some are out for every pod."""
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
