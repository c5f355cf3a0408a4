"""The devices of claims that members of a gang share: chosen once in a session, before nodes are."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from phalanx.model.devices.claims import Allocation, Claim, uses_of
from phalanx.model.devices.cluster import DeviceState
from phalanx.model.devices.limits import SHARED_CHOICES_MAX
from phalanx.model.devices.shared_claims import ClaimSet
from phalanx.model.devices.uses import DeviceUse, device_of, devices_used, is_share
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, add, scale

PodCapacity = Callable[[Pod, Node, Resources], int]
"""How many pods like this one fit the node beside these amounts, apart from devices; 0 if it may not run
there."""

OwnDevices = Callable[[Pod, Node, frozenset[DeviceUse]], int]
"""For how many pods like this one the node has devices of their own beside these."""

Chosen = Mapping[str, Allocation]
"""Allocations by UID of the claim."""


class SharedUser(Struct, frozen=True):
    """Pods that wait with equal needs: how many, one of them, and the numbers of the claims that they share
    with others. The pod is None if it is unknown."""

    pods: int
    pod: Pod | None
    claims: tuple[int, ...]


class SharedUse(Struct, frozen=True):
    """Claims that pods of a gang share, and those that use some of them."""

    claims: tuple[Claim, ...]
    users: tuple[SharedUser, ...]

    def pods_of(self, number: int) -> int:
        """How many pods wait with this claim."""
        return sum(user.pods for user in self.users if number in user.claims)


class _Found(Struct, frozen=True):
    """A choice, and what was taken and freed when it was made."""

    chosen: Chosen
    taken: frozenset[DeviceUse]
    freed: frozenset[DeviceUse]


class SharedChoices:
    """The choices of one session. What a placement of the cycle chose for a claim holds for later ones."""

    def __init__(
        self,
        state: DeviceState,
        nodes: Mapping[NodeName, NodeState],
        capacity: PodCapacity,
        own: OwnDevices,
        made: Chosen,
    ) -> None:
        """`made`: what placements of this cycle allocated."""
        self._state = state
        self._nodes = nodes
        self._pod_capacity = capacity
        self._own = own
        self._made = made
        self._found: dict[Hashable, _Found] = {}

    def allocations(
        self, key: Hashable, use: SharedUse, taken: frozenset[DeviceUse], freed: frozenset[DeviceUse]
    ) -> Chosen:
        """The devices of these claims; those for which there are not enough have none.

        The devices are those on whose nodes all pods fit, else most. `key` identifies the use.
        The choice remains while none of its devices is taken, not even in part.
        """
        known = [each.allocation or self._made.get(each.uid) for each in use.claims]
        missing = [number for number, found in enumerate(known) if found is None]
        chosen: Chosen = {}
        if missing:
            chosen = self._kept(key, [use.claims[each].uid for each in missing], taken, freed)
            if not chosen:
                chosen = self._best(use, known, missing, taken, freed)
                self._found[key] = _Found(chosen, taken, freed)
        return {
            **{claim.uid: each for claim, each in zip(use.claims, known, strict=True) if each is not None},
            **{uid: each for uid, each in chosen.items() if uid in {use.claims[n].uid for n in missing}},
        }

    def _kept(
        self, key: Hashable, missing: Sequence[str], taken: frozenset[DeviceUse], freed: frozenset[DeviceUse]
    ) -> Chosen:
        """The last choice for these claims if it still holds; else none."""
        last = self._found.get(key)
        if last is None:
            return {}
        if (last.taken, last.freed) == (taken, freed):
            return last.chosen
        found = [last.chosen[uid] for uid in missing if uid in last.chosen]
        uses = devices_of(found)
        in_shares = devices_used(filter(is_share, uses))
        is_taken = bool(uses & taken) or (
            bool(in_shares) and not in_shares.isdisjoint(map(device_of, taken - last.taken))
        )
        return last.chosen if len(found) == len(missing) and not is_taken else {}

    def _best(
        self,
        use: SharedUse,
        known: Sequence[Allocation | None],
        missing: Sequence[int],
        taken: frozenset[DeviceUse],
        freed: frozenset[DeviceUse],
    ) -> Chosen:
        """The first choice with which all pods fit, else the one with which most do."""
        order = sorted(range(len(use.users)), key=lambda number: -len(use.users[number].claims))
        users = [use.users[number] for number in order]
        nodes = [self._usable([known[each] for each in user.claims]) for user in users]
        place = {number: index for index, number in enumerate(missing)}
        sets = [
            ClaimSet(tuple(place[each] for each in user.claims if each in place), some)
            for user, some in zip(users, nodes, strict=True)
        ]
        wanted = sum(user.pods for user in users)
        best: Chosen = {}
        most = 0

        def score(number: int, left: Sequence[Node], made: Sequence[Allocation]) -> int:
            return self._fitting([(users[number], left)], taken | devices_of(made))

        claims = [use.claims[number] for number in missing]
        choices = self._state.shared(claims, sets, score, besides=taken, without=freed)
        for choice in islice(choices, SHARED_CHOICES_MAX):
            made = {claims[number].uid: each for number, each in choice.items()}
            left = [
                (user, _allowed(some, [choice.get(each) for each in wanted_of.claims]))
                for user, some, wanted_of in zip(users, nodes, sets, strict=True)
            ]
            count = self._fitting(left, taken | devices_of(tuple(made.values())))
            if count > most:
                best, most = made, count
            if count >= wanted:
                break
        return best

    def _usable(self, known: Sequence[Allocation | None]) -> list[Node]:
        """The nodes that can use what is allocated already."""
        nodes = [state.node for state in self._nodes.values()]
        return _allowed(nodes, [each for each in known if each is not None])

    def _fitting(
        self, users: Sequence[tuple[SharedUser, Sequence[Node]]], taken: frozenset[DeviceUse]
    ) -> int:
        """How many of these pods fit their nodes, one kind after the other, each on the first nodes."""
        used: dict[NodeName, Resources] = {}
        total = 0
        for user, nodes in users:
            left = user.pods
            for node in nodes:
                if left <= 0:
                    break
                count = min(left, self._on(user, node, used.get(node.name, NONE), taken))
                if count and user.pod is not None:
                    more = scale(user.pod.shape.requests, count)
                    used[node.name] = add(used.get(node.name, NONE), more)
                left -= count
            total += user.pods - left
        return total

    def _on(self, user: SharedUser, node: Node, used: Resources, taken: frozenset[DeviceUse]) -> int:
        if user.pod is None:
            return 1
        count = self._pod_capacity(user.pod, node, used)
        return min(count, self._own(user.pod, node, taken)) if count else 0


def _allowed(nodes: Sequence[Node], allocations: Sequence[Allocation | None]) -> list[Node]:
    """The nodes that can use all of these; none if a claim has no devices."""
    return [
        node for node in nodes if all(each is not None and each.nodes.allows(node) for each in allocations)
    ]


def devices_of(allocations: Sequence[Allocation]) -> frozenset[DeviceUse]:
    """The devices that allocations use up, and the shares that they have."""
    return frozenset(uses_of(allocations))


EVERYWHERE: Final = ""
"""In place of the name of a node: devices that several nodes can use."""
