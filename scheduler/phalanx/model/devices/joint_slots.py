"""How many pods with different claims fit on a node together: free devices by what the claims ask for.

Claims are plain if they ask for fixed numbers of devices and have no constraints. Where two kinds of requests
match the same free devices of a node, or none in common, plain claims fit exactly if, for each set of kinds,
they ask for no more devices of these kinds together than are free that match one of the kinds (Hall's
theorem). Then it does not matter either which pod is served first. So there is one amount per set of kinds,
which adds up. On other nodes nothing is said.
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
from phalanx.model.devices.limits import DEVICE_KINDS_TOGETHER_MAX
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.shares import Shares, ask_for_amounts
from phalanx.model.pods import Toleration

Kind = tuple[str, tuple[str, ...], tuple[Toleration, ...], Amounts]
"""What a request asks for: class, expressions, tolerations and capacity. Its name does not matter."""


_encode: Final = Encoder(order="sorted").encode
_NAME_BYTES: Final = 8


class PlainKinds(Struct, frozen=True, gc=False):
    """The kinds of requests of plain claims, each as one request of it."""

    requests: tuple[Request, ...]

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
    return PlainKinds(tuple(found.values())) if len(found) <= DEVICE_KINDS_TOGETHER_MAX else None


def free_for_any(
    place: NodeDevices, kinds: PlainKinds, *, classes: DeviceClasses, matcher: Matcher
) -> tuple[int, ...] | None:
    """For each set of kinds, how many free devices match one of them; None if that does not tell what fits:
    kinds share some of their devices, devices share counters, or they are allocated in shares."""
    counts: Counter[int] = Counter()
    shares = Shares(place.in_use, are_amounts_asked=ask_for_amounts(kinds.requests))
    for each in candidates(place.pools):
        if each.id in place.in_use or each.device.unsupported:
            continue
        matching = 0
        for index, request in enumerate(kinds.requests):
            found = match_of(matcher, classes, place.node, request, each)
            if found is True and request.tolerates(each.device.taints):
                matching |= shares.most(request, each.id, each.device, 1) << index
        if matching and (each.device.consumes or each.device.allows_shares):
            return None
        counts[matching] += bool(matching)
    if any(
        one & other and one != other for one in counts for other in counts if counts[one] and counts[other]
    ):
        return None
    return tuple(sum(count for number, count in counts.items() if number & some) for some in kinds.sets)


def _kind(request: Request) -> Kind:
    expressions = tuple(each.expression for each in request.selectors)
    return request.device_class, expressions, request.tolerations, request.capacity
