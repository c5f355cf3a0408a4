"""Counters that the devices of a pool share: a partition of a GPU uses up what others would need."""

from collections.abc import Iterable, Iterator, Sequence

from phalanx.model.supplies.devices.pools import Device, Pool, PoolId
from phalanx.model.supplies.devices.uses import DeviceUse, devices_used

_Counter = tuple[str, str]
"""Counter set and counter."""


class Counters:
    """What is free of the counters of some pools, in billionths."""

    def __init__(self, pools: Sequence[Pool], in_use: Iterable[DeviceUse]) -> None:
        self._free: dict[PoolId, dict[_Counter, int]] = {}
        counted = [pool for pool in pools if pool.counter_sets and not pool.problem]
        used = devices_used(in_use) if counted else frozenset()
        for pool in counted:
            free = {
                (counter_set, counter): int(amount)
                for counter_set, counters in pool.counter_sets.items()
                for counter, amount in counters.items()
            }
            for each in (*pool.slices, *pool.other_slices):
                for device in each.devices:
                    if device.consumes and (*pool.id, device.name) in used:
                        for counter, amount in _used(device):
                            free[counter] -= amount
            self._free[pool.id] = free

    def take(self, pool: PoolId, device: Device) -> bool:
        """Take what the device uses. False if it is not free, or if some counter of the pool is overused, as
        in kube-scheduler."""
        if not device.consumes:
            return True
        free = self._free[pool]
        for counter, amount in _used(device):
            free[counter] -= amount
        if min(free.values()) >= 0:
            return True
        self.give_back(pool, device)
        return False

    def give_back(self, pool: PoolId, device: Device) -> None:
        """Give back what the device uses."""
        for counter, amount in _used(device):
            self._free[pool][counter] += amount


def _used(device: Device) -> Iterator[tuple[_Counter, int]]:
    for consumption in device.consumes:
        for counter, amount in consumption.counters:
            yield (consumption.counter_set, counter), int(amount)
