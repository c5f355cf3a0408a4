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


class NodeCheck(Struct, Generic[T], frozen=True):
    """A filter or cost of one plugin."""

    answer: Callable[[Node], T]
    on_error: Callable[[Exception], T]
    """Records an error of `answer`, and returns the answer that replaces it."""


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
    filters: Sequence[NodeCheck[str | None]],
    costs: Sequence[NodeCheck[int]],
) -> Eligibility:
    """Apply filters and costs to all nodes. `unusable`: nodes that no pod may use, with the reasons."""
    rejected = {name: reason for part in unusable for name, reason in part.items()}
    for name, state in nodes.items() if filters else ():
        for node_filter in filters if name not in rejected else ():
            try:
                reason = node_filter.answer(state.node)
                if reason is not None and not isinstance(reason, str):
                    raise TypeError(f"the answer {reason!r} is of a wrong type")
            except Exception as error:
                reason = node_filter.on_error(error)
            if reason is not None:
                rejected[name] = reason
                break
    cost: dict[NodeName, int] = {}
    for name, state in nodes.items() if costs else ():
        total = sum([_cost(node_cost, state.node) for node_cost in costs])
        if total:
            cost[name] = total
    return Eligibility(rejected=rejected, cost=cost)


def _cost(node_cost: NodeCheck[int], node: Node) -> int:
    try:
        cost = node_cost.answer(node)
        if not isinstance(cost, int) or cost < 0:
            raise ValueError(f"the cost {cost!r} is no whole number of at least 0")
    except Exception as error:
        cost = node_cost.on_error(error)
    return cost
