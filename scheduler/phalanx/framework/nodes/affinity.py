"""Pods by topology domain, as pod affinity and anti-affinity count them; pods by node, as spread constraints
do.

Affinity terms are identified by their index in the snapshot. Counts follow the session: a pod that a
statement places counts for the next one. A snapshot without terms costs nothing.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace

from phalanx.framework.nodes.preferences import PodPreferences
from phalanx.framework.nodes.term_matcher import TermMatcher
from phalanx.model.conversion.metadata import PER_POD_LABELS
from phalanx.model.conversion.selectors import keys_of
from phalanx.model.gangs import Gang
from phalanx.model.memory import ExpectedPod
from phalanx.model.names import NodeName, PodUid, ShapeKey
from phalanx.model.pods import (
    NO_LABELS,
    AffinityState,
    AffinityTerm,
    AffinityTerms,
    Pod,
    PodLabels,
    PodShape,
)
from phalanx.model.resources import NONE
from phalanx.model.snapshot import PlacedPods, Snapshot

_KEY_BYTES: Final = 8
_EMPTY: Final = "''"

Counts = dict[str, int]
"""Pods by the value of a node label, or by node."""


def required_terms(snapshot: Snapshot) -> tuple[AffinityTerms, ...]:
    """Those of pods, and the anti-affinity of pods that start again after a move."""
    known = snapshot.pod_affinity_terms
    expected = {
        (term,)
        for move in snapshot.memory.moves.values()
        for pods in move.apart.values()
        for pod in pods
        for term in pod.anti_affinity
    }
    return (*known, *sorted(expected.difference(known), key=repr)) if expected else known


class AffinityIndex:
    """Counts of pods by the value of a node label, per affinity term."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.terms = required_terms(snapshot)
        self._labels = {name: state.node.labels for name, state in snapshot.nodes.items()}
        self._numbers = {terms: number for number, terms in enumerate(self.terms)}
        self._matcher = TermMatcher(self.terms, snapshot.namespace_labels)
        self.preferences = PodPreferences(snapshot, self._labels)
        watched = {key for terms in (*self.terms, self.preferences.terms) for key in keys_of(terms)}
        self._selects_by_member = not watched.isdisjoint(PER_POD_LABELS)
        self._next_version = itertools.count(1)
        self._unique: dict[str, bool] = {}
        self._shapes: dict[AffinityState, PodShape] = {}
        self._spread = frozenset(number for number, terms in enumerate(self.terms) if terms[0].for_spread)
        self._affinity_terms: set[int] = set(self._spread)
        """The terms that count only pods that exist."""
        self._wanted: set[int] = set()
        """The required affinity of waiting pods."""
        self.versions: dict[int, int] = {}
        """By index, a number that changes whenever the pods that the terms concern change."""
        self.matching: list[list[Counts]] = [[{} for _ in terms] for terms in self.terms]
        """By index, per term, the pods that the terms select. For spread constraints by node."""
        self.avoiding: list[Counts] = [{} for _ in self.terms]
        """By index, the pods that have the terms as anti-affinity."""
        for placed_pods in snapshot.placed_pods:
            matches = self._matcher.matches(placed_pods.namespace, PodLabels(placed_pods.labels), NO_LABELS)
            if placed_pods.is_terminating:
                matches = tuple(self._without_spread(matches))
            avoids = self._numbers_of((term,) for term in placed_pods.anti_affinity)
            for node, count in placed_pods.nodes.items() if matches or avoids else ():
                for table, value in self._tables(matches, avoids, node):
                    table[value] = table.get(value, 0) + count

    def with_states(self, gang: Gang) -> Gang:
        """The gang with the affinity state of each pod in its shape; unchanged if no term concerns it."""
        states = [self._state(pod) for pod in gang.members]
        if not any(states):
            return gang
        matched = {
            (state.affinity, number)
            for pod, state in zip(gang.members, states, strict=True)
            if state is not None and pod.is_waiting
            for number in state.matched_by
        }
        members = tuple(
            pod if state is None else replace(pod, shape=self._shape(pod.shape, state, matched))
            for pod, state in zip(gang.members, states, strict=True)
        )
        return replace(gang, members=members)

    def as_pod(self, expected: ExpectedPod) -> Pod:
        """A pod with the affinity state of one that does not exist yet."""
        pod = Pod(
            uid=PodUid(""),
            namespace=expected.namespace,
            name="",
            shape=PodShape(key=ShapeKey(""), requests=NONE, anti_affinity=expected.anti_affinity),
            scheduler_name="",
            created=0,
            labels=PodLabels(expected.labels),
            per_pod_labels=PodLabels(expected.per_pod_labels),
        )
        return replace(pod, shape=replace(pod.shape, affinity_state=self._state(pod)))

    def version(self, state: AffinityState) -> tuple[int, ...]:
        """Equal while no pod was added or removed that changes the nodes for these pods, or their costs.

        Spread constraints that must hold are rules of the gang and exclude no nodes.
        """
        near = () if state.affinity is None else (state.affinity,)
        numbers = self._without_spread((*near, *state.anti_affinity, *state.matched_by))
        required = [self.versions.get(number, 0) for number in (*numbers, *state.preferred_spread)]
        return (*required, *self.preferences.version(state))

    def changes(
        self,
        state: AffinityState,
        node: NodeName,
        by: int = 1,
        *,
        is_absent: bool = False,
        is_terminating: bool = False,
    ) -> Iterator[tuple[dict[Any, int], object, int]]:
        """The changes (table, key, value) for one more pod with this state on the node, or one less.

        A pod that `is_absent` does not exist yet: it repels pods by anti-affinity, but attracts none by
        affinity. Spread constraints count neither such a pod nor one that terminates.
        """
        matches = [
            number for number in state.matched_by if not is_absent or number not in self._affinity_terms
        ]
        if is_terminating:
            matches = self._without_spread(matches)
        for table, value in self._tables(matches, state.anti_affinity, node):
            yield table, value, table.get(value, 0) + by
        for number in (*matches, *state.anti_affinity):
            yield self.versions, number, next(self._next_version)
        if not is_absent:
            yield from self.preferences.changes(state, node, by)

    def values_with_matches(self, number: int) -> list[frozenset[str]]:
        """Per term, the values of its label in whose domains selected pods are."""
        return [frozenset(_positive(counts)) for counts in self.matching[number]]

    def values_avoided(self, number: int) -> frozenset[str]:
        """The values of the label in whose domains pods with this anti-affinity are."""
        return frozenset(_positive(self.avoiding[number]))

    def spread_counts(self, term: AffinityTerm) -> Iterator[tuple[NodeName, int]]:
        """The pods that a spread constraint counts, by node."""
        number = self._numbers.get((term,))
        for node, count in self.matching[number][0].items() if number is not None else ():
            yield NodeName(node), count

    def is_counted(self, shape: PodShape, term: AffinityTerm) -> bool:
        """Whether a spread constraint with this term counts pods of this shape."""
        state = shape.affinity_state
        return state is not None and self._numbers.get((term,)) in state.matched_by

    def nodes_with_matches(self, number: int, placed_pods: Iterable[PlacedPods]) -> Counter[NodeName]:
        """The number of these pods that the terms select, by node."""
        found: Counter[NodeName] = Counter()
        for pods in placed_pods:
            if number in self._matcher.matches(pods.namespace, PodLabels(pods.labels), NO_LABELS):
                found.update(pods.nodes)
        return found

    def repelling_nodes(
        self, state: AffinityState, key: str, placed_pods: Sequence[PlacedPods]
    ) -> set[NodeName]:
        """The nodes of these pods that anti-affinity by this label keeps apart from a pod with this state, or
        that a spread constraint by this label counts."""
        numbers = (*state.anti_affinity, *state.spread)
        avoided = [number for number in numbers if self.terms[number][0].topology_key == key]
        found = {node for number in avoided for node in self.nodes_with_matches(number, placed_pods)}
        for pods in placed_pods:
            terms = self._numbers_of((term,) for term in pods.anti_affinity if term.topology_key == key)
            if not set(terms).isdisjoint(state.matched_by):
                found.update(pods.nodes)
        return found

    def conflict(self, pod: Pod, node: NodeName) -> str:
        """The reason why anti-affinity forbids a pod that was just placed on the node; empty if none does."""
        state = pod.shape.affinity_state
        if state is None:
            return ""
        labels = self._labels[node]
        for number in (*state.anti_affinity, *state.matched_by):
            key = self.terms[number][0].topology_key
            avoids, matches = number in state.anti_affinity, number in state.matched_by
            if key not in labels:
                continue
            if avoids and self.matching[number][0].get(labels[key], 0) > matches:
                return f"pod {pod} shares a domain of {key} with pods that its anti-affinity avoids"
            if matches and self.avoiding[number].get(labels[key], 0) > avoids:
                return f"pod {pod} shares a domain of {key} with pods whose anti-affinity avoids it"
        return ""

    def knows_rules_of(self, shape: PodShape) -> bool:
        """Whether the terms are known by which new pods of this shape would be placed."""
        required = (shape.affinity, *((each.term,) for each in shape.spread))
        return all(terms in self._numbers for terms in required if terms)

    def is_wanted(self, state: AffinityState) -> bool:
        """Whether waiting pods require such pods near them."""
        return not self._wanted.isdisjoint(state.matched_by)

    def has_unique_values(self, key: str) -> bool:
        """Whether every node has this label, each with its own value."""
        if key not in self._unique:
            values = [labels.get(key) for labels in self._labels.values()]
            self._unique[key] = None not in values and len(set(values)) == len(values)
        return self._unique[key]

    def _state(self, pod: Pod) -> AffinityState | None:
        shape = pod.shape
        own = pod.per_pod_labels if self._selects_by_member else NO_LABELS
        matches = self._matcher.matches(pod.namespace, pod.labels, own)
        preferred = self.preferences.of_shape(shape)
        preferred_by = self.preferences.selecting(pod.namespace, pod.labels, own)
        required = matches or shape.affinity or shape.anti_affinity or shape.spread
        if not (required or preferred or preferred_by or shape.preferred_spread):
            return None
        spread = self._numbers_of((each.term,) for each in shape.spread if pod.is_waiting)
        prefers = self._numbers_of((each.term,) for each in shape.preferred_spread if pod.is_waiting)
        near = self._numbers.get(shape.affinity) if shape.affinity else None
        if near is not None:
            self._affinity_terms.add(near)
            if pod.is_waiting:
                self._wanted.add(near)
        apart = self._numbers_of((term,) for term in shape.anti_affinity)
        return AffinityState(
            base_key=shape.key,
            affinity=near if pod.is_waiting else None,
            anti_affinity=apart,
            matched_by=matches,
            spread=spread,
            preferred=preferred,
            preferred_by=preferred_by,
            preferred_spread=prefers,
        )

    def _shape(self, shape: PodShape, state: AffinityState, matched: set[tuple[int | None, int]]) -> PodShape:
        """The shape with its affinity state, under a key that is the same in every cycle."""
        if state.affinity is not None:
            state = replace(
                state,
                is_in_gang=any(
                    near != state.affinity for near, number in matched if number == state.affinity
                ),
                can_start=(state.affinity, state.affinity) in matched,
            )
        known = self._shapes.get(state)
        if known is None:
            near = () if state.affinity is None else self.terms[state.affinity]
            others = [
                [self.terms[number] for number in some] for some in (state.anti_affinity, state.matched_by)
            ]
            preferred = [(self.preferences.terms[number], weight) for number, weight in state.preferred]
            preferred_by = [self.preferences.terms[number] for number in state.preferred_by]
            parts = (near, others, state.is_in_gang, state.can_start, preferred, preferred_by)
            content = repr(parts).encode()
            digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
            known = replace(shape, key=ShapeKey(f"{shape.key}+{digest}"), affinity_state=state)
            self._shapes[state] = known
        return known

    def _without_spread(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if number not in self._spread]

    def _numbers_of(self, terms: Iterable[AffinityTerms]) -> tuple[int, ...]:
        return tuple(sorted({self._numbers[term] for term in terms if term in self._numbers}))

    def _tables(
        self, matches: Iterable[int], avoids: Sequence[int], node: NodeName
    ) -> Iterator[tuple[Counts, str]]:
        """The counts that a pod on this node changes, with the value of the label or the node."""
        labels = self._labels.get(node, {})
        for number in matches:
            if number in self._spread:
                yield self.matching[number][0], node
                continue
            for counts, term in zip(self.matching[number], self.terms[number], strict=True):
                if term.topology_key in labels:
                    yield counts, labels[term.topology_key]
        for number in avoids:
            key = self.terms[number][0].topology_key
            if key in labels:
                yield self.avoiding[number], labels[key]


def label_value(labels: Mapping[str, str], key: str) -> str:
    """The value of a label as placement problems write it; empty if the label is absent."""
    return quoted_value(labels[key]) if key in labels else ""


def quoted_value(value: str) -> str:
    """A value as placement problems write it: an empty one is quoted, since no label value has quotes."""
    return value or _EMPTY


def _positive(counts: Counts) -> list[str]:
    return [value for value, count in counts.items() if count > 0]
