"""Progressive filling: divide several resources by weighted dominant shares (max-min fair).

Ghodsi et al., "Dominant Resource Fairness", NSDI 2011. The level of all bundles rises at the same rate per
weight and dominant share. A bundle stops when it is met in full or a resource that it needs is exhausted. The
levels are leximin: no level can rise unless one that is not higher falls. Fractions are exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Final

from msgspec import Struct

from phalanx.model.resources import Resources

_WATER_LEVEL_BITS_MAX: Final = 2048
"""Bits of the common denominator in water filling. Enough for 50 siblings whose largest demands are odd
numbers of bytes, or for 1,000 that demand devices. Beyond it fractions are rounded to 64 bits, since exact
ones take seconds."""


class Bundle(Struct, frozen=True):
    """Amounts of several resources that are only useful together (Leontief demand)."""

    amounts: Resources
    rate: Fraction
    """The fraction of the amounts that is met per unit of the level."""


def dominant_share(amounts: Resources, capacity: Resources) -> Fraction:
    """The largest fraction, over all resources, of the capacity that the amounts take; at least 0."""
    most, of = 0, 1
    for name, amount in amounts.items():
        total = capacity.get(name, 0)
        if total > 0 and amount * of > most * total:
            most, of = amount, total
    return Fraction(most, of)


def fill(bundles: Sequence[Bundle], capacity: Resources) -> list[int | Fraction]:
    """The fraction of each bundle that is met, from 0 to 1."""
    rates = _as_integers([bundle.rate for bundle in bundles])
    filling = _Filling(bundles, rates, capacity)
    for index in sorted(range(len(bundles)), key=lambda index: -rates[index]):
        while filling.parts[index] is None and not filling.meet(index):
            filling.freeze()
    return [part or 0 for part in filling.parts]


def _as_integers(rates: Sequence[Fraction]) -> list[int]:
    """The rates as integers, in a smaller unit of the level: exact, or rounded to 64 bits."""
    unit = lcm(*(rate.denominator for rate in rates))
    if unit.bit_length() <= _WATER_LEVEL_BITS_MAX:
        return [rate.numerator * (unit // rate.denominator) for rate in rates]
    unit = (1 << 64) * max(rate.denominator // rate.numerator + 1 for rate in rates)
    return [rate.numerator * unit // rate.denominator for rate in rates]


class _Filling:
    """The state of the filling while the level rises."""

    def __init__(self, bundles: Sequence[Bundle], rates: Sequence[int], capacity: Resources) -> None:
        self.parts: list[int | Fraction | None] = [None] * len(bundles)
        """The fraction of each bundle that is met; None while it still rises."""
        self._bundles = bundles
        self._rates = rates
        self._consumption: dict[str, int] = {}
        """What the bundles that still rise take per unit of the level."""
        for bundle, rate in zip(bundles, rates, strict=True):
            for name, amount in bundle.amounts.items():
                self._consumption[name] = self._consumption.get(name, 0) + amount * rate
        self._left: dict[str, int | Fraction] = {
            name: max(0, capacity.get(name, 0)) for name in self._consumption
        }

    def meet(self, index: int) -> bool:
        """Meet this bundle, which rises fastest, in full; return False if a resource is exhausted first."""
        rate = self._rates[index]
        if any(taken > self._left[name] * rate for name, taken in self._consumption.items()):
            return False
        self._stop(index, 1)
        return True

    def freeze(self) -> None:
        """Raise the level until a resource is exhausted, and stop the bundles that need it."""
        levels = {
            name: Fraction(self._left[name]) / taken for name, taken in self._consumption.items() if taken > 0
        }
        level = min(levels.values())
        exhausted = [name for name in levels if levels[name] == level]
        for index, bundle in enumerate(self._bundles):
            if self.parts[index] is None and any(bundle.amounts.get(name, 0) > 0 for name in exhausted):
                self._stop(index, level * self._rates[index])

    def _stop(self, index: int, part: int | Fraction) -> None:
        self.parts[index] = part
        for name, amount in self._bundles[index].amounts.items():
            self._consumption[name] -= amount * self._rates[index]
            self._left[name] -= amount if part == 1 else amount * part
