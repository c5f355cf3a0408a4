"""For a session, how many pods with different claims fit on a node together, beyond what adds up."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import gcd
from typing import Final, Protocol

from msgspec import Struct

from phalanx.framework.device_needs import Need
from phalanx.model.devices.allocator import NodeDevices
from phalanx.model.devices.claims import ClaimSpec
from phalanx.model.devices.cluster import DeviceState
from phalanx.model.devices.limits import (
    MIXED_BOUNDS_MAX,
    MIXED_KINDS_MAX,
    MIXED_NODES_MAX,
    MIXED_WEIGHT_MAX,
)
from phalanx.model.devices.mixed_slots import (
    Asked,
    Mix,
    MixCounter,
    Weights,
    best_of,
    untried,
    weights_for,
)
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node


class Kinds(Struct, frozen=True):
    """The needs of pods that are placed together, and how many pods with each of them a node may get."""

    needs: tuple[Need, ...]
    most: tuple[int, ...]


class Division(Struct, frozen=True, dict=True):
    """What is assumed of nodes where it is not known exactly which pods fit together.

    By default only what fits for certain. `is_relaxed`: all that is not known not to fit. `fixed`: on these
    nodes at most so many pods, by the name of their need.
    """

    is_relaxed: bool = False
    fixed: tuple[tuple[NodeName, tuple[tuple[str, int], ...]], ...] = ()

    def on(self, node: NodeName) -> Mapping[str, int] | None:
        """What is fixed for the node."""
        return self._by_node.get(node)

    @cached_property
    def _by_node(self) -> Mapping[NodeName, Mapping[str, int]]:
        return {name: dict(most) for name, most in self.fixed}


SAFE: Final = Division()
RELAXED: Final = Division(is_relaxed=True)


class _Best(Struct, frozen=True):
    """Which of some weights suit a node best, their bound, and how many combinations it allows."""

    index: int
    bound: int
    allowed: int


class Offers(Protocol):
    """What nodes have now."""

    def claims_on(self, need: Need, node: Node) -> tuple[ClaimSpec, ...]:
        """The claims of a pod on the node."""

    def count(self, need: Need, node: Node) -> int:
        """For how many pods with this need alone the node has devices."""

    def beside_shared(self, needs: Sequence[Need], node: Node) -> NodeDevices:
        """The devices of the node without those that are chosen for claims that are shared."""


class MixedDevices:
    """Bounds weighted sums of pods with different needs.

    What is safe is one sum on each node, of those that suit most nodes. With very many needs nothing is
    tried: then only one pod is safe.
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
        self._mixes: dict[tuple[Kinds, NodeName], tuple[object, Mix]] = {}
        self._tried: dict[Kinds, set[Hashable]] = {}
        self._weights: dict[Kinds, tuple[Weights, ...]] = {}
        self._untried: dict[tuple[int, ...], Mix] = {}
        self._best: dict[tuple[tuple[Weights, ...], Mix], _Best | None] = {}
        self._most: dict[tuple[tuple[Weights, ...], Mix], list[int | None]] = {}
        self._within: dict[tuple[Mix, Asked, tuple[int, ...]], int] = {}
        self.division = SAFE
        """What is assumed of nodes at present."""

    @contextmanager
    def dividing(self, division: Division) -> Iterator[None]:
        """Within this context, this is assumed of nodes."""
        before, self.division = self.division, division
        try:
            yield
        finally:
            self.division = before

    def weights(self, kinds: Kinds, nodes: Iterable[Node]) -> tuple[Weights, ...]:
        """The weights of which one is used on each of these nodes; the first count each pod as one."""
        known = self._weights.get(kinds)
        if known is None:
            known = self._weights[kinds] = tuple(self._chosen(kinds, nodes))
        return known

    def _chosen(self, kinds: Kinds, nodes: Iterable[Node]) -> Iterable[Weights]:
        """The weights that suit most nodes best."""
        ones = tuple(1 for _ in kinds.needs)
        if len(kinds.needs) > MIXED_KINDS_MAX:
            return (ones,)
        mixes = Counter(mix for node in nodes if (mix := self._mix(kinds, node)).excluded)
        found = weights_for(list(mixes), list(_sizes(kinds.needs)))
        wanted: Counter[int] = Counter()
        for mix, count in mixes.items():
            best = best_of(mix, found)
            if best is not None:
                wanted[best] += count
        return dict.fromkeys((ones, *(found[each] for each, _ in wanted.most_common(MIXED_BOUNDS_MAX))))

    def is_known(self, kinds: Kinds, node: Node) -> bool:
        """Whether all pods that fit there alone fit together."""
        return len(kinds.needs) <= MIXED_KINDS_MAX and not self._mix(kinds, node).excluded

    def bound(self, kinds: Kinds, weights: tuple[Weights, ...], node: Node) -> tuple[int, int]:
        """The index of the weights that are used on the node, and the bound of the weighted sum with which
        pods fit for certain."""
        if len(kinds.needs) > MIXED_KINDS_MAX:
            return 0, 1
        best = self._best_of(weights, self._mix(kinds, node))
        return (0, 1) if best is None else (best.index, best.bound)

    def _best_of(self, weights: tuple[Weights, ...], mix: Mix) -> _Best | None:
        key = (weights, mix)
        if key not in self._best:
            index = best_of(mix, weights)
            self._best[key] = None if index is None else _best(index, mix, weights[index])
        return self._best[key]

    def are_better(
        self, amounts: Sequence[int], asked: Asked, kinds: Kinds, weights: tuple[Weights, ...], node: Node
    ) -> bool:
        """Whether more combinations use no more than these amounts than are within the bound. `asked`: what a
        pod with each need uses of them."""
        if len(kinds.needs) > MIXED_KINDS_MAX:
            return True
        mix = self._mix(kinds, node)
        best = self._best_of(weights, mix)
        if best is None:
            return True
        key = (mix, asked, tuple(amounts))
        if key not in self._within:
            self._within[key] = mix.within(asked, amounts)
        return self._within[key] > best.allowed

    def most(self, kinds: Kinds, weights: tuple[Weights, ...], node: Node) -> list[int | None]:
        """For each of the weights, the weighted sum beyond which pods do not fit; None where that is not
        known."""
        if len(kinds.needs) > MIXED_KINDS_MAX:
            return [None for _ in weights]
        mix = self._mix(kinds, node)
        if (weights, mix) not in self._most:
            self._most[weights, mix] = [mix.most(each) for each in weights]
        return self._most[weights, mix]

    def _mix(self, kinds: Kinds, node: Node) -> Mix:
        """What fits on the node now; kept until its devices change."""
        alone = tuple(self._offers.count(need, node) for need in kinds.needs)
        place = self._offers.beside_shared(kinds.needs, node)
        known = self._mixes.get((kinds, node.name))
        if known is None or known[0] != (alone, place.in_use):
            found = self._found(kinds, node, place, alone)
            known = self._mixes[kinds, node.name] = ((alone, place.in_use), found)
        return known[1]

    def _found(self, kinds: Kinds, node: Node, place: NodeDevices, alone: tuple[int, ...]) -> Mix:
        claims = tuple(self._offers.claims_on(need, node) for need in kinds.needs)
        using = tuple(
            min(count, most) if own else 0 for count, most, own in zip(alone, kinds.most, claims, strict=True)
        )
        counter = self._counters.get(claims)
        if counter is None:
            counter = self._counters[claims] = self._state.mixed_slots(claims)
        order = tuple(sorted(range(len(using)), key=lambda kind: (alone[kind], kind)))
        key, tried = counter.key(place, using, order), self._tried.setdefault(kinds, set())
        if key not in tried and len(tried) >= MIXED_NODES_MAX:
            if using not in self._untried:
                self._untried[using] = untried(using)
            return self._untried[using]
        tried.add(key)
        return counter.count(place, using, order, key)


def _best(index: int, mix: Mix, weights: Weights) -> _Best:
    return _Best(index, mix.bound(weights), mix.allowed(weights))


def _sizes(needs: Sequence[Need]) -> Iterator[Weights]:
    """By how many devices a pod with each need has, and by what it asks for of each capacity of them."""
    requests = [
        [each for spec in need.claims for some in spec.requests for each in some[:1]] for need in needs
    ]
    yield tuple(max(1, sum(spec.most_devices for spec in need.claims)) for need in needs)
    for name in dict.fromkeys(name for some in requests for each in some for name, _ in each.capacity):
        found = [sum(int(dict(each.capacity).get(name, 0)) for each in some) for some in requests]
        unit = max(1, gcd(*found))
        if max(found) // unit <= MIXED_WEIGHT_MAX:
            yield tuple(each // unit for each in found)
