"""Counts of placed pods by topology domain or by node, for each term that concerns them.

Sessions continue the counts of the session before: only pods that came or went are counted. The counts of a
session are never changed by another one, since a copy replaces a table before it changes it.
"""

from collections.abc import Iterable, Iterator, Mapping

from phalanx.framework.nodes.pod_terms import PodTerms
from phalanx.model.names import NodeName
from phalanx.model.pods import PodLabels
from phalanx.model.snapshot import PlacedPods

Counts = dict[str, int]
"""Pods, or sums of weights, by the value of a node label, or pods by node."""

NodeLabels = Mapping[NodeName, Mapping[str, str]]


class PodCounts:
    """The counts by number of term.

    - `matching`: for each of the required terms that apply together, the pods that they select. For spread
      constraints by node.
    - `avoiding`: the pods that have the term as anti-affinity.
    - `selected`: the pods that the preferred term selects.
    - `weights`: the sum of the weights of the pods that have the preferred term.
    - `requiring`: the pods that have the term as required affinity.
    """

    def __init__(self, terms: PodTerms, labels: NodeLabels) -> None:
        self.terms = terms
        self.labels = labels
        self.matching: list[list[Counts]] = [[{} for _ in each] for each in terms.required]
        self.avoiding: list[Counts] = [{} for _ in terms.required]
        self.selected: list[Counts] = [{} for _ in terms.preferred]
        self.weights: list[Counts] = [{} for _ in terms.preferred]
        self.requiring: list[Counts] = [{} for _ in terms.preferred]
        self._own = set(range(len(terms.required)))
        """Numbers of required terms whose tables belong to this object alone."""
        self._own_preferred = set(range(len(terms.preferred)))

    def copy(self) -> "PodCounts":
        """Counts that change independently. Both may only be changed through `tables` and `weight_tables`."""
        made = object.__new__(PodCounts)
        made.terms, made.labels = self.terms, self.labels
        made.matching, made.avoiding = list(self.matching), list(self.avoiding)
        made.selected, made.weights = list(self.selected), list(self.weights)
        made.requiring = list(self.requiring)
        made._own, made._own_preferred = set(), set()
        self._own, self._own_preferred = set(), set()
        return made

    def add(self, placed_pods: Iterable[PlacedPods], by: int = 1) -> None:
        """Count these pods `by` times: 1 for pods that came, -1 for pods that went."""
        terms = self.terms
        for pods in placed_pods:
            labels = PodLabels(pods.labels)
            matches: Iterable[int] = terms.selecting(pods.namespace, labels)
            if pods.is_terminating:
                matches = [number for number in matches if number not in terms.spread]
            avoids = terms.numbers_of((term,) for term in pods.anti_affinity)
            selected = terms.preferring(pods.namespace, labels)
            own = terms.weights_of(pods.preferred)
            for node, count in pods.nodes.items() if matches or avoids or selected or own else ():
                for table, value in self.tables(matches, avoids, node):
                    _add(table, value, by * count)
                for table, value, amount in self.weight_tables(selected, own, node):
                    _add(table, value, by * amount * count)

    def tables(
        self, matches: Iterable[int], avoids: Iterable[int], node: NodeName
    ) -> Iterator[tuple[Counts, str]]:
        """The tables of required terms that a pod on this node changes, with the value of the label or the
        node. The terms of `matches` select the pod; it has those of `avoids` as anti-affinity."""
        labels = self.labels.get(node, {})
        for number in matches:
            self._take(number)
            if number in self.terms.spread:
                yield self.matching[number][0], node
                continue
            for counts, term in zip(self.matching[number], self.terms.required[number], strict=True):
                if term.topology_key in labels:
                    yield counts, labels[term.topology_key]
        for number in avoids:
            self._take(number)
            key = self.terms.required[number][0].topology_key
            if key in labels:
                yield self.avoiding[number], labels[key]

    def weight_tables(
        self, selected: Iterable[int], own: Iterable[tuple[int, int]], node: NodeName
    ) -> Iterator[tuple[Counts, str, int]]:
        """The tables of preferred terms that a pod on this node changes, with the value of the label and the
        amount."""
        labels = self.labels.get(node, {})
        for number in selected:
            key = self.terms.preferred[number].topology_key
            if key in labels:
                self._take_preferred(number)
                yield self.selected[number], labels[key], 1
        for number, weight in own:
            key = self.terms.preferred[number].topology_key
            if key in labels:
                self._take_preferred(number)
                table = self.weights[number] if weight else self.requiring[number]
                yield table, labels[key], weight or 1

    def _take(self, number: int) -> None:
        if number not in self._own:
            self._own.add(number)
            self.matching[number] = [dict(counts) for counts in self.matching[number]]
            self.avoiding[number] = dict(self.avoiding[number])

    def _take_preferred(self, number: int) -> None:
        if number not in self._own_preferred:
            self._own_preferred.add(number)
            for tables in (self.selected, self.weights, self.requiring):
                tables[number] = dict(tables[number])


class PodCountsCache:
    """The counts of the last session, for the next one."""

    def __init__(self, last: tuple[tuple[PlacedPods, ...], PodCounts] | None = None) -> None:
        self._last = last

    def copy(self) -> "PodCountsCache":
        """A cache that begins with the same counts."""
        return PodCountsCache(self._last)

    def counts(self, terms: PodTerms, labels: NodeLabels, placed_pods: tuple[PlacedPods, ...]) -> PodCounts:
        """The counts of these pods by these terms, for one session."""
        last, counts = self._last or ((), None)
        gone = _without(last, placed_pods)
        is_new = counts is None or counts.terms is not terms or counts.labels != labels
        if counts is None or is_new or 2 * len(gone) > len(last):
            counts = PodCounts(terms, labels)
            counts.add(placed_pods)
        elif placed_pods is not last:
            counts = counts.copy()
            counts.add(gone, -1)
            counts.add(_without(placed_pods, last))
        self._last = (placed_pods, counts)
        return counts.copy()


def _without(placed_pods: tuple[PlacedPods, ...], others: tuple[PlacedPods, ...]) -> list[PlacedPods]:
    """Those that are not among the others; the index of placed pods returns unchanged ones as they are."""
    known = {id(each) for each in others}
    return [each for each in placed_pods if id(each) not in known]


def _add(table: Counts, value: str, amount: int) -> None:
    """Entries of 0 are left out, so that equal pods have equal tables."""
    total = table.get(value, 0) + amount
    if total:
        table[value] = total
    else:
        table.pop(value, None)
