"""Which affinity terms select a pod."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from phalanx.limits import MATCHED_LABELS_MAX
from phalanx.model.pods import AffinityTerms, PodLabels, Term
from phalanx.model.selectors import labels_match, required_label_pairs


class _Selection(Struct, frozen=True):
    """Terms that select pods together, with their index and their namespaces (None for all)."""

    number: int
    terms: AffinityTerms
    namespaces: tuple[frozenset[str] | None, ...]

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is selected by all terms."""
        return all(
            (names is None or namespace in names)
            and term.selector is not None
            and labels_match(labels, term.selector)
            for term, names in zip(self.terms, self.namespaces, strict=True)
        )


class TermMatcher:
    """Finds the terms that select a pod. Pods with equal labels are looked up once."""

    def __init__(self, terms: Sequence[AffinityTerms], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._index = _indexed(terms, namespaces)
        self._known: dict[tuple[str, PodLabels, PodLabels], tuple[int, ...]] = {}

    def matches(self, namespace: str, labels: PodLabels, own: PodLabels) -> tuple[int, ...]:
        """The indices of all terms that select a pod with these labels."""
        if not self._index:
            return ()
        found = self._known.get((namespace, labels, own))
        if found is None:
            if len(self._known) >= MATCHED_LABELS_MAX:
                self._known.clear()
            pairs = dict((*labels.pairs, *own.pairs))
            selected = {
                selection.number
                for key in [None, *pairs.items()]
                for selection in self._index.get(key, ())
                if selection.selects(namespace, pairs)
            }
            found = self._known[namespace, labels, own] = tuple(sorted(selected))
        return found


def _indexed(
    terms: Sequence[AffinityTerms], namespaces: Mapping[str, Mapping[str, str]]
) -> dict[tuple[str, str] | None, list[_Selection]]:
    """All terms by a label that selected pods must have; under None those that require no certain label."""
    index: dict[tuple[str, str] | None, list[_Selection]] = {}
    for number, group in enumerate(terms):
        where = tuple(_namespaces(term.namespaces, term.namespace_selector, namespaces) for term in group)
        selection = _Selection(number, group, where)
        for key in required_label_pairs(group):
            index.setdefault(key, []).append(selection)
    return index


def _namespaces(
    names: Sequence[str], selector: Term | None, known: Mapping[str, Mapping[str, str]]
) -> frozenset[str] | None:
    if selector is None:
        return frozenset(names)
    if not selector.requirements:
        return None
    return frozenset((*names, *(name for name, labels in known.items() if labels_match(labels, selector))))
