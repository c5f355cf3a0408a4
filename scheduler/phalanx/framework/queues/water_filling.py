"""Divides amounts of several resources so that the smallest weighted dominant share is as large as can be.

Progressive filling (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011): all wishes are met in the same
degree per weight and dominant share, until one is met whole or a resource that it needs is used up. Only the
others go on. The levels that are reached are leximin: none could be higher without making one lower that is
no higher. Fractions are exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from msgspec import Struct

from phalanx.limits import WATER_LEVEL_BITS_MAX
from phalanx.model.resources import Resources


class Wish(Struct, frozen=True):
    """Amounts that are of use together only. `speed`: the part of them that is met per unit of the level."""

    amounts: Resources
    speed: Fraction


def dominant_share(amounts: Resources, capacity: Resources) -> Fraction:
    """The largest part, over all resources, that the amounts are of what there is; at least 0.

    Only what is asked for is looked at: nodes may offer thousands of resources that nobody wants.
    """
    most, of = 0, 1
    for name, amount in amounts.items():
        total = capacity.get(name, 0)
        if total > 0 and amount * of > most * total:
            most, of = amount, total
    return Fraction(most, of)


def fill(wishes: Sequence[Wish], room: Resources) -> list[int | Fraction]:
    """The part of each wish that is met, from 0 to 1."""
    speeds = _whole([wish.speed for wish in wishes])
    water = _Water(wishes, speeds, room)
    for index in sorted(range(len(wishes)), key=lambda index: -speeds[index]):
        while water.parts[index] is None and not water.meets(index):
            water.freeze()
    return [part or 0 for part in water.parts]


def _whole(speeds: Sequence[Fraction]) -> list[int]:
    """The same in another unit of the level: exact, or to 64 bits where many odd ones need too many."""
    unit = lcm(*(speed.denominator for speed in speeds))
    if unit.bit_length() <= WATER_LEVEL_BITS_MAX:
        return [speed.numerator * (unit // speed.denominator) for speed in speeds]
    unit = (1 << 64) * max(speed.denominator // speed.numerator + 1 for speed in speeds)
    return [speed.numerator * unit // speed.denominator for speed in speeds]


class _Water:
    """The level rises; `_rates`: what those that still rise take per unit of it, `_left`: for all of them."""

    def __init__(self, wishes: Sequence[Wish], speeds: Sequence[int], room: Resources) -> None:
        self.parts: list[int | Fraction | None] = [None] * len(wishes)
        self._wishes = wishes
        self._speeds = speeds
        self._rates: dict[str, int] = {}
        for wish, speed in zip(wishes, speeds, strict=True):
            for name, amount in wish.amounts.items():
                self._rates[name] = self._rates.get(name, 0) + amount * speed
        self._left: dict[str, int | Fraction] = {name: max(0, room.get(name, 0)) for name in self._rates}

    def meets(self, index: int) -> bool:
        """Meet this wish whole, the fastest that still rises, unless a resource is used up before."""
        speed = self._speeds[index]
        if any(rate > self._left[name] * speed for name, rate in self._rates.items()):
            return False
        self._settle(index, 1)
        return True

    def freeze(self) -> None:
        """Rise until a resource is used up; whatever needs it rises no further."""
        levels = {name: Fraction(self._left[name]) / rate for name, rate in self._rates.items() if rate > 0}
        level = min(levels.values())
        used_up = [name for name in levels if levels[name] == level]
        for index, wish in enumerate(self._wishes):
            if self.parts[index] is None and any(wish.amounts.get(name, 0) > 0 for name in used_up):
                self._settle(index, level * self._speeds[index])

    def _settle(self, index: int, part: int | Fraction) -> None:
        self.parts[index] = part
        for name, amount in self._wishes[index].amounts.items():
            self._rates[name] -= amount * self._speeds[index]
            self._left[name] -= amount if part == 1 else amount * part
