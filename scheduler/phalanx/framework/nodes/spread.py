"""Which nodes topology spread constraints count.

A node counts for a pod if it has the keys of all constraints of the pod that must hold, and if
`nodeAffinityPolicy` and `nodeTaintsPolicy` of the constraint include it. For a preferred constraint the keys
are those of all preferred ones.
"""

from collections.abc import Callable, Iterable, Mapping

from phalanx.framework.nodes.tolerations import tolerates
from phalanx.model.names import NodeName
from phalanx.model.nodes import HARD_EFFECTS, Node
from phalanx.model.pods import PodShape, SpreadConstraint
from phalanx.model.selectors import node_matches_any

Scope = tuple[object, ...]
"""Equal for shapes for which a constraint counts the same nodes."""

Domains = Mapping[NodeName, str]
"""The value of the label of each node that counts."""


def spread_keys(spread: tuple[SpreadConstraint, ...]) -> tuple[str, ...]:
    """The labels that a node must have for all of these constraints."""
    return tuple(dict.fromkeys(each.term.topology_key for each in spread))


def scope_of(shape: PodShape, constraint: SpreadConstraint, keys: tuple[str, ...]) -> Scope:
    """What decides which nodes the constraint counts for pods of this shape, among those with these keys."""
    affinity = (shape.node_selector, shape.required_affinity) if constraint.honors_affinity else ()
    return (keys, affinity, shape.tolerations if constraint.honors_taints else ())


def _domains_of(
    nodes: Iterable[Node], shape: PodShape, constraint: SpreadConstraint, keys: tuple[str, ...]
) -> dict[NodeName, str]:
    key = constraint.term.topology_key
    return {
        node.name: node.labels[key]
        for node in nodes
        if all(each in node.labels for each in keys) and _is_included(node, shape, constraint)
    }


class SpreadDomains:
    """The domains of constraints over nodes that stay the same. Each is computed once."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        """`nodes` is called for each constraint."""
        self._nodes = nodes
        self._known: dict[tuple[SpreadConstraint, Scope], Domains] = {}

    def of(self, shape: PodShape, constraint: SpreadConstraint, keys: tuple[str, ...]) -> Domains:
        """The nodes with these keys that the constraint counts for pods of this shape, with their values."""
        key = (constraint, scope_of(shape, constraint, keys))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _domains_of(self._nodes(), shape, constraint, keys)
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
    return _selects(shape, node) and _tolerates(shape, node)


def _is_included(node: Node, shape: PodShape, constraint: SpreadConstraint) -> bool:
    if constraint.honors_affinity and not _selects(shape, node):
        return False
    return not constraint.honors_taints or _tolerates(shape, node)


def _selects(shape: PodShape, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in shape.node_selector):
        return False
    return not shape.required_affinity or node_matches_any(node, shape.required_affinity)


def _tolerates(shape: PodShape, node: Node) -> bool:
    return all(tolerates(shape.tolerations, taint) for taint in node.taints if taint.effect in HARD_EFFECTS)
