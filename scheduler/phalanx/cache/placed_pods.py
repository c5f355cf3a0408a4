"""Counts of placed pods by node, as far as pod affinity, anti-affinity and spread constraints need them.

Nothing is stored while no pod has such a term. Pods that no term distinguishes are counted together, so
labels that differ from pod to pod cost nothing until a term selects by one of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from phalanx.cache.events import ChangeLog
from phalanx.cache.namespace_terms import has_terms
from phalanx.cache.usage import foreign_owner
from phalanx.model.conversion.selectors import keys_of
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.pods import AffinityTerm, AffinityTerms, Pod, PodShape, WeightedPodTerm
from phalanx.model.selectors import affinity_term_matches, required_label_pairs
from phalanx.model.snapshot import PlacedPods

_Kind = tuple[str, tuple[tuple[str, str], ...], AffinityTerms, tuple[WeightedPodTerm, ...], bool]
"""Namespace, the labels that some term selects by, the pods' own anti-affinity, what they prefer, and whether
a spread constraint is to leave them out because they terminate."""

_Place = tuple[_Kind, NodeName, str | None]
"""What a pod is counted as, its node, and its owner if another scheduler placed it and it may end."""

Label = tuple[str, str] | None
"""A label that the matching pods have; None if no such label is known."""


class View(Struct, frozen=True):
    """The index as a snapshot has it."""

    terms: tuple[AffinityTerms, ...]
    preferred_terms: AffinityTerms
    placed_pods: tuple[PlacedPods, ...]
    foreign_pods: Mapping[str, tuple[PlacedPods, ...]]


class _PodsOfKind:
    """The nodes of the pods of one kind, and what snapshots show of them."""

    __slots__ = ("_shown", "kind", "nodes", "order")

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.order = _order(kind)
        self.nodes: dict[NodeName, int] = {}
        self._shown: PlacedPods | None = None

    def count(self, node: NodeName, change: int) -> None:
        """Add `change` to the number of pods on the node."""
        self._shown = None
        self.nodes[node] = self.nodes.get(node, 0) + change
        if not self.nodes[node]:
            del self.nodes[node]

    @property
    def shown(self) -> PlacedPods:
        """The pods as snapshots have them; the same object until one of them comes or goes."""
        if self._shown is None:
            namespace, labels, anti_affinity, preferred, is_terminating = self.kind
            self._shown = PlacedPods(
                namespace,
                labels,
                anti_affinity,
                nodes=dict(sorted(self.nodes.items())),
                is_terminating=is_terminating,
                preferred=preferred,
            )
        return self._shown


class _ForeignPods:
    """The pods of other schedulers that may end, by owner, kind and node."""

    def __init__(self) -> None:
        self._pods: defaultdict[str, dict[_Kind, _PodsOfKind]] = defaultdict(dict)
        self._shown: dict[str, tuple[PlacedPods, ...]] = {}
        self._all: Mapping[str, tuple[PlacedPods, ...]] | None = None

    def count(self, owner: str, kind: _Kind, node: NodeName, change: int) -> None:
        """Add `change`, 1 or -1, to the number of pods of the owner."""
        self._shown.pop(owner, None)
        self._all = None
        kinds = self._pods[owner]
        pods = kinds.setdefault(kind, _PodsOfKind(kind))
        pods.count(node, change)
        if not pods.nodes:
            del kinds[kind]
        if not kinds:
            del self._pods[owner]

    def shown(self) -> Mapping[str, tuple[PlacedPods, ...]]:
        """The pods of each owner, sorted. It is the same mapping until one of them comes or goes."""
        if self._all is None:
            for owner, kinds in self._pods.items():
                if owner not in self._shown:
                    self._shown[owner] = _shown(kinds.values())
            self._all = {owner: self._shown[owner] for owner in sorted(self._pods)}
        return self._all


class _Kinds:
    """Pods by kind and node, and an index of kinds by their labels and by the labels that they avoid."""

    def __init__(self) -> None:
        self.pods: dict[_Kind, _PodsOfKind] = {}
        self.foreign = _ForeignPods()
        self._labelled: dict[Label, dict[_Kind, None]] = {}
        self._avoiding: dict[Label, dict[_Kind, None]] = {}
        self._in_order: list[_PodsOfKind] | None = None

    def count(self, place: _Place | None, change: int) -> None:
        """Add `change`, 1 or -1, to the number of pods of the kind on the node."""
        if place is None:
            return
        kind, node, owner = place
        if owner is not None:
            self.foreign.count(owner, kind, node, change)
        pods = self.pods.get(kind)
        if pods is None:
            pods = self.pods[kind] = _PodsOfKind(kind)
            self._in_order = None
            for table, label in self._entries(kind):
                table.setdefault(label, {})[kind] = None
        pods.count(node, change)
        if not pods.nodes:
            del self.pods[kind]
            self._in_order = None
            for table, label in self._entries(kind):
                del table[label][kind]
                if not table[label]:
                    del table[label]

    def shown(self) -> tuple[PlacedPods, ...]:
        """All pods in the order of snapshots."""
        if self._in_order is None:
            self._in_order = sorted(self.pods.values(), key=lambda pods: pods.order)
        return tuple([pods.shown for pods in self._in_order])

    def labelled(self, labels: Iterable[Label]) -> Iterator[_Kind]:
        """Kinds with one of these labels. None selects all kinds."""
        for label in labels:
            yield from self.pods if label is None else self._labelled.get(label, ())

    def that_avoid(self, pairs: Iterable[tuple[str, str]]) -> Iterator[_Kind]:
        """Kinds whose anti-affinity may select a pod with these labels."""
        return iter({kind: None for label in (None, *pairs) for kind in self._avoiding.get(label, ())})

    def _entries(self, kind: _Kind) -> Iterator[tuple[dict[Label, dict[_Kind, None]], Label]]:
        yield from ((self._labelled, pair) for pair in kind[1])
        avoided = {label: None for term in kind[2] for label in required_label_pairs((term,))}
        yield from ((self._avoiding, label) for label in avoided)


class PlacedPodIndex:
    """Counts of pods by kind and node. `pods` returns all pods, for a recount.

    `gangs_move`: what a pod that runs requires near it, and by which terms it is to be spread, is kept too if
    a controller recreates the pod: it is asked again when the pod is moved.
    """

    def __init__(
        self, *, scheduler_name: str, pods: Callable[[], Iterable[Pod]], gangs_move: bool = False
    ) -> None:
        self._scheduler_name = scheduler_name
        self._pods = pods
        self._gangs_move = gangs_move
        self._near: Counter[AffinityTerms] = Counter()
        self._movable: Counter[AffinityTerms] = Counter()
        self._apart: Counter[AffinityTerms] = Counter()
        self._preferred: Counter[AffinityTerms] = Counter()
        self._watched: Counter[str] = Counter()
        self._spread = 0
        """The number of terms by which spread constraints count."""
        self._asked: Counter[Label] = Counter()
        self._kinds: _Kinds | None = None
        self._terms: tuple[tuple[AffinityTerms, ...], AffinityTerms] | None = None
        self._view: View | None = None

    def replace(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed."""
        if self._has_terms:
            self._move(old, new, log)
        elif not ((old is not None and has_terms(old)) or (new is not None and has_terms(new))):
            return
        changed = [
            (table, before, after)
            for table, before, after in (
                (self._near, self._affinity(old), self._affinity(new)),
                (self._movable, self._of_movable(old), self._of_movable(new)),
                (self._apart, self._anti_affinity(old), self._anti_affinity(new)),
                (self._preferred, self._preferences(old), self._preferences(new)),
            )
            if before != after
        ]
        # no term is lost in between that another table keeps
        for table, _, after in changed:
            for terms in after:
                self._add(table, terms)
        for table, before, _ in changed:
            for terms in before:
                self._remove(table, terms)

    def node_changed(self, old: Node | None, new: Node | None, log: ChangeLog) -> None:
        """A node was added, changed or removed.

        A node that is gone counts no more, with its pods. Spread constraints may leave out nodes with taints.
        """
        is_gone = new is None
        are_tainted = old is not None and new is not None and old.taints != new.taints
        if self._spread and (is_gone or are_tainted):
            log.mark_cluster_changed()
        elif self._apart and is_gone:
            log.mark_capacity_grew()

    def view(self) -> View:
        """All terms, and the placed pods if there are any terms. It is the same view until something
        changes."""
        if self._view is None:
            if self._terms is None:
                preferred = tuple([term for (term,) in sorted(self._preferred, key=repr)])
                self._terms = (
                    tuple(sorted({*self._near, *self._movable, *self._apart}, key=repr)),
                    preferred,
                )
            if self._has_terms and self._kinds is None:
                self._kinds = self._counted(self._pods())
            kinds = self._kinds or _Kinds()
            self._view = View(*self._terms, kinds.shown(), kinds.foreign.shown())
        return self._view

    @property
    def _has_terms(self) -> bool:
        return bool(self._movable) or self._concern_waiting

    @property
    def _concern_waiting(self) -> bool:
        """Whether there are terms that may concern pods that wait."""
        return bool(self._near or self._apart or self._preferred)

    def avoided(
        self, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]
    ) -> Iterator[tuple[str, NodeName]]:
        """Topology keys and nodes of pods that are in an anti-affinity relation with this placed pod."""
        mine = self._place(pod) if self._has_terms else None
        if mine is None:
            return
        self.view()
        kinds, labels = self._kinds or _Kinds(), dict(pod.all_labels)
        found = [
            (kind, term.topology_key)
            for kind in kinds.that_avoid(pod.all_labels)
            for term in kind[2]
            if affinity_term_matches(term, pod.namespace, labels, namespaces)
        ]
        found += [
            (kind, term.topology_key)
            for term in pod.shape.anti_affinity
            for kind in kinds.labelled(required_label_pairs((term,)))
            if affinity_term_matches(term, kind[0], dict(kind[1]), namespaces)
        ]
        for kind, key in found:
            for node, count in kinds.pods[kind].nodes.items():
                if count > ((kind, node) == mine[:2]):
                    yield key, node

    def spread_counts(self, term: AffinityTerm) -> Iterator[tuple[NodeName, int]]:
        """Nodes with the numbers of pods that a spread constraint of a pod that waits or is assumed counts.

        A node may occur several times.
        """
        if self._kinds is None:
            self._kinds = self._counted(self._pods())
        for kind in self._kinds.labelled(required_label_pairs((term,))):
            namespace, labels, *_, terminates = kind
            if not terminates and affinity_term_matches(term, namespace, dict(labels), {}):
                yield from self._kinds.pods[kind].nodes.items()

    def _move(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        before, after = self._place(old), self._place(new)
        if before == after:
            return
        self._view = None
        is_same_node = before is not None and after is not None and before[1] == after[1]
        if is_same_node and self._concern_waiting:
            log.mark_capacity_grew()
        if after is not None and new is not None and self._is_wanted(new):
            log.mark_capacity_grew()
        if self._kinds is not None:
            self._kinds.count(after, 1)
            self._kinds.count(before, -1)

    def _is_wanted(self, pod: Pod) -> bool:
        """Whether the required affinity of a waiting pod may select it."""
        return None in self._asked or any(pair in self._asked for pair in pod.all_labels)

    def _add(self, table: Counter[AffinityTerms], terms: AffinityTerms) -> None:
        table[terms] += 1
        if table[terms] == 1:
            self._view = self._terms = None
            self._count_spread(terms, 1)
            self._asked.update(required_label_pairs(terms) if table is self._near else ())
            for key in keys_of(terms):
                self._watched[key] += 1
                if self._watched[key] == 1:
                    self._kinds = None

    def _remove(self, table: Counter[AffinityTerms], terms: AffinityTerms) -> None:
        table[terms] -= 1
        if not table[terms]:
            del table[terms]
            self._view = self._terms = None
            self._count_spread(terms, -1)
            self._asked -= Counter(required_label_pairs(terms) if table is self._near else ())
            for key in keys_of(terms):
                self._watched[key] -= 1
                if not self._watched[key]:
                    del self._watched[key]
                    self._kinds = None
            if not self._has_terms:
                self._kinds = None

    def _count_spread(self, terms: AffinityTerms, change: int) -> None:
        """The kinds differ once terminating pods are to be left out, or no more."""
        if terms[0].for_spread:
            self._spread += change
            if self._spread == max(0, change):
                self._kinds = None

    def _affinity(self, pod: Pod | None) -> tuple[AffinityTerms, ...]:
        shape = None if pod is None else pod.shape
        if pod is None or shape is None or not (shape.affinity or shape.spread or shape.preferred_spread):
            return ()
        waits = self._waits_for_us(pod)
        # assumed pods are counted again right before their bind
        spread = [(each.term,) for each in shape.spread if waits or pod.assumed]
        spread += [(each.term,) for each in shape.preferred_spread if waits]
        return (shape.affinity, *spread) if shape.affinity and waits else tuple(spread)

    def _of_movable(self, pod: Pod | None) -> tuple[AffinityTerms, ...]:
        """What a new pod in place of this one requires near it, and the terms by which it is to be spread."""
        if not self._gangs_move or pod is None or not (pod.shape.affinity or pod.shape.spread):
            return ()
        if not pod.holds_node or pod.deleting or pod.controller is None:
            return ()
        if pod.scheduler_name != self._scheduler_name:
            return ()
        spread = tuple((each.term,) for each in pod.shape.spread)
        return (pod.shape.affinity, *spread) if pod.shape.affinity else spread

    def _anti_affinity(self, pod: Pod | None) -> tuple[AffinityTerms, ...]:
        if pod is None or not pod.shape.anti_affinity or not (pod.holds_node or self._waits_for_us(pod)):
            return ()
        return tuple((term,) for term in pod.shape.anti_affinity)

    def _preferences(self, pod: Pod | None) -> tuple[AffinityTerms, ...]:
        if pod is None or not (pod.holds_node or self._waits_for_us(pod)):
            return ()
        shape = pod.shape
        if not (shape.preferred_pod_terms or shape.affinity):
            return ()
        return tuple(
            (term,) for term in (*(each.term for each in shape.preferred_pod_terms), *shape.affinity)
        )

    def _waits_for_us(self, pod: Pod) -> bool:
        return pod.is_waiting and pod.scheduler_name == self._scheduler_name

    def _place(self, pod: Pod | None) -> _Place | None:
        if pod is None or pod.node is None or not pod.holds_node:
            return None
        labels = tuple([pair for pair in pod.all_labels if pair[0] in self._watched])
        is_terminating = self._spread > 0 and pod.deleting
        kind = (pod.namespace, labels, pod.shape.anti_affinity, _preferred(pod.shape), is_terminating)
        return kind, pod.node, foreign_owner(pod, self._scheduler_name)

    def _counted(self, pods: Iterable[Pod]) -> _Kinds:
        kinds = _Kinds()
        for pod in pods:
            kinds.count(self._place(pod), 1)
        return kinds


def _shown(kinds: Iterable[_PodsOfKind]) -> tuple[PlacedPods, ...]:
    return tuple([pods.shown for pods in sorted(kinds, key=lambda pods: pods.order)])


def _preferred(shape: PodShape) -> tuple[WeightedPodTerm, ...]:
    """What placed pods of the shape prefer; required affinity has weight 0."""
    if not shape.affinity:
        return shape.preferred_pod_terms
    return (*shape.preferred_pod_terms, *(WeightedPodTerm(0, term) for term in shape.affinity))


def _order(kind: _Kind) -> tuple[str, tuple[tuple[str, str], ...], str, str, bool]:
    namespace, labels, *terms, terminates = kind
    anti_affinity, preferred = (repr(each) if each else "" for each in terms)
    return namespace, labels, anti_affinity, preferred, terminates
