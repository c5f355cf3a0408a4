"""The different terms of pod affinity, anti-affinity and spread constraints of each namespace, up to a bound.

A pod that waits takes part if the namespace has at most NAMESPACE_TERMS_MAX terms with those of the pod, and
no older pod waits for the same. Beyond that it is invalid, and its terms do not count. For pods that have a
node the bound is twice as high. Beyond it such a pod keeps away all pods of its own namespace.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from phalanx.limits import NAMESPACE_TERMS_MAX, POD_TERMS_MAX
from phalanx.model.names import PodUid, ShapeKey
from phalanx.model.pods import AffinityTerm, Pod, PodShape, Term

_Place = tuple[int, str, PodUid]
"""Creation time, name and UID of a pod that waits until its terms are within the bound."""


class _Beyond(Struct, frozen=True):
    """The shape of a pod that is beyond the bound, as it is in the API and as it counts."""

    written: PodShape
    counted: PodShape


class NamespaceTerms:
    """The terms by namespace, and the pods that are beyond the bound."""

    def __init__(self, *, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._counts: dict[str, Counter[AffinityTerm]] = {}
        self._terms: dict[PodUid, tuple[str, frozenset[AffinityTerm]]] = {}
        self._beyond: dict[PodUid, _Beyond] = {}
        self._lines: dict[str, list[_Place]] = {}

    def concern(self, pod: Pod) -> bool:
        """Whether the pod has terms, or had some that were beyond the bound."""
        return pod.uid in self._terms or pod.uid in self._beyond

    def admit(self, pod: Pod) -> Pod:
        """The pod as it counts: unchanged within the bound."""
        beyond = self._beyond.get(pod.uid)
        if beyond is not None and pod.shape is beyond.counted:
            pod = replace(pod, shape=beyond.written)
        terms = frozenset(term for _, term in self._terms_of(pod))
        if self._terms.get(pod.uid) == (pod.namespace, terms) and beyond is None:
            return pod
        self.remove(pod)
        if not terms:
            return pod
        most = NAMESPACE_TERMS_MAX if pod.is_waiting else 2 * NAMESPACE_TERMS_MAX
        if self._fits(pod.namespace, terms, most) and not (pod.is_waiting and self._is_behind(pod, terms)):
            self._add(pod, terms)
            return pod
        counted = self._invalid(pod) if pod.is_waiting else self._coarse(pod)
        self._beyond[pod.uid] = _Beyond(pod.shape, counted)
        return replace(pod, shape=counted)

    def remove(self, pod: Pod) -> None:
        """The pod is gone, or is to be admitted again."""
        namespace, terms = self._terms.pop(pod.uid, ("", frozenset()))
        if terms:
            counts = self._counts[namespace]
            counts.subtract(terms)
            for term in [term for term in terms if not counts[term]]:
                del counts[term]
            if not counts:
                del self._counts[namespace]
        if self._beyond.pop(pod.uid, None) is not None:
            line, place = self._lines.get(pod.namespace, []), _place_of(pod)
            at = bisect_left(line, place)
            if line[at : at + 1] == [place]:
                del line[at]
            if not line:
                self._lines.pop(pod.namespace, None)

    def first_in_line(self, namespace: str) -> PodUid | None:
        """The oldest pod that waits because of the bound, if it is within it now."""
        line = self._lines.get(namespace)
        if not line:
            return None
        uid = line[0][2]
        terms = {term for _, term in _written_terms(self._beyond[uid].written)}
        return uid if self._fits(namespace, terms, NAMESPACE_TERMS_MAX) else None

    def _fits(self, namespace: str, terms: frozenset[AffinityTerm] | set[AffinityTerm], most: int) -> bool:
        counts = self._counts.get(namespace, Counter())
        return len(counts) + sum(1 for term in terms if term not in counts) <= most

    def _is_behind(self, pod: Pod, terms: frozenset[AffinityTerm]) -> bool:
        """Whether an older pod waits for the bound, and this one brings other terms."""
        line = self._lines.get(pod.namespace, [])
        known = self._counts.get(pod.namespace, Counter())
        is_next = not line or _place_of(pod) < line[0]
        return not (is_next or all(term in known for term in terms))

    def _add(self, pod: Pod, terms: frozenset[AffinityTerm]) -> None:
        self._counts.setdefault(pod.namespace, Counter()).update(terms)
        self._terms[pod.uid] = (pod.namespace, terms)

    def _terms_of(self, pod: Pod) -> Iterator[tuple[str, AffinityTerm]]:
        is_ours = pod.is_waiting and pod.scheduler_name == self._scheduler_name
        return _written_terms(pod.shape) if is_ours or pod.holds_node else iter(())

    def _invalid(self, pod: Pod) -> PodShape:
        """The shape of a pod that waits: the field with the first term beyond the bound is an error."""
        known = self._counts.get(pod.namespace, Counter())
        fields = [field for field, term in _written_terms(pod.shape) if term not in known]
        insort(self._lines.setdefault(pod.namespace, []), _place_of(pod))
        wrong = (
            f"{fields[0]}: the pods of namespace {pod.namespace} have {len(known)} different terms of pod "
            f"affinity and spread, at most {NAMESPACE_TERMS_MAX} are supported; it waits until others end"
        )
        return _without_terms(pod.shape, invalid=(*pod.shape.invalid, wrong))

    def _coarse(self, pod: Pod) -> PodShape:
        """The shape of a pod with a node: it keeps away all pods of its namespace by these topology keys."""
        keys = sorted({term.topology_key for term in pod.shape.anti_affinity})
        kept: list[AffinityTerm] = []
        for key in keys:
            term = AffinityTerm(key, selector=Term(), namespaces=(pod.namespace,))
            if self._fits(pod.namespace, {*kept, term}, 2 * NAMESPACE_TERMS_MAX + POD_TERMS_MAX):
                kept.append(term)
        if kept:
            self._add(pod, frozenset(kept))
        return _without_terms(pod.shape, anti_affinity=tuple(kept))


def has_terms(pod: Pod) -> bool:
    """Whether the pod has a term; most pods have none."""
    shape = pod.shape
    return bool(
        shape.affinity
        or shape.anti_affinity
        or shape.spread
        or shape.preferred_spread
        or shape.preferred_pod_terms
    )


def _place_of(pod: Pod) -> _Place:
    return pod.created, pod.name, pod.uid


def _written_terms(shape: PodShape) -> Iterator[tuple[str, AffinityTerm]]:
    yield from (("spec.affinity.podAffinity", term) for term in shape.affinity)
    yield from (("spec.affinity.podAntiAffinity", term) for term in shape.anti_affinity)
    yield from (("spec.affinity", each.term) for each in shape.preferred_pod_terms)
    for each in (*shape.spread, *shape.preferred_spread):
        yield "spec.topologySpreadConstraints", each.term


def _without_terms(shape: PodShape, **fields: object) -> PodShape:
    """The shape without its terms, with these fields, and a key of its own."""
    bare = replace(
        shape, affinity=(), anti_affinity=(), spread=(), preferred_spread=(), preferred_pod_terms=()
    )
    return replace(bare, key=ShapeKey(f"{shape.key}-terms"), **fields)
