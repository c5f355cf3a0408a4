"""The terms of pod affinity, anti-affinity and topology spread of a snapshot, each with a number.

Required terms and preferred terms have numbers of their own: their positions in the snapshot. The terms
seldom change from one cycle to the next, so sessions share them with what follows from them alone.
"""

from collections.abc import Iterable, Mapping

from phalanx.framework.nodes.term_matcher import TermMatcher
from phalanx.model.conversion.metadata import PER_POD_LABELS
from phalanx.model.conversion.selectors import keys_of
from phalanx.model.pods import NO_LABELS, AffinityTerms, PodLabels, WeightedPodTerm

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
        self._required_matcher = TermMatcher(required, namespaces)
        self._preferred_matcher = TermMatcher([(term,) for term in preferred], namespaces)
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
