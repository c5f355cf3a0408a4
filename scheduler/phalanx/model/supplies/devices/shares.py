"""What is free of devices whose capacity several allocations consume, while claims are allocated."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from phalanx.model.supplies.devices.capacity import (
    Amounts,
    CannotConsume,
    Consumable,
    consumption,
    how_many,
    is_free,
)
from phalanx.model.supplies.devices.claims import Request
from phalanx.model.supplies.devices.pools import Device, DeviceId
from phalanx.model.supplies.devices.uses import DeviceUse, consumed_together, shares_by_device

_NOTHING: dict[str, int] = {}


class Shares:
    """The shares that are in use, and those that are taken while claims are allocated."""

    def __init__(self, in_use: Iterable[DeviceUse], *, are_amounts_asked: bool) -> None:
        """`are_amounts_asked`: whether a request asks for amounts of capacity. Else the capacity of most
        devices does not matter."""
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._count: dict[DeviceId, int] = {}
        shares = shares_by_device(in_use)
        for device, uses in shares.items():
            self._consumed[device], self._count[device] = consumed_together(uses), len(uses)
        self.matter: Final = are_amounts_asked or bool(shares)
        """Whether the capacity of devices may matter that do not say so themselves."""

    def concern(self, found: Device) -> bool:
        """Whether the capacity of the device may matter."""
        return self.matter or found.allows_shares or bool(found.consumable)

    def is_shared(self, device: DeviceId) -> bool:
        """Whether a share of the device is in use or taken."""
        return self._count.get(device, 0) > 0

    def fits(self, request: Request, device: DeviceId, found: Device) -> bool:
        """Whether the device has what the request consumes. Raises CannotConsume."""
        if not (request.capacity or found.consumable or device in self._consumed):
            return True
        capacity = capacity_of(device[0], found)
        wanted = consumption(capacity, request.capacity)
        return wanted is not None and is_free(capacity, wanted, self._consumed.get(device, _NOTHING))

    def most(self, request: Request, device: DeviceId, found: Device, limit: int) -> int:
        """How many claims with this request can have the device, at most `limit`: one if it allows no shares.
        A request that cannot be compared with the device counts as one that consumes nothing."""
        try:
            if not found.allows_shares:
                return int(self.fits(request, device, found))
            capacity = capacity_of(device[0], found)
            wanted = consumption(capacity, request.capacity)
        except CannotConsume:
            return limit
        used = self._consumed.get(device, _NOTHING)
        return 0 if wanted is None else min(limit, how_many(capacity, wanted, used))

    def is_error(self, request: Request, device: DeviceId, found: Device) -> bool:
        """Whether the request cannot be compared with the device: then no device is tried any more."""
        try:
            self.fits(request, device, found)
        except CannotConsume:
            return True
        return False

    def wanted(self, request: Request, device: DeviceId, found: Device) -> dict[str, int] | None:
        """What a share for the request consumes; None if there is none."""
        try:
            amounts = consumption(capacity_of(device[0], found), request.capacity)
        except CannotConsume:
            return None
        return None if amounts is None else {name: int(amount) for name, amount in amounts}

    def left(self, device: DeviceId, found: Device) -> dict[str, int]:
        """What is free of each capacity of the device."""
        used = self._consumed.get(device, _NOTHING)
        return {
            each.name: max(0, int(each.value) - used.get(each.name, 0))
            for each in capacity_of(device[0], found)
        }

    def most_together(self, requests: Sequence[Request], device: DeviceId, found: Device, limit: int) -> int:
        """How many claims can have the device if each consumes as much as the largest of these requests, at
        most `limit`: so many shares fit, whichever requests they are for."""
        if not found.allows_shares:
            return min(self.most(request, device, found, 1) for request in requests)
        capacity, largest = capacity_of(device[0], found), dict[str, int]()
        for request in requests:
            try:
                wanted = consumption(capacity, request.capacity)
            except CannotConsume:
                wanted = None
            if wanted is None:
                return 0
            for name, amount in wanted:
                largest[name] = max(largest.get(name, 0), int(amount))
        amounts = tuple((name, str(amount)) for name, amount in largest.items())
        return min(limit, how_many(capacity, amounts, self._consumed.get(device, _NOTHING)))

    def take(self, request: Request, device: DeviceId, found: Device) -> Amounts:
        """Take a share, which fits; return what it consumes."""
        wanted = consumption(capacity_of(device[0], found), request.capacity)
        assert wanted is not None
        self._add(device, wanted, 1)
        return wanted

    def give_back(self, device: DeviceId, consumed: Amounts) -> None:
        """Give back a share."""
        self._add(device, consumed, -1)

    def _add(self, device: DeviceId, consumed: Amounts, sign: int) -> None:
        used = self._consumed.setdefault(device, {})
        for name, amount in consumed:
            used[name] = used.get(name, 0) + sign * int(amount)
        self._count[device] = self._count.get(device, 0) + sign

    def kind(self, device: DeviceId, found: Device) -> Hashable:
        """Equal for devices that can take each other's place as far as capacity matters."""
        used = self._consumed.get(device, _NOTHING)
        amounts = tuple(sorted((name, amount) for name, amount in used.items() if amount))
        return found.allows_shares, capacity_of(device[0], found), self.is_shared(device), amounts


def capacity_of(driver: str, device: Device) -> tuple[Consumable, ...]:
    """The capacity of a device with the names that its ResourceSlice writes: requests use the same ones."""
    return device.consumable or tuple(
        Consumable(name.removeprefix(f"{driver}/"), value) for name, value in device.capacity.items()
    )


def is_within(device: DeviceId, found: Device, uses: Iterable[DeviceUse]) -> bool:
    """Whether these shares consume together no more than the device has. What the device does not have any
    more does not count, as in kube-scheduler."""
    used = consumed_together(uses)
    return all(used.get(each.name, 0) <= int(each.value) for each in capacity_of(device[0], found))


def fits_empty(request: Request, driver: str, device: Device) -> bool:
    """Whether the device has what the request consumes if nothing of it is in use. Raises CannotConsume."""
    if not (request.capacity or device.consumable):
        return True
    return consumption(capacity_of(driver, device), request.capacity) is not None


def ask_for_amounts(requests: Iterable[Request]) -> bool:
    """Whether one of the requests asks for amounts of capacity."""
    return any(each.capacity for each in requests)
