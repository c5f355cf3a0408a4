"""Pods by topology domain, as pod affinity and anti-affinity count them; pods by node, as spread constraints
do.

Affinity terms are identified by their index in the snapshot. Counts follow the session: a pod that a
statement places counts for the next one. A snapshot without terms costs nothing.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from phalanx.framework.nodes.affinity_states import AffinityStates
from phalanx.framework.nodes.pod_counts import Counts, PodCounts, PodCountsCache
from phalanx.framework.nodes.pod_terms import PodTerms
from phalanx.framework.nodes.preferences import PodPreferences
from phalanx.model.gangs import Gang
from phalanx.model.memory import ExpectedPod
from phalanx.model.names import GangId, NodeName, PodUid, ShapeKey
from phalanx.model.pods import (
    AffinityState,
    AffinityTerm,
    AffinityTerms,
    Pod,
    PodLabels,
    PodPhase,
    PodShape,
)
from phalanx.model.resources import NONE
from phalanx.model.snapshot import PlacedPods, Snapshot

_EMPTY: Final = "''"


def _required_terms(snapshot: Snapshot) -> tuple[AffinityTerms, ...]:
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


class AffinityCache:
    """What the index of the last session passes to that of the next one."""

    def __init__(self, states: AffinityStates | None = None, counts: PodCountsCache | None = None) -> None:
        self._states = states
        self._counts = counts or PodCountsCache()

    def index(self, snapshot: Snapshot) -> "AffinityIndex | None":
        """The index of a session on this snapshot; None while no pod has affinity terms."""
        required, preferred = _required_terms(snapshot), snapshot.preferred_pod_terms
        if not (required or preferred):
            return None
        states = self._states
        if states is None or not states.terms.are_those_of(required, preferred, snapshot.namespace_labels):
            states = AffinityStates(PodTerms(required, preferred, snapshot.namespace_labels))
        self._states = states
        labels = {name: state.node.labels for name, state in snapshot.nodes.items()}
        return AffinityIndex(states, self._counts.counts(states.terms, labels, snapshot.placed_pods))

    def copy(self) -> "AffinityCache":
        """A cache for sessions on other snapshots, which begins with the same terms and counts."""
        return AffinityCache(self._states, self._counts.copy())

    def forget_unused(self, gangs: Collection[GangId]) -> None:
        """Forget the states of other gangs than these, if they are many."""
        if self._states is not None:
            self._states.keep(gangs)


class AffinityIndex:
    """Counts of pods by the value of a node label, per affinity term."""

    def __init__(self, states: AffinityStates, counts: PodCounts) -> None:
        self.terms = states.terms.required
        self._terms = states.terms
        self._states = states
        self._counts = counts
        self.preferences = PodPreferences(counts)
        self._next_version = itertools.count(1)
        self._unique: dict[str, bool] = {}
        self._affinity_terms: set[int] = set(self._terms.spread)
        """The terms that count only pods that exist."""
        self._wanted: set[int] = set()
        """The required affinity of waiting pods."""
        self.versions: dict[int, int] = {}
        """By index, a number that changes whenever the pods that the terms concern change."""

    def with_states(self, gang: Gang) -> Gang:
        """The gang with the affinity state of each pod in its shape; unchanged if no term concerns it."""
        known = self._states.of(gang)
        self._affinity_terms |= known.near
        self._wanted |= known.near_waiting
        return known.after

    def as_pod(self, expected: ExpectedPod) -> Pod:
        """A pod with the affinity state of one that does not exist yet."""
        shape = PodShape(key=ShapeKey(""), requests=NONE, anti_affinity=expected.anti_affinity)
        pod = _nameless_pod(expected.namespace, expected.labels, shape)
        return self._with_state(replace(pod, per_pod_labels=PodLabels(expected.per_pod_labels)))

    def pods_of(self, placed: PlacedPods) -> list[Pod]:
        """These pods with their affinity states; none if no term concerns them."""
        shape = PodShape(
            key=ShapeKey(""),
            requests=NONE,
            anti_affinity=placed.anti_affinity,
            preferred_pod_terms=placed.preferred,
        )
        pod = self._with_state(_nameless_pod(placed.namespace, placed.labels, shape))
        if pod.shape.affinity_state is None:
            return []
        pod = replace(pod, phase=PodPhase.RUNNING, deleting=placed.is_terminating)
        return [replace(pod, node=node) for node, count in placed.nodes.items() for _ in range(count)]

    def _with_state(self, pod: Pod) -> Pod:
        return replace(pod, shape=replace(pod.shape, affinity_state=self._states.state_of(pod)))

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
        for table, value in self._counts.tables(matches, state.anti_affinity, node):
            yield table, value, table.get(value, 0) + by
        for number in (*matches, *state.anti_affinity):
            yield self.versions, number, next(self._next_version)
        if not is_absent:
            yield from self.preferences.changes(state, node, by)

    def values_with_matches(self, number: int) -> list[frozenset[str]]:
        """Per term, the values of its label in whose domains selected pods are."""
        return [frozenset(_positive(counts)) for counts in self._counts.matching[number]]

    def values_avoided(self, number: int) -> frozenset[str]:
        """The values of the label in whose domains pods with this anti-affinity are."""
        return frozenset(_positive(self._counts.avoiding[number]))

    def spread_counts(self, term: AffinityTerm) -> Iterator[tuple[NodeName, int]]:
        """The pods that a spread constraint counts, by node."""
        number = self._terms.number_of((term,))
        for node, count in self._counts.matching[number][0].items() if number is not None else ():
            yield NodeName(node), count

    def is_counted(self, shape: PodShape, term: AffinityTerm) -> bool:
        """Whether a spread constraint with this term counts pods of this shape."""
        state = shape.affinity_state
        return state is not None and self._terms.number_of((term,)) in state.matched_by

    def nodes_with_matches(self, number: int, placed_pods: Iterable[PlacedPods]) -> Counter[NodeName]:
        """The number of these pods that the terms select, by node."""
        found: Counter[NodeName] = Counter()
        for pods in placed_pods:
            if number in self._terms.selecting(pods.namespace, PodLabels(pods.labels)):
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
            terms = self._terms.numbers_of((term,) for term in pods.anti_affinity if term.topology_key == key)
            if not set(terms).isdisjoint(state.matched_by):
                found.update(pods.nodes)
        return found

    def conflict(self, pod: Pod, node: NodeName) -> str:
        """The reason why anti-affinity forbids a pod that was just placed on the node; empty if none does."""
        state = pod.shape.affinity_state
        if state is None:
            return ""
        labels = self._counts.labels[node]
        for number in (*state.anti_affinity, *state.matched_by):
            key = self.terms[number][0].topology_key
            avoids, matches = number in state.anti_affinity, number in state.matched_by
            if key not in labels:
                continue
            if avoids and self._counts.matching[number][0].get(labels[key], 0) > matches:
                return f"pod {pod} shares a domain of {key} with pods that its anti-affinity avoids"
            if matches and self._counts.avoiding[number].get(labels[key], 0) > avoids:
                return f"pod {pod} shares a domain of {key} with pods whose anti-affinity avoids it"
        return ""

    def knows_rules_of(self, shape: PodShape) -> bool:
        """Whether the terms are known by which new pods of this shape would be placed."""
        required = (shape.affinity, *((each.term,) for each in shape.spread))
        return all(self._terms.number_of(terms) is not None for terms in required if terms)

    def is_wanted(self, state: AffinityState) -> bool:
        """Whether waiting pods require such pods near them."""
        return not self._wanted.isdisjoint(state.matched_by)

    def has_unique_values(self, key: str) -> bool:
        """Whether every node has this label, each with its own value."""
        if key not in self._unique:
            values = [labels.get(key) for labels in self._counts.labels.values()]
            self._unique[key] = None not in values and len(set(values)) == len(values)
        return self._unique[key]

    def _without_spread(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if number not in self._terms.spread]


def label_value(labels: Mapping[str, str], key: str) -> str:
    """The value of a label as placement problems write it; empty if the label is absent."""
    return quoted_value(labels[key]) if key in labels else ""


def quoted_value(value: str) -> str:
    """A value as placement problems write it: an empty one is quoted, since no label value has quotes."""
    return value or _EMPTY


def _nameless_pod(namespace: str, labels: tuple[tuple[str, str], ...], shape: PodShape) -> Pod:
    """A pod that stands for all with these labels and this shape."""
    return Pod(
        uid=PodUid(""),
        namespace=namespace,
        name="",
        shape=shape,
        scheduler_name="",
        created=0,
        labels=PodLabels(labels),
    )


def _positive(counts: Counts) -> list[str]:
    return [value for value, count in counts.items() if count > 0]
