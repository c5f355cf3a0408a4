"""How many pods with equal claims the shared devices of a node can have at most, by their capacity."""

from collections.abc import Sequence

from phalanx.model.supplies.devices.allocator import Candidate
from phalanx.model.supplies.devices.claims import ALL_DEVICES, ClaimSpec, Request
from phalanx.model.supplies.devices.shares import Shares

Matching = Sequence[tuple[Request, int, Sequence[Candidate]]]
"""Requests that each pod makes, how many devices they ask for, and those that match and are not used up."""


def sole_request(claims: Sequence[ClaimSpec]) -> Request | None:
    """The request of claims that ask for one device only, without constraints; None for others."""
    if len(claims) != 1 or claims[0].constraints or len(claims[0].requests) != 1:
        return None
    request, *others = claims[0].requests[0]
    is_sole = not others and request.count == 1 and request.count != ALL_DEVICES
    return request if is_sole and not request.admin_access else None


def are_counted_alone(request: Request, matching: Sequence[Candidate], shares: Shares) -> bool:
    """Whether pods can have all shares of these devices together that each of them has alone: nothing is
    needed but the capacity of one of them."""
    return any(each.device.allows_shares for each in matching) and not any(
        each.device.consumes
        or not request.tolerates(each.device.taints)
        or shares.is_error(request, each.id, each.device)
        for each in matching
    )


def most_by_capacity(matching: Matching, shares: Shares) -> int | None:
    """No more pods than the capacity of the devices together allows that only serve by shares; None if there
    are none."""
    concerned = [each for each in matching if all(one.device.allows_shares for one in each[2])]
    devices = {each.id: each for _, _, some in concerned for each in some}
    free: dict[str, int] = {}
    for each in devices.values():
        for name, amount in shares.left(each.id, each.device).items():
            free[name] = free.get(name, 0) + amount
    needed: dict[str, int] = {}
    for request, count, some in concerned:
        wanted = [amounts for each in some if (amounts := shares.wanted(request, each.id, each.device))]
        for name in free:
            least = min((amounts.get(name, 0) for amounts in wanted), default=0)
            needed[name] = needed.get(name, 0) + count * least
    return min((free[name] // amount for name, amount in needed.items() if amount), default=None)
