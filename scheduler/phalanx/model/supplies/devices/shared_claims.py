"""Claims that several members of a gang use: allocated once, for nodes that can use all their devices.

Each choice of devices leaves these members certain nodes. A choice without devices of one node comes before
one with some, since it leaves more nodes. Members of a gang may use different claims: these are chosen
together, so that no claim takes the only device of another one.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices.allocator import Answer, NodeDevices, candidates, nodes_of
from phalanx.model.supplies.devices.claims import Allocation, Claim
from phalanx.model.supplies.devices.pools import Device, DeviceId, Pool, Slice

Places = Sequence[tuple[NodeDevices, Sequence[Claim]]]
"""Claims, each with what it is allocated from."""


class ClaimSet(Struct, frozen=True):
    """Claims that some members use together, by their numbers, and the nodes on which these may run."""

    claims: tuple[int, ...]
    nodes: Sequence[Node]


class Chooser(Struct, frozen=True):
    """How devices are found and compared.

    `on` returns what a node can use, `allocate` an allocation of claims from that. `score` is how many of
    the members that use this set, by its number, fit these nodes if the allocations are made.
    """

    on: Callable[[Node], NodeDevices]
    allocate: Callable[[Places], Answer]
    score: Callable[[int, Sequence[Node], Sequence[Allocation]], int]


Choice = dict[int, Allocation]
"""Allocations of claims, by their numbers."""


def joint_choices(claims: Sequence[Claim], sets: Sequence[ClaimSet], chooser: Chooser) -> Iterator[Choice]:
    """Choices for these claims. Those for most members come first, then those that leave most nodes.

    A set that finds no devices beside the earlier ones gets none.
    """
    return _Choices(claims, sets, chooser).after((), {}, 0)


class _Decided(Struct, frozen=True, gc=False):
    """Claims that are allocated on a node."""

    place: NodeDevices
    claims: tuple[int, ...]


class _Option(Struct, frozen=True, gc=False):
    decided: tuple[_Decided, ...]
    choice: Choice
    score: int
    nodes: int


class _Choices:
    def __init__(self, claims: Sequence[Claim], sets: Sequence[ClaimSet], chooser: Chooser) -> None:
        self._claims = claims
        self._sets = sets
        self._chooser = chooser
        self._places: dict[NodeName, NodeDevices] = {}
        self._by_name = [{node.name: node for node in each.nodes} for each in sets]

    def after(self, decided: tuple[_Decided, ...], choice: Choice, number: int) -> Iterator[Choice]:
        """The choices for the sets from this number on."""
        if number == len(self._sets):
            yield choice
            return
        new = tuple(each for each in self._sets[number].claims if each not in choice)
        options = self._options(decided, choice, number, new) if new else []
        for option in options:
            yield from self.after(option.decided, option.choice, number + 1)
        if not options:
            yield from self.after(decided, choice, number + 1)

    def _options(
        self, decided: tuple[_Decided, ...], choice: Choice, number: int, new: tuple[int, ...]
    ) -> list[_Option]:
        """The devices that claims of a set can have; none leaves only nodes that an earlier one left."""
        found: list[_Option] = []
        covered: set[NodeName] = set()
        wanted = self._sets[number]
        for node in wanted.nodes:
            if node.name in covered:
                continue
            option = self._option(self._with(decided, wanted, node, new), number)
            if option is not None:
                found.append(option)
                covered.update(each.name for each in self._left(option.choice, number))
        return sorted(found, key=lambda each: (-each.score, -each.nodes))

    def _with(
        self, decided: tuple[_Decided, ...], wanted: ClaimSet, node: Node, new: tuple[int, ...]
    ) -> tuple[_Decided, ...]:
        """Also the new claims of the set on this node. Its other ones then have devices of both nodes."""
        here, found = self._on(node), list[_Decided]()
        for each in decided:
            both = tuple(number for number in each.claims if number in wanted.claims)
            if both and each.place.node is not node:
                rest = tuple(number for number in each.claims if number not in both)
                found += [_Decided(each.place, rest)] if rest else []
                found.append(_Decided(_of_both(each.place, here), both))
            else:
                found.append(each)
        return (*found, _Decided(here, new))

    def _option(self, decided: tuple[_Decided, ...], number: int) -> _Option | None:
        *earlier, last = decided
        for some in (_of_several_nodes(last.place), last.place):
            now = (*earlier, structs.replace(last, place=some))
            choice = self._allocated(now)
            if choice is None:
                continue
            left = self._left(choice, number)
            if last.place.node in left:
                score = self._chooser.score(number, left, tuple(choice.values()))
                return _Option(now, choice, score, len(left))
        return None

    def _allocated(self, decided: Sequence[_Decided]) -> Choice | None:
        """Devices for all of these claims together, if earlier sets can still be used where they were."""
        answer = self._chooser.allocate(
            [(each.place, [self._claims[number] for number in each.claims]) for each in decided]
        )
        if answer.claims is None:
            return None
        owners = [(number, each.place.node) for each in decided for number in each.claims]
        return {
            number: Allocation(devices, nodes_of(some, node))
            for (number, node), devices, some in zip(owners, answer.claims, answer.candidates, strict=True)
        }

    def _left(self, choice: Choice, number: int) -> Sequence[Node]:
        """The nodes from which all claims of the set can be used."""
        chosen = [choice[each].nodes for each in self._sets[number].claims]
        nodes = self._sets[number].nodes
        for name in [NodeName(each.only_node) for each in chosen if each.only_node][:1]:
            nodes = [self._by_name[number][name]] if name in self._by_name[number] else []
        return [node for node in nodes if all(each.allows(node) for each in chosen)]

    def _on(self, node: Node) -> NodeDevices:
        if node.name not in self._places:
            self._places[node.name] = self._chooser.on(node)
        return self._places[node.name]


def _of_several_nodes(place: NodeDevices) -> NodeDevices:
    return structs.replace(place, pools=tuple(_part(pool, _is_shared) for pool in place.pools))


def of_one_node(place: NodeDevices) -> NodeDevices:
    """The devices that only this node can use."""
    pools = [_part(pool, lambda written, device: not _is_shared(written, device)) for pool in place.pools]
    return structs.replace(place, pools=tuple(pools))


def _of_both(place: NodeDevices, other: NodeDevices) -> NodeDevices:
    """The devices of a place that the other node can use too."""
    ids = {
        each.id
        for each in candidates(other.pools)
        if not each.slice.per_device or (each.device.choice and each.device.choice.allows(other.node))
    }
    return only(place, ids)


def only(place: NodeDevices, ids: Collection[DeviceId]) -> NodeDevices:
    """These devices of a place."""
    pools = [
        _part(pool, lambda written, device: (*written.pool_id, device.name) in ids) for pool in place.pools
    ]
    return structs.replace(place, pools=tuple(pools))


def _part(pool: Pool, keep: Callable[[Slice, Device], bool]) -> Pool:
    """The pool with some of its devices. The others keep their counters."""
    parts = [(each, [device for device in each.devices if keep(each, device)]) for each in pool.slices]
    rest = [(each, [device for device in each.devices if device not in kept]) for each, kept in parts]
    return structs.replace(
        pool,
        slices=tuple(structs.replace(each, devices=tuple(kept)) for each, kept in parts),
        other_slices=(
            *pool.other_slices,
            *(structs.replace(each, devices=tuple(others)) for each, others in rest),
        ),
    )


def _is_shared(written: Slice, device: Device) -> bool:
    choice = written.choice_of(device)
    return choice is not None and not choice.node
