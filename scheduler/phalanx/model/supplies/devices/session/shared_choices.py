"""The devices of claims that members of a gang share: chosen once in a session, before nodes are."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources, add, scale
from phalanx.model.supplies.devices.claims import Allocation, Claim, uses_of
from phalanx.model.supplies.devices.cluster import DeviceState
from phalanx.model.supplies.devices.shared_claims import ClaimSet
from phalanx.model.supplies.devices.uses import DeviceUse, device_of, devices_used, is_share

SHARED_CHOICES_MAX: Final = 16
"""Choices of devices for the claims that a gang shares that are compared. The first ones are for most of the
pods of each claim; each costs a search on some of the nodes."""

SHARED_CHOICES_TRIED_MAX: Final = 16
"""Further choices for these claims that are tried where the first one does not place the gang. Each costs a
solve; most that cannot help are found by counting, or one solve proves that none can."""

SHARED_CHOICES_NODES_MAX: Final = 8_000
"""Nodes of all of these solves together, but at least two choices are tried: about a second."""

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


class OtherChoices(Struct, frozen=True):
    """Choices beside the present one, the most promising first, and whether no others may help."""

    choices: tuple[Chosen, ...] = ()
    is_complete: bool = False


NO_OTHERS: Final = OtherChoices(is_complete=True)
_CHOICES_TRIED_MIN: Final = 2


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

    @cached_property
    def _all_nodes(self) -> Sequence[Node]:
        return [state.node for state in self._nodes.values()]

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
                chosen = self._best(use, known, taken, freed)
                self._found[key] = _Found(chosen, taken, freed)
        return {
            **_by_uid(use, known),
            **{uid: each for uid, each in chosen.items() if uid in {use.claims[n].uid for n in missing}},
        }

    def known(self, use: SharedUse) -> Chosen:
        """The devices of those claims that have some already."""
        return _by_uid(use, [each.allocation or self._made.get(each.uid) for each in use.claims])

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
        gone = last.freed - freed
        changed = map(device_of, (taken - last.taken) | gone)
        is_taken = bool(uses & (taken | gone)) or (bool(in_shares) and not in_shares.isdisjoint(changed))
        return last.chosen if len(found) == len(missing) and not is_taken else {}

    def choose(
        self, key: Hashable, chosen: Chosen, taken: frozenset[DeviceUse], freed: frozenset[DeviceUse]
    ) -> None:
        """Use these devices from now on for the claims that have none yet."""
        self._found[key] = _Found(chosen, taken, freed)

    def others(
        self,
        key: Hashable,
        use: SharedUse,
        pods: Mapping[str, int],
        taken: frozenset[DeviceUse],
        freed: frozenset[DeviceUse],
    ) -> OtherChoices:
        """Some of the choices beside the present one with which so many pods may fit, by their need."""
        present = self.allocations(key, use, taken, freed)
        known = [each.allocation or self._made.get(each.uid) for each in use.claims]
        if all(found is not None for found in known):
            return NO_OTHERS
        users, beside = _in_order(use), taken | devices_of(tuple(present.values()))
        made = chain(
            *(
                self._compared(use, users[at:] + users[:at], known, taken, freed)
                for at in range(min(len(users), SHARED_CHOICES_MAX))
            ),
            self._compared(use, users, known, beside, freed),
        )
        counted: list[tuple[int, int, Chosen]] = []
        tried = [present]
        for choice in made:
            everything = {**choice, **_by_uid(use, known)}
            if everything in tried:
                continue
            tried.append(everything)
            left = [(user, self._usable(use, user, everything)) for user in users]
            used = taken | devices_of(tuple(choice.values()))
            if self._may_suffice(left, pods, used):
                reached = sum(len(nodes) for _, nodes in left)
                counted.append((-self._fitting(left, used), -reached, choice))
        found = [choice for _, _, choice in sorted(counted, key=lambda each: each[:2])]
        most = max(_CHOICES_TRIED_MIN, SHARED_CHOICES_NODES_MAX // max(1, len(self._nodes)))
        return OtherChoices(tuple(found[: min(SHARED_CHOICES_TRIED_MAX, most)]))

    def _may_suffice(
        self,
        users: Sequence[tuple[SharedUser, Sequence[Node]]],
        pods: Mapping[str, int],
        taken: frozenset[DeviceUse],
    ) -> bool:
        """Whether as many pods of each kind as are needed would fit these nodes if there were no others."""
        for user, nodes in users:
            least = pods.get(user.pod.shape.device_slot, 0) if user.pod is not None else 0
            if least and self._fitting([(replace(user, pods=least), nodes)], taken) < least:
                return False
        return True

    def _best(
        self,
        use: SharedUse,
        known: Sequence[Allocation | None],
        taken: frozenset[DeviceUse],
        freed: frozenset[DeviceUse],
    ) -> Chosen:
        """The first choice with which all pods fit, else the one with which most do."""
        wanted = sum(user.pods for user in use.users)
        best: Chosen = {}
        most = 0
        for made in self._compared(use, _in_order(use), known, taken, freed):
            everything = {**made, **_by_uid(use, known)}
            left = [(user, self._usable(use, user, everything)) for user in _in_order(use)]
            count = self._fitting(left, taken | devices_of(tuple(made.values())))
            if count > most:
                best, most = made, count
            if count >= wanted:
                break
        return best

    def _compared(
        self,
        use: SharedUse,
        users: Sequence[SharedUser],
        known: Sequence[Allocation | None],
        taken: frozenset[DeviceUse],
        freed: frozenset[DeviceUse],
    ) -> Iterator[Chosen]:
        """The first choices for the claims that have no devices yet, made for these users in turn."""
        missing = [number for number, found in enumerate(known) if found is None]
        place = {number: index for index, number in enumerate(missing)}
        sets = [
            ClaimSet(
                tuple(place[each] for each in user.claims if each in place),
                self._allowed([known[each] for each in user.claims if known[each] is not None]),
            )
            for user in users
        ]

        def score(number: int, left: Sequence[Node], made: Sequence[Allocation]) -> int:
            return self._fitting([(users[number], left)], taken | devices_of(made))

        claims = [use.claims[number] for number in missing]
        for choice in islice(
            self._state.shared(claims, sets, score, besides=taken, without=freed), SHARED_CHOICES_MAX
        ):
            yield {claims[number].uid: each for number, each in choice.items()}

    def _usable(self, use: SharedUse, user: SharedUser, chosen: Chosen) -> list[Node]:
        """The nodes on which such pods can use the devices of their claims."""
        return self._allowed([chosen.get(use.claims[each].uid) for each in user.claims])

    def _allowed(self, allocations: Sequence[Allocation | None]) -> list[Node]:
        """The nodes that can use all of these; none if a claim has no devices."""
        found = [each for each in allocations if each is not None]
        if len(found) < len(allocations):
            return []
        name = next((each.nodes.only_node for each in found if each.nodes.only_node), "")
        only = self._nodes.get(NodeName(name)) if name else None
        nodes = self._all_nodes if not name else [] if only is None else [only.node]
        return [node for node in nodes if all(each.nodes.allows(node) for each in found)]

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


def _in_order(use: SharedUse) -> list[SharedUser]:
    """Those with most claims first."""
    return sorted(use.users, key=lambda user: -len(user.claims))


def _by_uid(use: SharedUse, known: Sequence[Allocation | None]) -> Chosen:
    return {claim.uid: each for claim, each in zip(use.claims, known, strict=True) if each is not None}


def devices_of(allocations: Sequence[Allocation]) -> frozenset[DeviceUse]:
    """The devices that allocations use up, and the shares that they have."""
    return frozenset(uses_of(allocations))


EVERYWHERE: Final = ""
"""In place of the name of a node: devices that several nodes can use."""
