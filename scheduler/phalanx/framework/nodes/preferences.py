"""Pods by topology domain, as preferred pod affinity and anti-affinity count them.

The preferred terms of a pod draw it to pods that they select, or keep it away from them. The terms of placed
pods do the same with a pod that they select, and so does their required affinity.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.framework.nodes.term_matcher import TermMatcher
from phalanx.model.names import NodeName
from phalanx.model.pods import NO_LABELS, AffinityState, Pod, PodLabels, PodShape
from phalanx.model.snapshot import PlacedPods, Snapshot

Counts = dict[str, int]
"""Pods, or sums of weights, by the value of a node label."""

Scores = dict[str, Counts]
"""Sums of weights by node label and value."""


class PodPreferences:
    """Counts of pods by the value of a node label, per preferred term."""

    def __init__(self, snapshot: Snapshot, labels: Mapping[NodeName, Mapping[str, str]]) -> None:
        self.terms = snapshot.preferred_pod_terms
        self._labels = labels
        self._numbers = {term: number for number, term in enumerate(self.terms)}
        self._matcher = TermMatcher([(term,) for term in self.terms], snapshot.namespace_labels)
        self._next_version = itertools.count(1)
        self.versions: dict[int, int] = {}
        """By index, a number that changes whenever the pods that the term concerns change."""
        self._selected: list[Counts] = [{} for _ in self.terms]
        """By index, the pods that the term selects."""
        self._weights: list[Counts] = [{} for _ in self.terms]
        """By index, the sum of the weights of pods that have the term."""
        self._requiring: list[Counts] = [{} for _ in self.terms]
        """By index, the pods that have the term as required affinity."""
        for pods in snapshot.placed_pods if self.terms else ():
            self._count(pods)

    def _count(self, pods: PlacedPods) -> None:
        selected = self.selecting(pods.namespace, PodLabels(pods.labels), NO_LABELS)
        own = tuple((self._numbers[each.term], each.weight) for each in pods.preferred)
        for node, count in pods.nodes.items() if selected or own else ():
            for table, value, amount in self._entries(selected, own, node):
                table[value] = table.get(value, 0) + amount * count

    def selecting(self, namespace: str, labels: PodLabels, own: PodLabels) -> tuple[int, ...]:
        """The indices of the terms that select a pod with these labels."""
        return self._matcher.matches(namespace, labels, own)

    def of_shape(self, shape: PodShape) -> tuple[tuple[int, int], ...]:
        """The indices of the pod's own terms with their weights; required affinity has weight 0."""
        terms = [(each.term, each.weight) for each in shape.preferred_pod_terms]
        terms += [(term, 0) for term in shape.affinity]
        return tuple(sorted((self._numbers[term], weight) for term, weight in terms if term in self._numbers))

    def are_required_by_others(self, pods: Iterable[Pod]) -> bool:
        """Whether the required affinity of a placed pod selects one of these placed pods, and it is none of
        them."""
        own: Counter[int] = Counter()
        selected: set[int] = set()
        for pod in pods:
            state = pod.shape.affinity_state
            if state is not None and pod.node is not None:
                selected.update(state.preferred_by)
                labels = self._labels.get(pod.node, {})
                required = (number for number, weight in state.preferred if not weight)
                own.update(number for number in required if self.terms[number].topology_key in labels)
        return any(sum(self._requiring[number].values()) > own[number] for number in selected)

    def version(self, state: AffinityState) -> Iterator[int]:
        """Equal while no pod was added or removed that changes what nodes cost these pods."""
        for number in (*(number for number, _ in state.preferred), *state.preferred_by):
            yield self.versions.get(number, 0)

    def changes(
        self, state: AffinityState, node: NodeName, by: int
    ) -> Iterator[tuple[dict[Any, int], object, int]]:
        """The changes (table, key, value) for one more pod with this state on the node, or one less.

        A table occurs once for each term that a pod has twice, so each change follows from the one before.
        """
        for table, value, amount in self._entries(state.preferred_by, state.preferred, node):
            yield table, value, table.get(value, 0) + by * amount
        for number in (*state.preferred_by, *(number for number, _ in state.preferred)):
            yield self.versions, number, next(self._next_version)

    def scores(self, state: AffinityState, *, required_weight: int) -> Scores:
        """How much placed pods draw a pod with this state to each value of a label; negative: keep it
        away."""
        scores: Scores = {}
        for number, weight in state.preferred:
            self._add(scores, number, self._selected[number], weight)
        for number in state.preferred_by:
            self._add(scores, number, self._weights[number], 1)
            self._add(scores, number, self._requiring[number], required_weight)
        return scores

    def _add(self, scores: Scores, number: int, counts: Counts, weight: int) -> None:
        if not (weight and counts):
            return
        values = scores.setdefault(self.terms[number].topology_key, {})
        for value, count in counts.items():
            values[value] = values.get(value, 0) + weight * count

    def _entries(
        self, selected: tuple[int, ...], own: tuple[tuple[int, int], ...], node: NodeName
    ) -> Iterator[tuple[Counts, str, int]]:
        """The tables that a pod on this node changes, with the value of the label and the amount."""
        labels = self._labels.get(node, {})
        for number in selected:
            key = self.terms[number].topology_key
            if key in labels:
                yield self._selected[number], labels[key], 1
        for number, weight in own:
            key = self.terms[number].topology_key
            if key in labels:
                table = self._weights[number] if weight else self._requiring[number]
                yield table, labels[key], weight or 1
