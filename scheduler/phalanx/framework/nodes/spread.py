"""Which nodes topology spread constraints count.

A node counts for a pod if it has the keys of all constraints of the pod that must hold, and if
`nodeAffinityPolicy` and `nodeTaintsPolicy` of the constraint include it. For a preferred constraint the keys
are those of all preferred ones.
"""

from collections.abc import Callable, Iterable, Mapping

from phalanx.framework.nodes.tolerations import tolerates
from phalanx.model.counted_nodes import CountedNodes
from phalanx.model.names import NodeName
from phalanx.model.nodes import HARD_EFFECTS, Node
from phalanx.model.pods import PodShape, SpreadConstraint, Term, Toleration
from phalanx.model.selectors import node_matches_any

Domains = Mapping[NodeName, str]
"""The value of the label of each node that counts."""


def spread_keys(spread: tuple[SpreadConstraint, ...]) -> tuple[str, ...]:
    """The labels that a node must have for all of these constraints."""
    return tuple(dict.fromkeys(each.term.topology_key for each in spread))


def counted_nodes(shape: PodShape, constraint: SpreadConstraint, keys: tuple[str, ...]) -> CountedNodes:
    """The nodes that the constraint counts for pods of this shape, among those with these keys."""
    return CountedNodes(
        keys=keys,
        node_selector=shape.node_selector if constraint.honors_affinity else (),
        required_affinity=shape.required_affinity if constraint.honors_affinity else (),
        tolerations=shape.tolerations if constraint.honors_taints else None,
    )


def is_counted(node: Node, counted: CountedNodes) -> bool:
    return (
        all(key in node.labels for key in counted.keys)
        and _selects(counted.node_selector, counted.required_affinity, node)
        and (counted.tolerations is None or _tolerates(counted.tolerations, node))
    )


class SpreadDomains:
    """The domains of constraints over nodes that stay the same. Each is computed once."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        """`nodes` is called for each constraint."""
        self._nodes = nodes
        self._known: dict[tuple[str, CountedNodes], Domains] = {}

    def of(self, shape: PodShape, constraint: SpreadConstraint, keys: tuple[str, ...]) -> Domains:
        """The nodes with these keys that the constraint counts for pods of this shape, with their values."""
        label, counted = constraint.term.topology_key, counted_nodes(shape, constraint, keys)
        known = self._known.get((label, counted))
        if known is None:
            known = {node.name: node.labels[label] for node in self._nodes() if is_counted(node, counted)}
            self._known[label, counted] = known
        return known

    def __len__(self) -> int:
        return len(self._known)


def counts_by_domain(domains: Domains, pods: Iterable[tuple[NodeName, int]]) -> dict[str, int]:
    counts = dict.fromkeys(domains.values(), 0)
    for node, count in pods:
        value = domains.get(node)
        if value is not None:
            counts[value] += count
    return counts


def may_use(shape: PodShape, node: Node) -> bool:
    """Whether node selector, node affinity and hard taints allow the node."""
    return _selects(shape.node_selector, shape.required_affinity, node) and _tolerates(
        shape.tolerations, node
    )


def _selects(selector: tuple[tuple[str, str], ...], affinity: tuple[Term, ...], node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in selector):
        return False
    return not affinity or node_matches_any(node, affinity)


def _tolerates(tolerations: tuple[Toleration, ...], node: Node) -> bool:
    return all(tolerates(tolerations, taint) for taint in node.taints if taint.effect in HARD_EFFECTS)
