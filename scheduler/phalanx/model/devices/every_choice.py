"""All choices of devices for claims that members of a gang share, for gangs that the first ones do not place.

Devices that no request, no constraint and no node distinguishes are tried once. So the choices differ in the
nodes that they leave to members, or in what they leave to other claims.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice

from msgspec import Struct, structs

from phalanx.model.devices.allocator import Answer, Candidate, NodeDevices, candidates, kind_of, nodes_of
from phalanx.model.devices.claims import ALL_DEVICES, Allocation, Claim, ClaimSpec, Request
from phalanx.model.devices.limits import SHARED_CHOICE_STEPS_MAX, SHARED_CHOICES_FOUND_MAX
from phalanx.model.devices.matching import Match
from phalanx.model.devices.pools import DeviceId, NodeChoice
from phalanx.model.devices.shared_claims import Choice, Places, only
from phalanx.model.devices.shares import Shares, ask_for_amounts
from phalanx.model.nodes import Node


class Devices(Struct, frozen=True):
    """How devices are found: what a node can use, whether a request matches one there, and an allocation."""

    on: Callable[[Node], NodeDevices]
    match: Callable[[Node, Request, Candidate], Match]
    allocate: Callable[[Places], Answer]


class EveryChoice(Struct, frozen=True):
    """Choices that differ, and whether there are no others."""

    choices: tuple[Choice, ...] = ()
    is_complete: bool = True


def every_choice(
    claims: Sequence[Claim], others: Sequence[ClaimSpec], nodes: Sequence[Node], devices: Devices
) -> EveryChoice:
    """The choices for these claims on these nodes. `others`: what other claims of the gang ask for.

    A claim has no devices only in choices that leave none for it.
    """
    if not all(_is_plain(claim.spec) for claim in claims):
        return EveryChoice(is_complete=False)
    try:
        search = _Search(claims, others, nodes, devices)
        found = tuple(islice(search.choices(), SHARED_CHOICES_FOUND_MAX + 1))
    except _TooMany:
        return EveryChoice(is_complete=False)
    most = SHARED_CHOICES_FOUND_MAX
    return EveryChoice(found[:most], is_complete=len(found) <= most and search.is_complete)


def _is_plain(spec: ClaimSpec) -> bool:
    """Whether the number of its devices is fixed, and all of them are used up."""
    return all(
        len(some) == 1 and some[0].count != ALL_DEVICES and not some[0].admin_access for some in spec.requests
    )


class _TooMany(Exception):
    """There are more devices or choices than are looked at."""


class _Kind(Struct, frozen=True, eq=False):
    """Free devices that are the same for all claims. `node`: the only one that can use them, or empty."""

    node: str
    choice: NodeChoice
    devices: tuple[DeviceId, ...]
    claims: frozenset[int]
    """Those of which a request matches."""


class _Given(Struct, frozen=True):
    """The devices of a claim, and a node that can use them."""

    claim: int
    place: NodeDevices
    kinds: tuple[_Kind, ...]


class _Search:
    def __init__(
        self, claims: Sequence[Claim], others: Sequence[ClaimSpec], nodes: Sequence[Node], devices: Devices
    ) -> None:
        self._claims = claims
        self._nodes = nodes
        self._devices = devices
        self._steps = 0
        specs = (*(claim.spec for claim in claims), *others)
        self._requests = tuple(dict.fromkeys(one for spec in specs for some in spec.requests for one in some))
        self._attributes = tuple(dict.fromkeys(each.attribute for spec in specs for each in spec.constraints))
        self._are_amounts_asked = ask_for_amounts(self._requests)
        self.is_complete = True
        self._number_of: dict[str, int] = {node.name: number for number, node in enumerate(nodes)}
        self._allowed_by: dict[NodeChoice, frozenset[int]] = {}
        kinds = self._found_kinds()
        self._kinds = [*(each for each in kinds if each.node), *(each for each in kinds if not each.node)]
        self._shared = [index for index, each in enumerate(self._kinds) if not each.node]
        self._local: dict[str, list[int]] = {}
        for index, each in enumerate(self._kinds):
            if each.node:
                self._local.setdefault(each.node, []).append(index)

    def choices(self) -> Iterator[Choice]:
        """The choices, those with devices for more of the first claims first."""
        for given in self._after((), 0):
            choice = self._allocated(given)
            if choice and not any(
                self._has_devices(given, claim) for claim in range(len(self._claims)) if claim not in choice
            ):
                yield choice

    def _after(self, given: tuple[_Given, ...], claim: int) -> Iterator[tuple[_Given, ...]]:
        if claim == len(self._claims):
            yield given
            return
        for each in self._options(given, claim):
            yield from self._after((*given, each), claim + 1)
        yield from self._after(given, claim + 1)

    def _has_devices(self, given: tuple[_Given, ...], claim: int) -> bool:
        return any(True for _ in self._options(given, claim))

    def _options(self, given: tuple[_Given, ...], claim: int) -> Iterator[_Given]:
        """The devices that this claim can have beside the given ones."""
        count = sum(some[0].count for some in self._claims[claim].spec.requests)
        for kinds, node in self._picked(given, claim, (), 0, count):
            found = _Given(claim, self._devices.on(node), kinds)
            if self._allocated((*given, found)) is not None:
                yield found

    def _picked(
        self, given: tuple[_Given, ...], claim: int, picked: tuple[_Kind, ...], start: int, left: int
    ) -> Iterator[tuple[tuple[_Kind, ...], Node]]:
        """This many more devices, of the kinds from `start` on, and a node that can use them all."""
        node = self._node_for(picked)
        if node is None:
            return
        if not left:
            yield picked, node
            return
        for index in self._following(picked, start):
            self._step()
            kind = self._kinds[index]
            used = sum(each is kind for one in given for each in one.kinds) + sum(
                each is kind for each in picked
            )
            if claim in kind.claims and used < len(kind.devices):
                yield from self._picked(given, claim, (*picked, kind), index, left - 1)

    def _following(self, picked: tuple[_Kind, ...], start: int) -> Sequence[int]:
        """Kinds from `start` on, without those of other nodes."""
        if not picked:
            return range(len(self._kinds))
        local = self._local.get(picked[0].node, []) if picked[0].node else []
        return [index for index in (*local, *self._shared) if index >= start]

    def _node_for(self, kinds: tuple[_Kind, ...]) -> Node | None:
        """The first node that can use all of these kinds."""
        self._step()
        if not kinds:
            return self._nodes[0] if self._nodes else None
        allowed = [self._allowed(each) for each in dict.fromkeys(one.choice for one in kinds)]
        common = allowed[0].intersection(*allowed[1:])
        return self._nodes[min(common)] if common else None

    def _allowed(self, choice: NodeChoice) -> frozenset[int]:
        """The nodes that can use such devices, by their numbers."""
        known = self._allowed_by.get(choice)
        if known is None:
            here = self._number_of.get(choice.node)
            numbers = range(len(self._nodes)) if not choice.node else () if here is None else (here,)
            self._steps += len(numbers)
            found = frozenset([number for number in numbers if choice.allows(self._nodes[number])])
            known = self._allowed_by[choice] = found
        return known

    def _step(self) -> None:
        self._steps += 1
        if self._steps > SHARED_CHOICE_STEPS_MAX:
            raise _TooMany

    def _allocated(self, given: Sequence[_Given]) -> Choice | None:
        """The devices in the order of kube-scheduler; None if counters or constraints do not allow them."""
        left = {id(kind): iter(kind.devices) for each in given for kind in each.kinds}
        wanted = []
        for each in given:
            ids = frozenset([next(left[id(kind)]) for kind in each.kinds])
            wanted.append((only(each.place, ids), (self._claims[each.claim],)))
        answer = self._devices.allocate(wanted) if wanted else Answer(claims=())
        self.is_complete &= not answer.is_undecided
        if answer.claims is None:
            return None
        return {
            each.claim: Allocation(devices, nodes_of(some, each.place.node))
            for each, devices, some in zip(given, answer.claims, answer.candidates, strict=True)
        }

    # --- kinds of devices -----------------------------------------------------------------------------------

    def _found_kinds(self) -> list[_Kind]:
        """The kinds of devices that claims match, in the order in which nodes list them."""
        found: dict[Hashable, tuple[NodeChoice, list[DeviceId], frozenset[int]]] = {}
        seen: set[int] = set()
        for node in self._nodes:
            place = self._devices.on(node)
            shares = Shares(place.in_use, are_amounts_asked=self._are_amounts_asked)
            for each in self._new_devices(place, seen):
                choice = each.slice.choice_of(each.device)
                if choice is None:
                    continue
                self.is_complete &= not each.device.allows_shares  # each choice uses such a device once
                if each.id in place.in_use:
                    continue
                at = self._allowed(choice)
                claims = self._claims_for(self._nodes[min(at)], each) if at else None
                if claims:
                    self.is_complete &= not each.device.binds_to_node or bool(choice.node)
                    key = (choice, self._kind(self._nodes[min(at)], each, shares))
                    found.setdefault(key, (choice, [], claims))[1].append(each.id)
        return [_Kind(choice.node, choice, tuple(ids), claims) for choice, ids, claims in found.values()]

    def _new_devices(self, place: NodeDevices, seen: set[int]) -> Iterator[Candidate]:
        """The devices of slices that no earlier node can use."""
        for each in candidates(
            [
                structs.replace(pool, slices=tuple(some for some in pool.slices if id(some) not in seen))
                for pool in place.pools
            ]
        ):
            self._step()
            yield each
        seen.update(id(some) for pool in place.pools for some in pool.slices)

    def _claims_for(self, node: Node, each: Candidate) -> frozenset[int]:
        return frozenset(
            number
            for number, claim in enumerate(self._claims)
            if any(
                self._devices.match(node, some[0], each) is True and some[0].tolerates(each.device.taints)
                for some in claim.spec.requests
            )
        )

    def _kind(self, node: Node, each: Candidate, shares: Shares) -> Hashable:
        """Equal for devices that all claims of the gang use alike."""
        matches = [self._devices.match(node, one, each) for one in self._requests]
        own = kind_of(each, matches, self._attributes, is_used=False)
        return own, shares.kind(each.id, each.device) if shares.concern(each.device) else None
