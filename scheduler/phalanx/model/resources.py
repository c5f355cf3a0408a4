"""Amounts of resources as integers, and operations on them.

Units: `cpu` in thousandths of a core; `memory`, `ephemeral-storage` and `hugepages-*` in bytes; `pods` and
extended resources in whole devices; for parts of devices see `supplies/gpu_shares`. A missing resource counts
as zero. Mappings are never changed in place.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from phalanx.limits import AMOUNT_MAX, QUANTITY_LENGTH_MAX

QUANTITY_EXPONENT_MAX: Final = 30
"""Absolute value of the exponent of a quantity. 1e30 bytes and 1e-30 cores are beyond any machine."""

Resources = Mapping[str, int]

Need = tuple[str, int]
"""What a pod needs of parts of its node: a resource, and the amount that one part must have."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"

NONE: Final[Resources] = {}


_NANO: Final = 9
_LARGEST_BILLIONTHS: Final = ((1 << 63) - 1) * 10**_NANO
"""Kubernetes caps larger quantities."""


def add(left: Resources, right: Resources) -> Resources:
    """Per resource, left + right."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def sum_of(parts: Iterable[Resources]) -> dict[str, int]:
    """The sum of all parts, per resource."""
    found: dict[str, int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def largest(parts: Iterable[Resources]) -> dict[str, int]:
    """The largest amount per resource. Resources of which no part has any are left out."""
    found: dict[str, int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            if amount > found.get(name, 0):
                found[name] = amount
    return found


def subtract(left: Resources, right: Resources) -> Resources:
    """Per resource, left - right. The result is negative for an over-committed node."""
    rest = dict(left)
    for name, amount in right.items():
        rest[name] = rest.get(name, 0) - amount
    return rest


def scale(amounts: Resources, times: int) -> Resources:
    """Per resource, amount x times."""
    return {name: amount * times for name, amount in amounts.items()}


def fits(request: Resources, free: Resources) -> bool:
    """Whether one pod with this request fits. A request of zero fits even if `free` is negative."""
    return all(amount <= 0 or amount <= free.get(name, 0) for name, amount in request.items())


def how_many_fit(request: Resources, free: Resources) -> int | None:
    """How many pods with this request fit together; None if the request is empty (no bound)."""
    counts = [free.get(name, 0) // amount for name, amount in request.items() if amount > 0]
    return max(0, min(counts)) if counts else None


_FORM: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?[0-9]+))?", re.ASCII
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_MILLI: Final = 3
_PARSED_MAX: Final = 4096
"""Texts whose parsed form is kept: the pods of a cluster request few different amounts."""
_SHOWN_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES: Final = (MEMORY, EPHEMERAL_STORAGE)

EXPECTED: Final = 'a quantity such as 2, "500m", "1.5", "64Gi", "10G" or "1e3"'


class InvalidQuantity(ValueError):
    """`written` is not a quantity, or not a valid one here. `expected` describes a valid one."""

    def __init__(self, written: object, expected: str = EXPECTED) -> None:
        super().__init__(f"{_shown(written)} is not valid, expected {expected}")
        self.expected = expected


def request_amount(resource: str, quantity: int | float | str) -> int:
    """The amount of a request, rounded up to the unit of the resource, capped at AMOUNT_MAX.

    Raises InvalidQuantity, also for a negative amount.
    """
    numerator, denominator = _fraction(quantity, _unit_exponent(resource))
    return min(-(-_not_negative(numerator, quantity) // denominator), AMOUNT_MAX)


def capacity_amount(resource: str, quantity: int | float | str) -> int:
    """The amount that a node or a limit offers, rounded down to the unit of the resource, capped at
    AMOUNT_MAX.

    Raises InvalidQuantity, also for a negative amount.
    """
    numerator, denominator = _fraction(quantity, _unit_exponent(resource))
    return min(_not_negative(numerator, quantity) // denominator, AMOUNT_MAX)


def billionths(quantity: int | float | str) -> int:
    """The amount in billionths, rounded up and capped as Kubernetes does; it may be negative.

    Raises InvalidQuantity.
    """
    numerator, denominator = _fraction(quantity, _NANO)
    rounded = -(-abs(numerator) // denominator)
    return min(rounded, _LARGEST_BILLIONTHS) * (-1 if numerator < 0 else 1)


def _unit_exponent(resource: str) -> int:
    """Power of ten that converts a written amount to the unit of the resource."""
    return _MILLI if resource == CPU else 0


def _not_negative(numerator: int, quantity: object) -> int:
    if numerator < 0:
        raise InvalidQuantity(quantity, "an amount that is not negative")
    return numerator


def _fraction(quantity: int | float | str, exponent: int) -> tuple[int, int]:
    """The quantity times 10**exponent as (numerator, denominator), exactly. Spaces around it are allowed."""
    text = quantity.strip() if isinstance(quantity, str) else _shown(quantity)
    parsed = _parsed(text) if len(text) <= QUANTITY_LENGTH_MAX else None
    if parsed is None:
        raise InvalidQuantity(quantity)
    mantissa, written_exponent, power = parsed
    if abs(written_exponent) > QUANTITY_EXPONENT_MAX:
        raise InvalidQuantity(
            quantity, f"an exponent between -{QUANTITY_EXPONENT_MAX} and {QUANTITY_EXPONENT_MAX}"
        )
    exponent += power
    return (mantissa * 10**exponent, 1) if exponent >= 0 else (mantissa, 10**-exponent)


@lru_cache(maxsize=_PARSED_MAX)
def _parsed(text: str) -> tuple[int, int, int] | None:
    """The mantissa, the exponent as written, and the power of ten of both together; None for no quantity."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    sign, whole, decimals, decimal, binary, written_exponent = form.groups(default="")
    digits = whole + decimals
    if not digits:
        return None
    exponent = int(written_exponent or "0")
    power = exponent + _DECIMAL.get(decimal, 0) - len(decimals)
    return int(sign + digits) << _BINARY.get(binary, 0), exponent, power


def _shown(written: object) -> str:
    """The repr of a value. Python refuses to print integers of thousands of digits."""
    if isinstance(written, int) and written.bit_length() > QUANTITY_LENGTH_MAX * 4:
        return "a number of too many digits"
    shown = repr(written)
    return shown if len(shown) <= QUANTITY_LENGTH_MAX else f"{shown[:QUANTITY_LENGTH_MAX]}..."


def format_amount(resource: str, number: int, *, up: bool = False) -> str:
    """An amount such as "8 nvidia.com/gpu", "1500m cpu", "12.5Gi memory". Tenths are rounded down or up."""
    if resource == CPU:
        whole, thousandths = divmod(number, 1000)
        return f"{number}m cpu" if thousandths else f"{whole} cpu"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return f"{format_bytes(number, up=up)} {resource}"
    return f"{number} {resource}"


def format_amounts(amounts: Resources) -> str:
    """Amounts such as "4 nvidia.com/gpu, 32 cpu and 64Gi memory", devices first."""
    *most, last = [
        format_amount(name, amounts[name])
        for name in sorted(amounts, key=lambda each: ("/" not in each, each))
    ]
    return f"{', '.join(most)} and {last}" if most else last


def format_bytes(number: int, *, up: bool = False) -> str:
    """An amount of bytes such as "64Gi"; tenths are rounded down or up."""
    for suffix, unit in _SHOWN_UNITS:
        if number >= unit:
            tenths = (number * 10 + (unit - 1 if up else 0)) // unit
            whole, tenth = divmod(tenths, 10)
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return str(number)
