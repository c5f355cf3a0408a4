"""What allocations use of devices: a whole device, or a share of one with the capacity that it consumes.

Sets of uses say what is in use, taken or free again. Each share is an element of its own, by the ID that its
claim gives it, so that such sets can be united and subtracted.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

from phalanx.model.supplies.devices.capacity import Amounts
from phalanx.model.supplies.devices.pools import DeviceId

DeviceUse = tuple[str, ...]
"""A device that is used up: its ID. A share: the ID of the device, that of the share, and then in turn the
name and the amount of each capacity that it consumes. Plain texts, so that a recording has them."""

NONE_TAKEN: Final = frozenset[DeviceUse]()

_ID_LENGTH: Final = 3
_UUID_BYTES: Final = 16


def share_of(device: DeviceId, share_id: str, consumed: Amounts) -> DeviceUse:
    """The use of a share."""
    return (*device, share_id, *(text for amount in consumed for text in amount))


def is_share(use: DeviceUse) -> bool:
    """Whether other shares of the device may be in use too."""
    return len(use) > _ID_LENGTH


def device_of(use: DeviceUse) -> DeviceId:
    """The device that is used, or of which a share is."""
    return use[0], use[1], use[2]


def devices_used(uses: Iterable[DeviceUse]) -> frozenset[DeviceId]:
    """The devices that are used, wholly or in part."""
    return frozenset(map(device_of, uses))


def consumed_by(use: DeviceUse) -> Iterator[tuple[str, int]]:
    """What a share consumes."""
    amounts = use[_ID_LENGTH + 1 :]
    return ((name, int(amount)) for name, amount in zip(amounts[::2], amounts[1::2], strict=True))


def consumed_together(uses: Iterable[DeviceUse]) -> dict[str, int]:
    """What shares of one device consume."""
    found: dict[str, int] = {}
    for use in uses:
        for name, amount in consumed_by(use):
            found[name] = found.get(name, 0) + amount
    return found


def shares_by_device(uses: Iterable[DeviceUse]) -> Mapping[DeviceId, list[DeviceUse]]:
    """The shares among these uses."""
    found: dict[DeviceId, list[DeviceUse]] = {}
    for use in uses:
        if is_share(use):
            found.setdefault(device_of(use), []).append(use)
    return found


def new_share_id(claim: str, request: str, device: DeviceId, position: int) -> str:
    """The ID of a share of the claim with this UID: the same whenever the same decision is made or written
    again, and never that of another claim. It is a UUID of version 8 (RFC 9562), made of a digest."""
    named = "\n".join((claim, request, *device, str(position)))
    digits = blake2b(named.encode(), digest_size=_UUID_BYTES).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
