"""How many pods with different claims fit on a node together: free devices by what the claims ask for.

Claims are plain if they ask for fixed numbers of devices and have no constraints. Where two kinds of requests
match the same free devices of a node, or none in common, plain claims fit exactly if, for each set of kinds,
they ask for no more devices of these kinds together than are free that match one of the kinds (Hall's
theorem). Then it does not matter either which pod is served first. So there is one amount per set of kinds,
which adds up. On other nodes nothing is said.

A device that is allocated in shares is as many devices as it has shares of the largest kind. That is a lower
bound of what fits. It does not matter there either which pod is served first: with fewer shares in use than
that, some device has another one of the largest kind.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Encoder

from phalanx.model.devices.allocator import NodeDevices, candidates, match_of
from phalanx.model.devices.capacity import Amounts
from phalanx.model.devices.claims import ALL_DEVICES, ClaimSpec, DeviceClasses, Request
from phalanx.model.devices.limits import CLAIM_SEARCH_DEVICES_MAX, DEVICE_KINDS_TOGETHER_MAX
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.shares import Shares, ask_for_amounts
from phalanx.model.pods import Toleration

Kind = tuple[str, tuple[str, ...], tuple[Toleration, ...], Amounts]
"""What a request asks for: class, expressions, tolerations and capacity. Its name does not matter."""


_encode: Final = Encoder(order="sorted").encode
_NAME_BYTES: Final = 8


class PlainKinds(Struct, frozen=True, gc=False):
    """The kinds of requests of plain claims, each as one request of it.

    `is_single`: each of them asks for one device.
    """

    requests: tuple[Request, ...]
    is_single: bool = False

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
            if spec.constraints or len(some) != 1 or some[0].count == ALL_DEVICES or some[0].admin_access:
                return None
            found.setdefault(_kind(some[0]), some[0])
    is_single = all(some[0].count == 1 for spec in specs for some in spec.requests)
    return PlainKinds(tuple(found.values()), is_single) if len(found) <= DEVICE_KINDS_TOGETHER_MAX else None


def free_for_any(
    place: NodeDevices,
    kinds: PlainKinds,
    *,
    classes: DeviceClasses,
    matcher: Matcher,
    are_shares_counted: bool = True,
) -> tuple[int, ...] | None:
    """For each set of these kinds, how many free devices match one of them; None if that does not tell what
    fits: kinds share some of their devices, or devices share counters.

    A device in shares counts as often as it has shares of the largest of the kinds that it can serve: so many
    pods do fit. `are_shares_counted`: else None for such a device.
    """
    counts: Counter[int] = Counter()
    alone = 0
    shares = Shares(place.in_use, are_amounts_asked=ask_for_amounts(kinds.requests))
    for each in candidates(place.pools):
        if each.id in place.in_use:
            continue
        able = [
            index
            for index, request in enumerate(kinds.requests)
            if match_of(matcher, classes, place.node, request, each) is True
            and request.tolerates(each.device.taints)
            and shares.most(request, each.id, each.device, 1)
        ]
        if not able:
            continue
        if each.device.consumes:
            return None
        if each.device.allows_shares and not (are_shares_counted and kinds.is_single):
            return None
        matching = sum(1 << index for index in able)
        alone |= matching
        requests = [kinds.requests[index] for index in able]
        most = shares.most_together(requests, each.id, each.device, CLAIM_SEARCH_DEVICES_MAX)
        counts[matching] += most
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
