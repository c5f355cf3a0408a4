"""Amounts of resources as integers, and the few operations on them.

Units: `cpu` in thousandths of a core, `memory`, `ephemeral-storage` and `hugepages-*` in bytes, `pods` and
every extended resource in whole devices; for parts of devices see `shares.py`. A resource that is absent
counts as zero. Mappings are never changed in place.
"""

from collections.abc import Iterable, Mapping
from typing import Final

Resources = Mapping[str, int]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
GPU: Final = "nvidia.com/gpu"

NONE: Final[Resources] = {}


def add(left: Resources, right: Resources) -> Resources:
    """Per resource, left + right."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def sum_of(parts: Iterable[Resources]) -> dict[str, int]:
    """All of them added up."""
    found: dict[str, int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def largest(parts: Iterable[Resources]) -> dict[str, int]:
    """Per resource, the most that one of them has; what none has any of is left out."""
    found: dict[str, int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            if amount > found.get(name, 0):
                found[name] = amount
    return found


def subtract(left: Resources, right: Resources) -> Resources:
    """Per resource, left - right; the result may be negative where a node is over-committed."""
    rest = dict(left)
    for name, amount in right.items():
        rest[name] = rest.get(name, 0) - amount
    return rest


def scale(amounts: Resources, times: int) -> Resources:
    """Per resource, amount x times."""
    return {name: amount * times for name, amount in amounts.items()}


def fits(request: Resources, free: Resources) -> bool:
    """Whether one pod with this request fits; a request of zero fits even where free is negative."""
    return all(amount <= 0 or amount <= free.get(name, 0) for name, amount in request.items())


def how_many_fit(request: Resources, free: Resources) -> int | None:
    """How many pods with this request fit side by side; None when the request is empty (no bound)."""
    counts = [free.get(name, 0) // amount for name, amount in request.items() if amount > 0]
    return max(0, min(counts)) if counts else None
