"""The terms of pod affinity, anti-affinity and topology spread of a snapshot, each with a number.

Required terms and preferred terms have numbers of their own: their positions in the snapshot. The terms
seldom change from one cycle to the next, so sessions share them with what follows from them alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx.model.conversion.metadata import PER_POD_LABELS
from phalanx.model.conversion.selectors import keys_of
from phalanx.model.pods import NO_LABELS, AffinityTerms, PodLabels, Term, WeightedPodTerm
from phalanx.model.selectors import labels_match, required_label_pairs

_MATCHED_LABELS_MAX: Final = 1 << 16
"""Sets of labels for which the terms that select them are remembered. Pods of one template share a set."""


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


class _TermMatcher:
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
            if len(self._known) >= _MATCHED_LABELS_MAX:
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


NamespaceLabels = Mapping[str, Mapping[str, str]]


class PodTerms:
    """The terms, and which of them select a pod."""

    def __init__(
        self, required: tuple[AffinityTerms, ...], preferred: AffinityTerms, namespaces: NamespaceLabels
    ) -> None:
        self.required = required
        self.preferred = preferred
        self.spread = frozenset(number for number, terms in enumerate(required) if terms[0].for_spread)
        """The numbers of the terms by which spread constraints count."""
        self._numbers = {terms: number for number, terms in enumerate(required)}
        self._preferred_numbers = {term: number for number, term in enumerate(preferred)}
        self._namespaces = namespaces
        self._required_matcher = _TermMatcher(required, namespaces)
        self._preferred_matcher = _TermMatcher([(term,) for term in preferred], namespaces)
        watched = {key for terms in (*required, preferred) for key in keys_of(terms)}
        self._select_by_member = not watched.isdisjoint(PER_POD_LABELS)

    def are_those_of(
        self, required: tuple[AffinityTerms, ...], preferred: AffinityTerms, namespaces: NamespaceLabels
    ) -> bool:
        """Whether they were made from these very objects."""
        return self.required is required and self.preferred is preferred and self._namespaces is namespaces

    def number_of(self, terms: AffinityTerms) -> int | None:
        """The number of required terms that apply together; None if the snapshot does not have them."""
        return self._numbers.get(terms)

    def numbers_of(self, terms: Iterable[AffinityTerms]) -> tuple[int, ...]:
        """The numbers of required terms, sorted, each once, without terms that the snapshot does not have."""
        found = {self._numbers.get(each) for each in terms}
        return tuple(sorted(number for number in found if number is not None))

    def weights_of(self, terms: Iterable[WeightedPodTerm]) -> tuple[tuple[int, int], ...]:
        """The numbers of preferred terms with their weights, without terms that are not in the snapshot."""
        found = [(self._preferred_numbers.get(each.term), each.weight) for each in terms]
        return tuple([(number, weight) for number, weight in found if number is not None])

    def selecting(self, namespace: str, labels: PodLabels, own: PodLabels = NO_LABELS) -> tuple[int, ...]:
        """The numbers of the required terms that select a pod. `own`: labels that differ from pod to pod."""
        own = own if self._select_by_member else NO_LABELS
        return self._required_matcher.matches(namespace, labels, own)

    def preferring(self, namespace: str, labels: PodLabels, own: PodLabels = NO_LABELS) -> tuple[int, ...]:
        """The numbers of the preferred terms that select a pod."""
        own = own if self._select_by_member else NO_LABELS
        return self._preferred_matcher.matches(namespace, labels, own)
