"""What several nodes have together of devices that each of them can use.

The amounts of nodes count such a device on each of its nodes. Shared amounts bound what sets of nodes have.
For plain claims, and pools of disjoint sets of nodes, both together are exact. Where they are not,
`allocate` of the session decides, and a gang for which it finds no devices waits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from phalanx.model import named_parts
from phalanx.model.names import NodeName
from phalanx.model.supplies.devices.claims import ALL_DEVICES, ClaimSpec, Request
from phalanx.model.supplies.devices.cluster import DeviceState
from phalanx.model.supplies.devices.joint_slots import PlainKinds
from phalanx.model.supplies.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.supplies.devices.pools import Device, DeviceId
from phalanx.model.supplies.devices.session.needs import DEVICE_SLOT
from phalanx.model.supplies.devices.shared_pools import Matching, SharedPools
from phalanx.model.supplies.devices.shares import Shares
from phalanx.model.supplies.devices.uses import DeviceUse, shares_by_device
from phalanx.model.supplies.supply import SharedAmounts

DEVICE_NODE_SETS_MAX: Final = 64
"""Sets of nodes, other than all, whose devices of several nodes are bounded in one problem: each is a rule of
the solver."""

_NAME: Final = "pools that several nodes can use"


class DeviceBounds(Struct, frozen=True, dict=True):
    """What is assumed of nodes where it is not known which pods with different claims fit together.

    By default all that is not known not to fit. `are_certain`: only what fits for certain. `parts`: on these
    nodes at most so many pods, by the name of their need.
    """

    are_certain: bool = False
    parts: tuple[tuple[NodeName, tuple[tuple[str, int], ...]], ...] = ()

    def on(self, node: NodeName) -> Mapping[str, int] | None:
        """How many pods the node takes at most, if that is bounded."""
        return self._by_node.get(node)

    @cached_property
    def _by_node(self) -> Mapping[NodeName, Mapping[str, int]]:
        return {name: dict(most) for name, most in self.parts}


BOUNDS: Final = DeviceBounds()
CERTAIN: Final = DeviceBounds(are_certain=True)


class Wanted(Struct, frozen=True):
    """Pods that wait with equal needs: the name of the need, the claims of each pod, and how many pods."""

    name: str
    claims: tuple[ClaimSpec, ...]
    pods: int


class DevicesNow:
    """What is in use of devices at one moment of a session."""

    def __init__(self, state: DeviceState, taken: frozenset[DeviceUse], freed: frozenset[DeviceUse]) -> None:
        """`state`: as the cycle began. `taken`, `freed`: what has changed since then."""
        self._state = state
        self._taken = taken
        self._freed = freed

    def is_free(self, device: DeviceId) -> bool:
        """Whether nothing of the device is in use."""
        return device not in self._taken and (device in self._freed or not self._state.is_in_use(device))

    def uses(self, device: DeviceId) -> list[DeviceUse]:
        """What is in use of the device."""
        before = [each for each in self._state.uses_of(device) if each not in self._freed]
        whole = (device,) if device in self._taken else ()
        return [*before, *whole, *self._shares.get(device, ())]

    @cached_property
    def _shares(self) -> Mapping[DeviceId, list[DeviceUse]]:
        """The shares that are taken."""
        return shares_by_device(self._taken)


class SharedDeviceAmounts:
    """Counts the free devices of sets of nodes."""

    def __init__(self, pools: SharedPools, now: Callable[[], DevicesNow]) -> None:
        self._pools = pools
        self._now = now

    def uses(self, claims: Sequence[ClaimSpec]) -> bool:
        """Whether claims may have a device that several nodes can use."""
        return any(self._pools.of((each,)).shared for each in _requests(claims))

    def most(self, claims: Sequence[ClaimSpec], nodes: frozenset[NodeName] | None = None) -> int | None:
        """No more pods with these claims have devices on these nodes together; None if that is not bounded
        by devices of several nodes. No nodes stand for all."""
        found = [
            self._count(matching, (request,), nodes) // count
            for request, count in _always(claims)
            if (matching := self._pools.of((request,))).shared
        ]
        return min(found, default=None)

    def shared_amounts(self, wanted: Sequence[Wanted], kinds: PlainKinds | None) -> Iterator[SharedAmounts]:
        """The bounds that these pods could exceed. `kinds`: of all of their requests, if they are plain."""
        requests = {each for some in wanted for each in _requests(some.claims)}
        groups = {nodes for each in requests for nodes, _ in self._pools.of((each,)).shared}
        blocks = sorted((nodes for nodes in groups if 1 < len(nodes) < self._pools.node_count), key=sorted)[
            :DEVICE_NODE_SETS_MAX
        ]
        for nodes in (None, *blocks) if groups else ():
            left: dict[str, int] = {}
            for some in wanted:
                most = self.most(some.claims, nodes)
                if most is not None and most < some.pods:
                    left[some.name] = most
            if kinds is not None and len(wanted) > 1:
                left.update(self._of_kinds(wanted, kinds, nodes))
            if left:
                yield SharedAmounts(_NAME + _place(nodes), remaining=left, nodes=nodes)

    def _of_kinds(
        self, wanted: Sequence[Wanted], kinds: PlainKinds, nodes: frozenset[NodeName] | None
    ) -> Iterator[tuple[str, int]]:
        asked = [(kinds.asked(some.claims), some.pods) for some in wanted]
        for place, number in enumerate(kinds.sets):
            some_requests = tuple(each for at, each in enumerate(kinds.requests) if number >> at & 1)
            matching = self._pools.of(some_requests)
            if matching.shared:
                count = self._count(matching, some_requests, nodes)
                if count < sum(amounts[place] * pods for amounts, pods in asked):
                    yield kind_resource(kinds, place), count

    def _count(
        self, matching: Matching, requests: Sequence[Request], nodes: frozenset[NodeName] | None
    ) -> int:
        """The free devices that some of the nodes can use. One in shares counts as often as claims with these
        requests can have it; more often if there are several requests."""
        found = {
            each
            for reached, ids in matching.shared
            if nodes is None or not nodes.isdisjoint(reached)
            for each in ids
        }
        for name in matching.local if nodes is None else nodes & matching.local.keys():
            found.update(matching.local[name])
        now, in_shares = self._now(), found & matching.in_shares.keys()
        whole = sum(map(now.is_free, found - in_shares if in_shares else found))
        return whole + sum(
            _shares(requests, each, matching.in_shares[each], now.uses(each)) for each in in_shares
        )


def _place(nodes: frozenset[NodeName] | None) -> str:
    if nodes is None:
        return ""
    first = named_parts.node(min(nodes))
    return f" on node {first}" if len(nodes) == 1 else f" on {len(nodes)} nodes such as {first}"


def _shares(requests: Sequence[Request], name: DeviceId, device: Device, uses: Sequence[DeviceUse]) -> int:
    """No more shares of the device can be had with these requests: the sum over them."""
    if name in uses:
        return 0
    shares = Shares(uses, are_amounts_asked=False)
    return sum(shares.most(request, name, device, CLAIM_SEARCH_DEVICES_MAX) for request in requests)


def kind_resource(kinds: PlainKinds, place: int) -> str:
    """The resource that counts the devices of a set of kinds, the set at this place of `kinds.sets`."""
    return f"{DEVICE_SLOT}of kinds {kinds.names[place]}"


def are_of_devices(resources: Iterable[str]) -> bool:
    """Whether some of these resources count devices of claims."""
    return any(name.startswith(DEVICE_SLOT) for name in resources)


def _requests(claims: Sequence[ClaimSpec]) -> dict[Request, None]:
    return dict.fromkeys(each for spec in claims for some in spec.requests for each in some)


def _always(claims: Sequence[ClaimSpec]) -> Iterator[tuple[Request, int]]:
    """The requests that use up devices of each pod, with their number."""
    counts: dict[Request, int] = {}
    for spec in claims:
        for some in spec.requests:
            (first, *others) = some
            if not others and first.count != ALL_DEVICES and not first.admin_access:
                counts[first] = counts.get(first, 0) + first.count
    return iter(counts.items())
