"""Pods by topology domain, as preferred pod affinity and anti-affinity count them.

The preferred terms of a pod draw it to pods that they select, or keep it away from them. The terms of placed
pods do the same with a pod that they select, and so does their required affinity.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from phalanx.framework.nodes.pod_counts import Counts, PodCounts
from phalanx.model.names import NodeName
from phalanx.model.pods import AffinityState, Pod

Scores = dict[str, Counts]
"""Sums of weights by node label and value."""


class PodPreferences:
    """What placed pods make nodes worth, by preferred terms."""

    def __init__(self, counts: PodCounts) -> None:
        self.terms = counts.terms.preferred
        self._counts = counts
        self._next_version = itertools.count(1)
        self.versions: dict[int, int] = {}
        """By index, a number that changes whenever the pods that the term concerns change."""

    def are_required_by_others(self, pods: Iterable[Pod]) -> bool:
        """Whether the required affinity of a placed pod selects one of these placed pods, and it is none of
        them."""
        own: Counter[int] = Counter()
        selected: set[int] = set()
        for pod in pods:
            state = pod.shape.affinity_state
            if state is not None and pod.node is not None:
                selected.update(state.preferred_by)
                labels = self._counts.labels.get(pod.node, {})
                required = (number for number, weight in state.preferred if not weight)
                own.update(number for number in required if self.terms[number].topology_key in labels)
        return any(sum(self._counts.requiring[number].values()) > own[number] for number in selected)

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
        entries = self._counts.weight_tables(state.preferred_by, state.preferred, node)
        for table, value, amount in entries:
            yield table, value, table.get(value, 0) + by * amount
        for number in (*state.preferred_by, *(number for number, _ in state.preferred)):
            yield self.versions, number, next(self._next_version)

    def scores(self, state: AffinityState, *, required_weight: int) -> Scores:
        """How much placed pods draw a pod with this state to each value of a label; negative: keep it
        away."""
        scores: Scores = {}
        for number, weight in state.preferred:
            self._add(scores, number, self._counts.selected[number], weight)
        for number in state.preferred_by:
            self._add(scores, number, self._counts.weights[number], 1)
            self._add(scores, number, self._counts.requiring[number], required_weight)
        return scores

    def _add(self, scores: Scores, number: int, counts: Counts, weight: int) -> None:
        if not (weight and counts):
            return
        values = scores.setdefault(self.terms[number].topology_key, {})
        for value, count in counts.items():
            values[value] = values.get(value, 0) + weight * count
