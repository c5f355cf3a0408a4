"""How many pods with equal claims fit on a node: the devices of a node as slots that add up.

The members of a gang mostly have one claim each, made of one template. The number of them that the devices of
a node allow is a capacity of the node, like a number of NUMA slots. It is exact if the search for one more
member ends before its bound, and always if the devices that a request can have are interchangeable. Otherwise
it is a lower bound: so many members do fit. Of a device that allows several allocations, members have shares:
they are counted in the same way.

Nodes whose devices differ only in what no request and no constraint reads are counted once.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from phalanx.model.supplies.devices.allocator import (
    NOT_ENOUGH,
    Answer,
    Candidate,
    NodeDevices,
    allocate,
    candidates,
    is_local,
    kind_of,
    match_of,
)
from phalanx.model.supplies.devices.claims import ALL_DEVICES, ClaimSpec, DeviceClasses, Request
from phalanx.model.supplies.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.supplies.devices.matching import Match, Matcher, MatchError
from phalanx.model.supplies.devices.pools import Slice
from phalanx.model.supplies.devices.share_bounds import (
    Matching,
    are_counted_alone,
    most_by_capacity,
    sole_request,
)
from phalanx.model.supplies.devices.shares import Shares, ask_for_amounts
from phalanx.model.supplies.devices.uses import devices_used

DEVICE_SLOTS_CACHE_MAX: Final = 10_000
"""Kinds of nodes whose slots for one kind of member are kept: some kilobytes each."""

SHARED_KINDS_CACHE_MAX: Final = 1 << 16
"""Devices that several nodes can use whose kinds are kept for one kind of member: some hundred bytes each."""


class Slots(Struct, frozen=True, gc=False):
    """How many members fit on a node. `reason`: why not one more, if that is certain or an error."""

    count: int
    is_exact: bool
    reason: str = ""
    is_error: bool = False
    uses_shared_pools: bool = False
    """Whether a device may be of a pool of several nodes. The slots of these nodes then do not add up."""


class SlotCounter:
    """Counts members that have these claims. It keeps results, and may be used for many snapshots."""

    def __init__(self, claims: Sequence[ClaimSpec], *, classes: DeviceClasses, matcher: Matcher) -> None:
        self._claims = tuple(claims)
        self._classes = classes
        self._matcher = matcher
        self._requests = tuple(
            dict.fromkeys(each for spec in claims for some in spec.requests for each in some)
        )
        self._attributes = tuple(
            dict.fromkeys(each.attribute for spec in claims for each in spec.constraints)
        )
        self._are_amounts_asked = ask_for_amounts(self._requests)
        self._sole = sole_request(self._claims)
        self._known: dict[Hashable, Slots] = {}
        self._shared_kinds: dict[tuple[int, str, bool], tuple[Slice, Hashable]] = {}
        """Of devices that several nodes can use: each of these nodes asks for them."""

    def count(self, place: NodeDevices, limit: int) -> Slots:
        """How many members fit, at most `limit`."""
        one = self._allocate(place, 1)
        if one.claims is None or not limit:
            return Slots(0, not one.is_undecided, reason=one.reason, is_error=one.is_error)
        found = tuple(candidates(place.pools))
        shares = Shares(place.in_use, are_amounts_asked=self._are_amounts_asked)
        key = (limit, *self.kinds_of(place, shares, found))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= DEVICE_SLOTS_CACHE_MAX:
                self._known.clear()
            known = self._known[key] = self._count(place, found, shares, one, limit)
        return known

    def kinds_of(
        self,
        place: NodeDevices,
        shares: Shares | None = None,
        found: tuple[Candidate, ...] | None = None,
    ) -> tuple[Hashable, ...]:
        """Equal for nodes on which equally many members fit. `shares` and `found` follow from the place."""
        shares = shares or Shares(place.in_use, are_amounts_asked=self._are_amounts_asked)
        found = tuple(candidates(place.pools)) if found is None else found
        problems = tuple(pool.problem for pool in place.pools if pool.problem)
        return self._kinds(place, shares, found), _counters(place), problems

    def _count(
        self, place: NodeDevices, found: Sequence[Candidate], shares: Shares, one: Answer, limit: int
    ) -> Slots:
        """Add members one by one; where that ends, search for an allocation of all and one more."""
        matching = self._matching(place, found)
        uses_shared_pools = any(self._may_have(place, each) and not is_local(each) for each in found)
        count, most = 1, min(limit, self._bound(matching, shares))
        if self._sole is not None and self._are_counted_alone(self._sole, place, found, matching, shares):
            reason = "" if most == limit else NOT_ENOUGH
            return Slots(most, is_exact=True, reason=reason, uses_shared_pools=uses_shared_pools)
        last, now = one, place
        while count < most and last.claims is not None:
            now = _without(now, last, count)
            last = allocate(now, self._claims, classes=self._classes, matcher=self._matcher)
            count += last.claims is not None
        reason, exact = last.reason, True
        while count < most and exact:
            more = self._allocate(place, count + 1)
            exact, reason = not more.is_undecided, more.reason
            if more.claims is None:
                break
            count += 1
        return Slots(
            count,
            exact,
            reason="" if count == limit else reason,
            uses_shared_pools=uses_shared_pools,
        )

    def _allocate(self, place: NodeDevices, members: int) -> Answer:
        """An allocation for so many members together, undecided if they have too many devices."""
        devices = sum(spec.most_devices for spec in self._claims)
        if members > 1 and members * devices > CLAIM_SEARCH_DEVICES_MAX:
            return Answer(reason="too many devices for an exact search", is_undecided=True)
        return allocate(place, self._claims * members, classes=self._classes, matcher=self._matcher)

    def _matching(self, place: NodeDevices, found: Sequence[Candidate]) -> Matching:
        """The free devices for each request that every member makes."""
        free = [each for each in found if each.id not in place.in_use]
        return [
            (request, count, [each for each in free if self._match(place, request, each) is True])
            for request in self._requests
            if (count := sum(each.count for each in self._always(request)))
        ]

    def _are_counted_alone(
        self,
        sole: Request,
        place: NodeDevices,
        found: Sequence[Candidate],
        matching: Matching,
        shares: Shares,
    ) -> bool:
        """Whether the bound is the count."""
        return are_counted_alone(sole, matching[0][2], shares) and not any(
            isinstance(self._match(place, sole, each), MatchError) for each in found
        )

    def _match(self, place: NodeDevices, request: Request, each: Candidate) -> Match:
        return match_of(self._matcher, self._classes, place.node, request, each)

    def _bound(self, matching: Matching, shares: Shares) -> int:
        """No more members fit than each request has free devices or shares for, divided by its count, nor
        than shared devices have capacity for."""
        limit = CLAIM_SEARCH_DEVICES_MAX
        most = [
            sum(shares.most(request, each.id, each.device, limit) for each in some) // count
            for request, count, some in matching
        ]
        together = most_by_capacity(matching, shares)
        return min([*most, limit if together is None else together]) if most else limit

    def _always(self, request: Request) -> Iterator[Request]:
        """The same request, as often as every member makes it."""
        for spec in self._claims:
            for some in spec.requests:
                if some == (request,) and request.count != ALL_DEVICES and not request.admin_access:
                    yield request

    def _kinds(self, place: NodeDevices, shares: Shares, found: Sequence[Candidate]) -> tuple[Hashable, ...]:
        """The devices, as far as they matter to the count."""
        kinds = [self._kind(place, each) for each in found]
        if any(shares.concern(each.device) for each in found):
            kinds += [shares.kind(each.id, each.device) for each in found]
        return tuple(kinds)

    def _kind(self, place: NodeDevices, each: Candidate) -> Hashable:
        if each.slice.per_device or is_local(each):
            return self._kind_on(place, each)
        key = (id(each.slice), each.device.name, each.id in place.in_use)
        known = self._shared_kinds.get(key)
        if known is None:
            if len(self._shared_kinds) >= SHARED_KINDS_CACHE_MAX:
                self._shared_kinds.clear()
            # with the slice, so that no other one gets its id
            known = self._shared_kinds[key] = (each.slice, self._kind_on(place, each))
        return known[1]

    def _kind_on(self, place: NodeDevices, each: Candidate) -> Hashable:
        matches = tuple(
            match_of(self._matcher, self._classes, place.node, request, each) for request in self._requests
        )
        own = kind_of(each, matches, self._attributes, is_used=each.id in place.in_use)
        return own, is_local(each)

    def _may_have(self, place: NodeDevices, each: Candidate) -> bool:
        return any(
            match_of(self._matcher, self._classes, place.node, request, each) is True
            for request in self._requests
        )


def _without(place: NodeDevices, answer: Answer, number: int) -> NodeDevices:
    """The devices of the node after this allocation, that of a member with this number."""
    named = [
        structs.replace(each, share_id=f"{number} {each.share_id}") if each.share_id else each
        for claim in answer.claims or ()
        for each in claim
    ]
    return structs.replace(place, in_use=place.in_use.union(each.use for each in named if each.use))


def _counters(place: NodeDevices) -> Hashable:
    """Everything on which counters depend: their pools, and what of them is in use."""
    return tuple(
        (
            pool.id,
            place.node.name,
            tuple(sorted(devices_used(each for each in place.in_use if each[:2] == pool.id))),
        )
        for pool in place.pools
        if pool.counter_sets
    )
