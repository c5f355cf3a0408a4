"""Which pods stand where, as far as pod affinity and anti-affinity look at them.

Nothing is kept while no pod has a required term. Pods that no term can tell apart are counted together, so
labels that differ from pod to pod cost nothing until a term looks at one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from phalanx.cache.changes import ChangeLog
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod, PodTerm, PodTerms
from phalanx.model.reading.pod_terms import keys_of
from phalanx.model.selectors import labels_match, term_means
from phalanx.model.snapshot import Standing

_Kind = tuple[str, tuple[tuple[str, str], ...], PodTerms]
"""Namespace, labels that some term looks at, and the pods' own anti-affinity."""

View = tuple[tuple[PodTerms, ...], tuple[Standing, ...]]


class StandingPods:
    """Counts of pods by what terms see of them, and by node; `pods` gives all, when they are counted anew."""

    def __init__(self, *, scheduler_name: str, pods: Callable[[], Iterable[Pod]]) -> None:
        self._scheduler_name = scheduler_name
        self._pods = pods
        self._near: Counter[PodTerms] = Counter()
        self._apart: Counter[PodTerms] = Counter()
        self._watched: Counter[str] = Counter()
        self._kinds: dict[_Kind, dict[NodeName, int]] | None = None
        self._view: View | None = None

    def replace(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod came, changed or went."""
        self._move(old, new, log)
        for table, before, after in (
            (self._near, self._affinity(old), self._affinity(new)),
            (self._apart, self._anti_affinity(old), self._anti_affinity(new)),
        ):
            if before != after:
                for terms in after:
                    self._add(table, terms)
                for terms in before:
                    self._remove(table, terms)

    def view(self) -> View:
        """All terms, and the pods with a node if there are any terms; the same until something changes."""
        if self._view is None:
            terms = sorted({*self._near, *self._apart}, key=repr)
            if terms and self._kinds is None:
                self._kinds = self._counted(self._pods())
            kinds = self._kinds or {}
            standing = tuple(
                Standing(*kind, dict(sorted(kinds[kind].items()))) for kind in sorted(kinds, key=repr)
            )
            self._view = (tuple(terms), standing)
        return self._view

    def avoided(
        self, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]
    ) -> Iterator[tuple[str, NodeName]]:
        """Nodes with pods that must be apart from this one, which has a node too; by which label."""
        mine = self._place(pod)
        if mine is None or not (self._near or self._apart):
            return
        self.view()
        labels = dict(pod.labels.pairs)
        for kind, nodes in (self._kinds or {}).items():
            namespace, theirs, avoids = kind
            keys = [
                *(
                    term.topology_key
                    for term in avoids
                    if term_means(term, pod.namespace, labels, namespaces)
                ),
                *(
                    term.topology_key
                    for term in pod.shape.anti_affinity
                    if term_means(term, namespace, dict(theirs), namespaces)
                ),
            ]
            for node, count in nodes.items() if keys else ():
                if count > ((kind, node) == mine):
                    yield from ((key, node) for key in keys)

    def check(self, pods: Iterable[Pod]) -> None:
        """Assert that it is what these pods, all there are, add up to."""
        pods = tuple(pods)
        recomputed = StandingPods(scheduler_name=self._scheduler_name, pods=lambda: pods)
        for pod in pods:
            recomputed.replace(None, pod, ChangeLog())
        assert recomputed.view() == self.view(), "standing pods differ from the sum of all pods"

    def _move(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        if not (self._near or self._apart):
            return
        before, after = self._place(old), self._place(new)
        if before == after:
            return
        self._view = None
        if before is not None and after is not None and before[1] == after[1]:
            log.grew()
        if after is not None and new is not None and self._is_wanted(new):
            log.grew()
        if self._kinds is not None:
            _count(self._kinds, after, 1)
            _count(self._kinds, before, -1)

    def _is_wanted(self, pod: Pod) -> bool:
        """Whether it may be what a waiting pod asks to be near; namespaces are not looked at."""
        labels = dict(pod.labels.pairs)
        return any(all(_selects(term, labels) for term in terms) for terms in self._near)

    def _add(self, table: Counter[PodTerms], terms: PodTerms) -> None:
        table[terms] += 1
        if table[terms] == 1:
            self._view = None
            for key in keys_of(terms):
                self._watched[key] += 1
                if self._watched[key] == 1:
                    self._kinds = None

    def _remove(self, table: Counter[PodTerms], terms: PodTerms) -> None:
        table[terms] -= 1
        if not table[terms]:
            del table[terms]
            self._view = None
            for key in keys_of(terms):
                self._watched[key] -= 1
                if not self._watched[key]:
                    del self._watched[key]
                    self._kinds = None
            if not (self._near or self._apart):
                self._kinds = None

    def _affinity(self, pod: Pod | None) -> tuple[PodTerms, ...]:
        if pod is None or not pod.shape.affinity or not self._waits_for_us(pod):
            return ()
        return (pod.shape.affinity,)

    def _anti_affinity(self, pod: Pod | None) -> tuple[PodTerms, ...]:
        if pod is None or not pod.shape.anti_affinity or not (pod.holds_node or self._waits_for_us(pod)):
            return ()
        return tuple((term,) for term in pod.shape.anti_affinity)

    def _waits_for_us(self, pod: Pod) -> bool:
        return pod.is_waiting and pod.scheduler_name == self._scheduler_name

    def _place(self, pod: Pod | None) -> tuple[_Kind, NodeName] | None:
        if pod is None or pod.node is None or not pod.holds_node:
            return None
        labels = tuple([pair for pair in pod.labels.pairs if pair[0] in self._watched])
        return (pod.namespace, labels, pod.shape.anti_affinity), pod.node

    def _counted(self, pods: Iterable[Pod]) -> dict[_Kind, dict[NodeName, int]]:
        kinds: dict[_Kind, dict[NodeName, int]] = {}
        for pod in pods:
            _count(kinds, self._place(pod), 1)
        return kinds


def _count(
    kinds: dict[_Kind, dict[NodeName, int]], place: tuple[_Kind, NodeName] | None, change: int
) -> None:
    if place is None:
        return
    kind, node = place
    nodes = kinds.setdefault(kind, {})
    nodes[node] = nodes.get(node, 0) + change
    if not nodes[node]:
        del nodes[node]
    if not nodes:
        del kinds[kind]


def _selects(term: PodTerm, labels: Mapping[str, str]) -> bool:
    return term.selector is not None and labels_match(labels, term.selector)
