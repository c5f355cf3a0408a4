"""What the terms of a snapshot are to each member of a gang: which select it, and which it has.

A gang that is the same object as in the last cycle is not read again while the terms are the same.
"""

from collections.abc import Collection
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from phalanx.framework.nodes.pod_terms import PodTerms
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, ShapeKey
from phalanx.model.pods import AffinityState, Pod, PodShape, WeightedPodTerm

_KEY_BYTES: Final = 8


class GangWithStates(Struct, frozen=True):
    """A gang before and after each shape has the affinity state of its pods.

    `near`: the numbers of the required affinity of its members; `near_waiting`: of those that wait.
    """

    before: Gang
    after: Gang
    near: frozenset[int] = frozenset()
    near_waiting: frozenset[int] = frozenset()


class AffinityStates:
    """The affinity states of the members of gangs, by the terms of a snapshot."""

    def __init__(self, terms: PodTerms) -> None:
        self.terms = terms
        self._shapes: WeakValueDictionary[AffinityState, PodShape] = WeakValueDictionary()
        self._gangs: dict[GangId, GangWithStates] = {}

    def of(self, gang: Gang) -> GangWithStates:
        """The gang with states; the gang as it is if no term concerns it."""
        known = self._gangs.get(gang.id)
        if known is None or known.before is not gang:
            known = self._gangs[gang.id] = self._read(gang)
        return known

    def keep(self, gangs: Collection[GangId]) -> None:
        """Forget other gangs, if they are more than these."""
        if len(self._gangs) > 2 * len(gangs):
            self._gangs = {gang: self._gangs[gang] for gang in gangs if gang in self._gangs}

    def state_of(self, pod: Pod) -> AffinityState | None:
        """The affinity state of a pod; None if no term concerns it."""
        shape, terms = pod.shape, self.terms
        matches = terms.selecting(pod.namespace, pod.labels, pod.per_pod_labels)
        preferred = self._preferred(shape)
        preferred_by = terms.preferring(pod.namespace, pod.labels, pod.per_pod_labels)
        required = matches or shape.affinity or shape.anti_affinity or shape.spread
        if not (required or preferred or preferred_by or shape.preferred_spread):
            return None
        waits = pod.is_waiting
        return AffinityState(
            base_key=shape.key,
            affinity=terms.number_of(shape.affinity) if waits and shape.affinity else None,
            anti_affinity=terms.numbers_of((term,) for term in shape.anti_affinity),
            matched_by=matches,
            spread=terms.numbers_of((each.term,) for each in shape.spread if waits),
            preferred=preferred,
            preferred_by=preferred_by,
            preferred_spread=terms.numbers_of((each.term,) for each in shape.preferred_spread if waits),
        )

    def _preferred(self, shape: PodShape) -> tuple[tuple[int, int], ...]:
        """The numbers of the pod's own preferred terms with their weights; required affinity has weight 0."""
        required = (WeightedPodTerm(0, term) for term in shape.affinity)
        return tuple(sorted(self.terms.weights_of((*shape.preferred_pod_terms, *required))))

    def _read(self, gang: Gang) -> GangWithStates:
        states = [self.state_of(pod) for pod in gang.members]
        if not any(states):
            return GangWithStates(gang, gang)
        found = [(pod, state) for pod, state in zip(gang.members, states, strict=True) if state is not None]
        matched = {
            (state.affinity, number) for pod, state in found if pod.is_waiting for number in state.matched_by
        }
        members = tuple(
            pod if state is None else replace(pod, shape=self._shape(pod.shape, state, matched))
            for pod, state in zip(gang.members, states, strict=True)
        )
        near = {self.terms.number_of(pod.shape.affinity) for pod, _ in found if pod.shape.affinity}
        waiting = {state.affinity for _, state in found}
        return GangWithStates(
            gang,
            replace(gang, members=members),
            frozenset(number for number in near if number is not None),
            frozenset(number for number in waiting if number is not None),
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
            key = ShapeKey(f"{shape.key}+{self._digest(state)}")
            known = self._shapes[state] = replace(shape, key=key, affinity_state=state)
        return known

    def _digest(self, state: AffinityState) -> str:
        required, weighted = self.terms.required, self.terms.preferred
        near = () if state.affinity is None else required[state.affinity]
        others = [[required[number] for number in some] for some in (state.anti_affinity, state.matched_by)]
        preferred = [(weighted[number], weight) for number, weight in state.preferred]
        preferred_by = [weighted[number] for number in state.preferred_by]
        parts = (near, others, state.is_in_gang, state.can_start, preferred, preferred_by)
        return blake2b(repr(parts).encode(), digest_size=_KEY_BYTES).hexdigest()
