"""How many pods with different claims fit on a node together: free devices by what the claims ask for.

Claims are plain if they ask for fixed numbers of devices. For each set of kinds of requests, they can ask for
no more devices of these kinds together than are free that match one of the kinds. So there is one amount per
set of kinds, which adds up. Without constraints, and where two kinds of requests match the same free devices
of a node, or none in common, plain claims fit exactly within these amounts (Hall's theorem). Then it does not
matter either which pod is served first.

A device that is allocated in shares is as many devices as it has shares of the largest kind. That is a lower
bound of what fits. It does not matter there either which pod is served first: with fewer shares in use than
that, some device has another one of the largest kind. It is exact where all kinds consume the same.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Encoder

from phalanx.model.pods import Toleration
from phalanx.model.supplies.devices.allocator import NodeDevices, candidates, match_of
from phalanx.model.supplies.devices.capacity import Amounts
from phalanx.model.supplies.devices.claims import ALL_DEVICES, ClaimSpec, DeviceClasses, Request
from phalanx.model.supplies.devices.limits import CLAIM_SEARCH_DEVICES_MAX
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.shares import Shares, ask_for_amounts

DEVICE_KINDS_TOGETHER_MAX: Final = 4
"""Kinds of requests of pods that are placed together and counted exactly: each set of them is a resource of
the solver."""

Kind = tuple[str, tuple[str, ...], tuple[Toleration, ...], Amounts]
"""What a request asks for: class, expressions, tolerations and capacity. Its name does not matter."""


_encode: Final = Encoder(order="sorted").encode
_NAME_BYTES: Final = 8


class PlainKinds(Struct, frozen=True, gc=False):
    """The kinds of requests of plain claims, each as one request of it.

    `is_single`: each of them asks for one device. `has_constraints`: some claims have constraints.
    """

    requests: tuple[Request, ...]
    is_single: bool = False
    has_constraints: bool = False

    @property
    def sets(self) -> range:
        """The sets of kinds as numbers, in which each kind is one bit."""
        return range(1, 1 << len(self.requests))

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each set of kinds, which is the same among other kinds."""
        encoded = [_encode(_kind(each)) for each in self.requests]
        return tuple(
            blake2b(
                b"".join(sorted(each for index, each in enumerate(encoded) if some >> index & 1)),
                digest_size=_NAME_BYTES,
            ).hexdigest()
            for some in self.sets
        )

    def asked(self, claims: Sequence[ClaimSpec]) -> tuple[int, ...]:
        """For each set of kinds, how many devices of them these claims ask for."""
        counts: Counter[Kind] = Counter()
        for spec in claims:
            for (request,) in spec.requests:
                counts[_kind(request)] += request.count
        numbers = [counts[_kind(each)] for each in self.requests]
        return tuple(
            sum(count for index, count in enumerate(numbers) if some >> index & 1) for some in self.sets
        )


def plain_kinds(specs: Sequence[ClaimSpec]) -> PlainKinds | None:
    """The kinds of requests of these claims; None if a claim is not plain, or if there are too many kinds."""
    found: dict[Kind, Request] = {}
    for spec in specs:
        for some in spec.requests:
            if len(some) != 1 or some[0].count == ALL_DEVICES or some[0].admin_access:
                return None
            found.setdefault(_kind(some[0]), some[0])
    is_single = all(some[0].count == 1 for spec in specs for some in spec.requests)
    has_constraints = any(spec.constraints for spec in specs)
    return (
        PlainKinds(tuple(found.values()), is_single, has_constraints)
        if len(found) <= DEVICE_KINDS_TOGETHER_MAX
        else None
    )


class FreeDevices(Struct, frozen=True, gc=False):
    """For each set of kinds, bounds on the devices that pods can have for requests of these kinds."""

    least: tuple[int, ...] | None
    """So many fit, whichever of the kinds they are for; None where that is not known: kinds share some of
    their devices, devices share counters, or claims have constraints."""
    most: tuple[int, ...]
    """No more fit."""
    has_shares: bool = False
    """Whether some of these devices are allocated in shares."""

    @property
    def is_exact(self) -> bool:
        """Whether pods fit exactly if each of these numbers is enough."""
        return self.least == self.most


class _Usable(Struct, frozen=True, gc=False):
    """A free device: how many pods can have it for each kind that matches, and for any of them."""

    by_kind: dict[int, int]
    together: int

    @property
    def matching(self) -> int:
        """The kinds that match, as a set."""
        return sum(1 << index for index in self.by_kind)


def free_for_any(
    place: NodeDevices, kinds: PlainKinds, *, classes: DeviceClasses, matcher: Matcher
) -> FreeDevices:
    """For each set of these kinds, how many free devices match one of them.

    A device in shares counts at least as often as it has shares of the largest of the kinds that it can
    serve, and at most as often as it has shares of the smallest one of the set.
    """
    usable: list[_Usable] = []
    are_counted, has_shares = True, False
    shares = Shares(place.in_use, are_amounts_asked=ask_for_amounts(kinds.requests))
    for each in candidates(place.pools):
        if each.id in place.in_use:
            continue
        able = {
            index: count
            for index, request in enumerate(kinds.requests)
            if match_of(matcher, classes, place.node, request, each) is True
            and request.tolerates(each.device.taints)
            and (count := shares.most(request, each.id, each.device, CLAIM_SEARCH_DEVICES_MAX))
        }
        if not able:
            continue
        has_shares = has_shares or each.device.allows_shares
        are_counted = (
            are_counted and not each.device.consumes and (kinds.is_single or not each.device.allows_shares)
        )
        requests = [kinds.requests[index] for index in able]
        together = shares.most_together(requests, each.id, each.device, CLAIM_SEARCH_DEVICES_MAX)
        usable.append(_Usable(able, together))
    most = tuple(
        sum(max((n for index, n in each.by_kind.items() if some >> index & 1), default=0) for each in usable)
        for some in kinds.sets
    )
    return FreeDevices(
        _least(kinds, usable) if are_counted and not kinds.has_constraints else None, most, has_shares
    )


def _least(kinds: PlainKinds, usable: Sequence[_Usable]) -> tuple[int, ...] | None:
    """For each set of kinds, how many devices match one of them; None if that does not tell what fits."""
    counts: Counter[int] = Counter()
    alone = 0
    for each in usable:
        counts[each.matching] += each.together
        alone |= each.matching
    if any(
        one & other and one != other for one in counts for other in counts if counts[one] and counts[other]
    ):
        return None
    found = tuple(sum(count for number, count in counts.items() if number & some) for some in kinds.sets)
    # A pod that fits alone must not be kept from the node because a larger one does not fit.
    if any(not count and some & alone for some, count in zip(kinds.sets, found, strict=True)):
        return None
    return found


def _kind(request: Request) -> Kind:
    expressions = tuple(each.expression for each in request.selectors)
    return request.device_class, expressions, request.tolerations, request.capacity
