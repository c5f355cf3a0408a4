"""Which claims use each device, which hold something for each pod, and the taints of published devices.

Each event changes only the entries of its own claim or pool, so that its cost does not grow with the number
of claims.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx.cache.devices.leftover_claims import holders
from phalanx.cache.table import Key
from phalanx.model.supplies.devices.claims import Claim, devices_in_use
from phalanx.model.supplies.devices.pools import Device, DeviceId, PoolId, Slice, TaintRule, with_taints
from phalanx.model.supplies.devices.uses import DeviceUse, devices_used

_Devices = Mapping[DeviceId, Device]


class ClaimUsers:
    """Claims by the devices that they use, and by the pods for which they are held."""

    def __init__(self) -> None:
        self._of_device: dict[DeviceId, set[Key]] = {}
        self._of_holder: dict[str, set[Key]] = {}

    def replace(self, key: Key, old: Claim | None, new: Claim | None) -> None:
        """A claim was added, changed or removed."""
        for index, before, after in (
            (self._of_device, devices_used(_devices(old)), devices_used(_devices(new))),
            (self._of_holder, holders(old), holders(new)),
        ):
            _move(index, key, before, after)

    def of_device(self, device: DeviceId) -> Iterable[Key]:
        """The claims that use the device up, or have shares of it."""
        return self._of_device.get(device, ())

    def of_holder(self, uid: str) -> Iterable[Key]:
        """The claims that are held for the pod of this UID: see leftover claims."""
        return self._of_holder.get(uid, ())


def frees(old: Claim | None, new: Claim | None) -> bool:
    """Whether devices are free after this change, or may be when fewer pods than before have ended."""
    if old is None or old.allocation is None:
        return False
    if new is None or new.allocation is None:
        return True
    return not (_devices(old) <= _devices(new) and set(old.reserved_for) <= set(new.reserved_for))


def _devices(claim: Claim | None) -> set[DeviceUse]:
    return set() if claim is None else set(devices_in_use((claim,)))


def _move(index: dict[Any, set[Key]], key: Key, before: Iterable[object], after: Iterable[object]) -> None:
    for each in before:
        index[each].discard(key)
        if not index[each]:
            del index[each]
    for each in after:
        index.setdefault(each, set()).add(key)


class PublishedDevices:
    """The devices of the newest generation of each pool, with their taints."""

    def __init__(self, rules: Callable[[], Iterable[TaintRule]]) -> None:
        self._rules = rules
        self._slices: dict[PoolId, dict[Key, Slice]] = {}
        self._known: dict[PoolId, _Devices] = {}

    def replace(self, key: Key, old: Slice | None, new: Slice | None) -> None:
        """A slice was added, changed or removed."""
        if old is not None:
            self._known.pop(old.pool_id, None)
            slices = self._slices[old.pool_id]
            del slices[key]
            if not slices:
                del self._slices[old.pool_id]
        if new is not None:
            self._known.pop(new.pool_id, None)
            self._slices.setdefault(new.pool_id, {})[key] = new

    def rules_changed(self) -> None:
        """A taint rule was added, changed or removed."""
        self._known.clear()

    def device(self, device: DeviceId) -> Device | None:
        """A device with its taints; None if it is not published."""
        pool = device[:2]
        known = self._known.get(pool)
        if known is None and pool in self._slices:
            known = self._known[pool] = self._of(pool)
        return known.get(device) if known is not None else None

    def _of(self, pool: PoolId) -> _Devices:
        slices, rules = self._slices[pool], tuple(self._rules())
        newest = max(each.generation for each in slices.values())
        return {
            (*pool, device.name): device
            for _, each in sorted(slices.items())
            if each.generation == newest
            for device in with_taints(each, rules).devices
        }
