"""For a session, how many pods with different claims fit on a node together, beyond what adds up."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from phalanx.framework.device_needs import Need
from phalanx.model.devices.allocator import NodeDevices
from phalanx.model.devices.claims import ClaimSpec
from phalanx.model.devices.cluster import DeviceState
from phalanx.model.devices.limits import MIXED_BOUNDS_MAX, MIXED_KINDS_MAX
from phalanx.model.devices.mixed_slots import (
    Mix,
    MixCounter,
    Weights,
    best_of,
    weights_for,
)
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node

Needs = tuple[Need, ...]


class Offers(Protocol):
    """What nodes have now."""

    def claims_on(self, need: Need, node: Node) -> tuple[ClaimSpec, ...]:
        """The claims of a pod on the node."""

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need alone the node has devices."""

    def beside_shared(self, needs: Sequence[Need], node: Node) -> NodeDevices:
        """The devices of the node without those that are chosen for claims that are shared."""


class MixedDevices:
    """Bounds weighted sums of pods with different needs: on each node one sum, of those that suit most nodes.

    With more than a few needs nothing is tried: one pod is allowed.
    """

    def __init__(
        self,
        offers: Offers,
        state: DeviceState,
        counters: dict[tuple[tuple[ClaimSpec, ...], ...], MixCounter],
    ) -> None:
        """`counters`: by the claims of a pod of each need; they are kept from session to session."""
        self._offers = offers
        self._state = state
        self._counters = counters
        self._mixes: dict[tuple[Needs, NodeName], tuple[object, Mix]] = {}
        self._weights: dict[Needs, tuple[Weights, ...]] = {}
        self._best: dict[tuple[tuple[Weights, ...], Mix], int | None] = {}

    def weights(self, needs: Needs, nodes: Iterable[Node]) -> tuple[Weights, ...]:
        """The weights of which one is used on each of these nodes; the first count each pod as one."""
        known = self._weights.get(needs)
        if known is None:
            known = self._weights[needs] = tuple(self._chosen(needs, nodes))
        return known

    def _chosen(self, needs: Needs, nodes: Iterable[Node]) -> Iterable[Weights]:
        """The weights that suit most nodes best."""
        ones = tuple(1 for _ in needs)
        if len(needs) > MIXED_KINDS_MAX:
            return (ones,)
        mixes = Counter(mix for node in nodes if (mix := self._mix(needs, node)).excluded)
        devices = [sum(spec.most_devices for spec in need.claims) for need in needs]
        found = weights_for(list(mixes), devices)
        wanted: Counter[int] = Counter()
        for mix, count in mixes.items():
            best = best_of(mix, found)
            if best is not None:
                wanted[best] += count
        return dict.fromkeys((ones, *(found[each] for each, _ in wanted.most_common(MIXED_BOUNDS_MAX))))

    def bound(self, needs: Needs, weights: tuple[Weights, ...], node: Node) -> tuple[int, int] | None:
        """The index of the weights that are used on the node, and the bound of the weighted sum; None if all
        pods that fit there alone fit together."""
        if len(needs) > MIXED_KINDS_MAX:
            return 0, 1
        mix = self._mix(needs, node)
        if not mix.excluded:
            return None
        key = (weights, mix)
        if key not in self._best:
            self._best[key] = best_of(mix, weights)
        best = self._best[key]
        return (0, 1) if best is None else (best, mix.bound(weights[best]))

    def _mix(self, needs: Needs, node: Node) -> Mix:
        """What fits on the node now; kept until its devices change."""
        alone = tuple(self._offers.count(need, node) for need in needs)
        place = self._offers.beside_shared(needs, node)
        known = self._mixes.get((needs, node.name))
        if known is None or known[0] != (alone, place.in_use):
            claims = tuple(self._offers.claims_on(need, node) for need in needs)
            using = tuple(count if own else 0 for count, own in zip(alone, claims, strict=True))
            known = ((alone, place.in_use), self._counter(claims).count(place, using))
            self._mixes[needs, node.name] = known
        return known[1]

    def _counter(self, claims: tuple[tuple[ClaimSpec, ...], ...]) -> MixCounter:
        counter = self._counters.get(claims)
        if counter is None:
            counter = self._counters[claims] = self._state.mixed_slots(claims)
        return counter
