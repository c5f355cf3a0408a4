"""Nodes and their usage.

Pods, nodes and NUMA zones arrive in any order. Usage and zones are therefore stored by node name, whether or
not the node is known.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs
from msgspec.msgpack import Encoder

from phalanx.cache.events import ChangeLog
from phalanx.cache.table import Key, Table
from phalanx.cache.usage import Ledger
from phalanx.model.api import core
from phalanx.model.api.node_topologies import NodeResourceTopology
from phalanx.model.api.volcano import HyperNode as ApiHyperNode
from phalanx.model.conversion.hyper_nodes import HyperNode, HyperNodeTree, read_hyper_node
from phalanx.model.conversion.nodes import read_node
from phalanx.model.names import NodeName
from phalanx.model.nodes import READY, Amounts, Node, NodeState, Taint, TaintEffect
from phalanx.model.resources import Resources, subtract
from phalanx.model.supplies.devices.extended_resources import is_extended
from phalanx.model.supplies.numa.read import NumaReport, read_zones

_encode: Final = Encoder().encode


class NodeTable:
    """All nodes with their usage. A NodeState is rebuilt only when its node or its usage changed."""

    def __init__(
        self,
        annotation_keys: tuple[str, ...],
        node_changed: Callable[[Node | None, Node | None, ChangeLog], None],
        *,
        with_images: bool = False,
        state_taints: tuple[str, ...] = (),
    ) -> None:
        """`node_changed` is called with each node before and after a change."""
        self._node_changed = node_changed
        self._annotation_keys = annotation_keys
        self._with_images = with_images
        self._state_taints = state_taints
        self._nodes: Table[core.Node, Node] = Table(read=self._read, changed=self._changed)
        self.zones: Table[NodeResourceTopology, NumaReport] = Table(
            read=read_zones, changed=self._zones_changed
        )
        self.hyper_nodes: Table[ApiHyperNode, HyperNode] = Table(
            read=read_hyper_node, changed=self._hyper_nodes_changed
        )
        self._tree: HyperNodeTree | None = None
        self._in_tree: dict[NodeName, tuple[Node, Node]] = {}
        """By name: a node without and with the labels of tiers of HyperNodes."""

        self.are_listed = False
        self._offers: Counter[str] = Counter()
        """How many nodes offer each extended resource."""
        self._written: dict[Key, bytes] = {}
        self._used: Ledger[NodeName] = Ledger()
        self._states: dict[NodeName, NodeState] = {}
        self._stale: dict[NodeName, None] = {}
        self._view: Mapping[NodeName, NodeState] = {}

    # --- events -------------------------------------------------------------------------------------------

    def apply(self, written: core.Node, log: ChangeLog) -> None:
        """A node was added or modified. Most modifications are heartbeats and are ignored."""
        key = ("", written.metadata.name)
        images = written.status.images if self._with_images else ()
        relevant = _encode((*_relevant_fields(written, self._annotation_keys), images))
        if self._written.get(key) != relevant:
            self._written[key] = relevant
            self._nodes.apply(written, log)

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """A node was deleted. Its pods may still exist."""
        self._nodes.delete(key, uid, log)
        if self._nodes.get(key) is None:
            self._written.pop(key, None)

    def keys(self) -> tuple[Key, ...]:
        return self._nodes.keys()

    def take(self, node: NodeName, requests: Resources, log: ChangeLog) -> None:
        """A pod or a volume now uses this node."""
        self._used.add(node, requests)
        self._stale[node] = None
        log.node(node)

    def release(self, node: NodeName, requests: Resources, log: ChangeLog) -> None:
        """A pod or a volume no longer uses this node."""
        self._used.remove(node, requests)
        self._stale[node] = None
        log.node(node)
        log.mark_capacity_grew()

    def start(self, node: NodeName, before: Resources, after: Resources, log: ChangeLog) -> None:
        """A pod has started and has its NUMA zone now. On a node with zones, this may let other pods fit."""
        self._used.add(node, after)
        self._used.remove(node, before)
        self._stale[node] = None
        log.node(node)
        if self.zones.get(("", node)) is not None:
            log.mark_capacity_grew()

    def _changed(self, key: Key, old: Node | None, new: Node | None, log: ChangeLog) -> None:
        """A lost node frees no capacity, but its gangs may need recovery."""
        name = NodeName(key[1])
        self._stale[name] = None
        before, after = _extended(old), _extended(new)
        if before != after:
            self._offers.subtract(before)
            self._offers = +self._offers + Counter(after)
        log.node(name)
        if old is not None and (new is None or _may_lose_pods(old, new)):
            log.mark_may_unblock()
        if new is not None and (old is None or not _only_took_away(old, new)):
            log.mark_cluster_changed()
        self._node_changed(old, new, log)

    def _zones_changed(
        self, key: Key, old: NumaReport | None, new: NumaReport | None, log: ChangeLog
    ) -> None:
        """Most periodic reports only take zones away, or free what the end of a pod has already freed."""
        name = NodeName(key[1])
        self._stale[name] = None
        log.node(name)
        if self._nodes.get(key) is not None and not _only_took_zones(old, new):
            log.mark_cluster_changed()

    def _hyper_nodes_changed(
        self, _key: Key, _old: HyperNode | None, _new: HyperNode | None, log: ChangeLog
    ) -> None:
        """Any node may be in another domain now."""
        self._tree, self._in_tree = None, {}
        for name in self._nodes.by_name():
            self._stale[NodeName(name)] = None
            log.node(NodeName(name))
        log.mark_cluster_changed()

    # --- questions ----------------------------------------------------------------------------------------

    def state(self, name: NodeName) -> NodeState | None:
        """A node with its usage and free capacity; None for an unknown node."""
        if name in self._stale:
            self._refresh(name)
        return self._states.get(name)

    def is_offered(self, resource: str) -> bool:
        """Whether a node offers an extended resource itself."""
        return self._offers[resource] > 0

    def view(self) -> Mapping[NodeName, NodeState]:
        """All known nodes, sorted by name. It is the same mapping until something changes."""
        if self._stale:
            for name in self._stale:
                self._refresh(name)
            if self._states.keys() == self._view.keys():
                news = {name: self._states[name] for name in self._stale if name in self._states}
                self._view = {**self._view, **news}
            else:
                self._view = {name: self._states[name] for name in sorted(self._states)}
            self._stale = {}
        return self._view

    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, without usage. It is the same mapping until a node changes."""
        return self._nodes.by_name()

    def hyper_node_tree(self) -> HyperNodeTree:
        """All HyperNodes. It is the same object until one changes."""
        if self._tree is None:
            self._tree = HyperNodeTree(self.hyper_nodes.values())
        return self._tree

    def _placed_in_tree(self, node: Node) -> Node:
        """The node with the labels of tiers. It is the same object until the node or a HyperNode changes."""
        before, placed = self._in_tree.get(node.name, (None, node))
        if before is not node:
            tiers = self.hyper_node_tree().labels_of(node.name, node.labels)
            by_labels = self.hyper_node_tree().labels_of("", node.labels)
            placed = structs.replace(
                node,
                labels=dict(sorted({**node.labels, **tiers}.items())),
                labels_by_name=tuple(key for key, value in tiers.items() if by_labels.get(key) != value),
            )
            self._in_tree[node.name] = (node, placed)
        return placed

    def _read(self, written: core.Node) -> Node:
        return read_node(
            written,
            self._annotation_keys,
            with_images=self._with_images,
            state_taints=self._state_taints,
        )

    def _refresh(self, name: NodeName) -> None:
        node = self._nodes.get(("", name))
        if node is None:
            self._states.pop(name, None)
            self._in_tree.pop(name, None)
            return
        if self.hyper_node_tree().topology is not None:
            node = self._placed_in_tree(node)
        published = self.zones.get(("", name))
        if published is not None:
            problems = (*node.problems, *published.problems)
            node = structs.replace(node, numa=published.numa, problems=problems)
        used = self._used[name]
        self._states[name] = NodeState(node=node, used=used, free=subtract(node.allocatable, used))


def _relevant_fields(written: core.Node, annotation_keys: tuple[str, ...]) -> tuple[Any, ...]:
    """All fields of a node that `read_node` reads, without images."""
    meta, status = written.metadata, written.status
    return (
        meta.uid,
        meta.labels,
        written.spec,
        status.allocatable or status.capacity,
        status.conditions,
        [meta.annotations.get(key) for key in annotation_keys],
        status.declared_features,
    )


def _only_took_zones(old: NumaReport | None, new: NumaReport | None) -> bool:
    """Whether no pod that found no zone before can find one now."""
    before, after = (each.numa if each is not None else None for each in (old, new))
    if before is None or after is None:
        return before is None
    pairs = zip(before.available, after.available, strict=False)
    return before.layout == after.layout and all(_is_at_most(now, was) for was, now in pairs)


def _is_at_most(amounts: Amounts, limits: Amounts) -> bool:
    known = dict(limits)
    return all(amount <= known.get(name, 0) for name, amount in amounts)


def _may_lose_pods(old: Node, new: Node) -> bool:
    """Whether its pods may be at risk: a condition or a NoExecute taint changed."""
    return old.conditions != new.conditions or _evicting(old) != _evicting(new)


def _evicting(node: Node) -> list[Taint]:
    return [taint for taint in node.taints if taint.effect == TaintEffect.NO_EXECUTE]


def _only_took_away(old: Node, new: Node) -> bool:
    """Whether no pod that did not fit on the node before can fit now."""
    return (
        old.labels == new.labels
        and old.annotations == new.annotations
        and old.unschedulable <= new.unschedulable
        and all(taint in new.taints for taint in old.taints)
        and all(amount <= old.allocatable.get(name, 0) for name, amount in new.allocatable.items())
        and set(new.declared_features) <= set(old.declared_features)
        and _is_no_healthier(old.conditions, new.conditions)
    )


def _is_no_healthier(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Only for Ready is the healthy status known here. Any other change may be an improvement."""
    changed = [each for each in {**old, **new} if old.get(each) != new.get(each)]
    return not changed or (changed == [READY] and new.get(READY) in ("False", "Unknown"))


def _extended(node: Node | None) -> list[str]:
    """The extended resources that a node offers."""
    return [name for name, amount in node.allocatable.items() if amount and is_extended(name)] if node else []
