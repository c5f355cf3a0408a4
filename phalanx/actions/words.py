"""Amounts, demands and lists as users read them in verdicts."""

from collections.abc import Iterable
from typing import Final

from phalanx.actions.demand import Demand
from phalanx.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, add, scale

_BINARY_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES: Final = (MEMORY, EPHEMERAL_STORAGE)


def amount(resource: str, number: int) -> str:
    """Such as "8 nvidia.com/gpu", "1500m cpu", "12.5Gi memory"; tenths are rounded down."""
    if resource == CPU:
        whole, thousandths = divmod(number, 1000)
        return f"{number}m cpu" if thousandths else f"{whole} cpu"
    if resource == PODS:
        return pods(number)
    if resource in _BYTES or resource.startswith("hugepages-"):
        return f"{_bytes(number)} {resource}"
    return f"{number} {resource}"


def _bytes(number: int) -> str:
    for suffix, unit in _BINARY_UNITS:
        if number >= unit:
            whole, rest = divmod(number, unit)
            tenth = rest * 10 // unit
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return str(number)


def amounts(resources: Resources) -> str:
    """All amounts that are not zero, by name; the number of pods only where nothing else is asked for."""
    named = {name: number for name, number in sorted(resources.items()) if number}
    told = {name: number for name, number in named.items() if name != PODS} or named
    return ", ".join(amount(name, number) for name, number in told.items()) or "no resources"


def more(resources: Resources) -> str:
    """The same as what is to be added: "8 more nvidia.com/gpu"."""
    return ", ".join(
        " more ".join(text.split(" ", maxsplit=1)) for text in amounts(resources).split(", ") if resources
    )


def pods(count: int) -> str:
    """A number of pods."""
    return "1 pod" if count == 1 else f"{count} pods"


def listed(items: Iterable[str]) -> str:
    """Joined by commas."""
    return ", ".join(items)


def need(demand: Demand) -> Resources:
    """What the demand's pods request together."""
    total: Resources = {}
    for batch in demand.batches:
        total = add(total, scale(batch.pods[0].shape.requests, len(batch.pods)))
    return total
