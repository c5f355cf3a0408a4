"""Amounts, ages, names and bars as short texts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from phalanx.model.api.meta import WrittenQuantity
from phalanx.model.resources import CPU, MEMORY, PODS, InvalidQuantity, Resources, capacity_amount

_BAR_CELLS: Final = 20
"""Width of a bar. A cell is then 5 % of the largest amount."""

_NAMES_SHOWN: Final = 3
"""Names in one cell of a table; `-o wide` shows all."""


_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_PLACES: Final = ("kubernetes.io/", "k8s.io/")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def amounts(written: Mapping[str, WrittenQuantity]) -> Resources:
    """Quantities as integers; those that are not valid are left out."""
    found: dict[str, int] = {}
    for name, quantity in written.items():
        try:
            found[name] = capacity_amount(name, quantity)
        except InvalidQuantity:
            continue
    return found


def amount(resource: str, number: int) -> str:
    """An amount as people write it: 8, 1.5 for cores, 64Gi for bytes."""
    if resource == CPU:
        return f"{number / 1000:g}"
    if resource in (MEMORY, "ephemeral-storage") or resource.startswith("hugepages-"):
        for unit, size in _UNITS:
            if abs(number) >= size:
                return f"{number / size:.4g}{unit}"
    return str(number)


def listed(resources: Resources) -> str:
    """All amounts that are not 0, without the number of pods."""
    shown = [(name, each) for name, each in sorted(resources.items()) if each and name != PODS]
    return " ".join(f"{name}={amount(name, each)}" for name, each in shown)


def is_device(resource: str) -> bool:
    """Whether it is an extended resource, such as nvidia.com/gpu."""
    return "/" in resource and not resource.startswith(_PLACES)


def main_resource(parts: Iterable[Resources]) -> str:
    """The resource that tables show: the device of which there is most, or cpu if there is none."""
    found: dict[str, int] = {}
    for part in parts:
        for name, number in part.items():
            if is_device(name) and number > 0:
                found[name] = found.get(name, 0) + number
    return max(sorted(found), key=lambda name: found[name]) if found else CPU


def short(resource: str) -> str:
    """The heading for a resource: GPU for nvidia.com/gpu."""
    return resource.rpartition("/")[2].upper()


def age(seconds: int) -> str:
    """A time span as kubectl shows it: 45s, 12m, 3h20m, 5d4h."""
    seconds = max(seconds, 0)
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02}m"
    return f"{seconds // _DAY}d{seconds % _DAY // _HOUR}h"


def names(found: Sequence[str], *, is_wide: bool = False) -> str:
    """The first names and the number of the others; all of them if the table is wide."""
    if is_wide or len(found) <= _NAMES_SHOWN:
        return ",".join(found)
    return f"{','.join(found[:_NAMES_SHOWN])} +{len(found) - _NAMES_SHOWN}"


_NUMBERED: Final = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.DOTALL)


def folded(found: Iterable[str]) -> list[str]:
    """Names that differ in their last number are one, as Slurm writes them: gpu-[0001-0400,0402]."""
    groups: dict[tuple[str, str], list[str]] = {}
    alone: list[str] = []
    for name in found:
        parts = _NUMBERED.fullmatch(name)
        if parts is None:
            alone.append(name)
        else:
            before, number, after = parts.groups()
            groups.setdefault((before, after), []).append(number)
    return sorted((*alone, *(_ranges(*key, numbers) for key, numbers in groups.items())))


def _ranges(before: str, after: str, numbers: list[str]) -> str:
    spans: list[tuple[str, str]] = []
    for number in sorted(set(numbers), key=lambda each: (len(each), each)):
        follows = spans and int(number) == int(spans[-1][1]) + 1
        is_padded = number.startswith("0") or (spans and spans[-1][1].startswith("0"))
        if follows and (len(number) == len(spans[-1][1]) or not is_padded):
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    inside = ",".join(first if first == last else f"{first}-{last}" for first, last in spans)
    return f"{before}{inside}{after}" if inside == numbers[0] else f"{before}[{inside}]{after}"


def bar(parts: Sequence[tuple[str, int]], whole: int, *, cells: int = _BAR_CELLS) -> list[tuple[str, str]]:
    """A bar of `cells` cells: for each part its signs; together with the part's own sign.

    Each part that is not 0 has at least one cell if there is one left, so that small use is seen.
    """
    if whole <= 0:
        return [(" " * cells, "")]
    found: list[tuple[str, str]] = []
    left, shown, total = cells, 0, 0
    for sign, number in parts:
        total += number
        wanted = round(min(total, whole) * cells / whole) - shown
        size = min(left, max(wanted, 1) if number > 0 else 0)
        found.append((sign * size, sign))
        left -= size
        shown += size
    return [*found, ("·" * left, "·")]
