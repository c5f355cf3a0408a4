"""Amounts, demands and lists as users read them in verdicts."""

from collections.abc import Iterable
from datetime import UTC, datetime

from phalanx.actions.nodes.resource_projection import PIECES, is_place
from phalanx.model.gpu_shares import GPU_MEMORY, GPU_SHARE, WHOLE_DEVICE, is_device
from phalanx.model.numa import is_numa_resource
from phalanx.model.resources import PODS, Resources, format_amount, format_bytes


def amount(resource: str, number: int) -> str:
    """Such as "8 nvidia.com/gpu", "1500m cpu", "12.5Gi memory"; tenths are rounded down."""
    if resource == PODS:
        return pods(number)
    if resource == GPU_SHARE:
        return f"{_devices(number)} shared GPU{'' if number == WHOLE_DEVICE else 's'}"
    if resource == GPU_MEMORY:
        return f"{format_bytes(number)} of GPU memory"
    if resource.startswith(PIECES):
        size = resource.removeprefix(PIECES)
        return f"{_devices(number)} shared GPUs in pieces of {_devices(int(size))}"
    if is_place(resource):
        return f"{number} NUMA place{'' if number == 1 else 's'}"
    return format_amount(resource, number)


def share(requests: Resources) -> str:
    """Such as "0.25 of it" or "20Gi of its memory": what pods ask for of one device."""
    if GPU_SHARE in requests:
        return f"{_devices(requests[GPU_SHARE])} of it"
    return f"{format_bytes(requests[GPU_MEMORY])} of its memory"


def _devices(thousandths: int) -> str:
    """Such as 3 or 0.25."""
    whole, rest = divmod(thousandths, WHOLE_DEVICE)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def amounts(resources: Resources) -> str:
    """All amounts that are not zero, by name; the number of pods only where nothing else is asked for.

    Parts of single devices and zones are not told: what is made of them is.
    """
    return ", ".join(_each(resources))


def more(resources: Resources) -> str:
    """The same as what is to be added: "8 more nvidia.com/gpu"; empty for nothing."""
    format_amount = _each(resources) if resources else []
    return ", ".join(" more ".join(text.split(" ", maxsplit=1)) for text in format_amount)


def _each(resources: Resources) -> list[str]:
    named = {name: number for name, number in sorted(resources.items()) if number and not _is_part(name)}
    wanted = {name: number for name, number in named.items() if name != PODS} or named
    return [amount(name, number) for name, number in wanted.items()] or ["no resources"]


def _is_part(resource: str) -> bool:
    return is_device(resource) or is_numa_resource(resource)


def pods(count: int) -> str:
    """A number of pods."""
    return "1 pod" if count == 1 else f"{count} pods"


def moment(milliseconds: int) -> str:
    """A time as the API writes them, in whole seconds."""
    return datetime.fromtimestamp(milliseconds // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: int) -> str:
    """Such as 1h30m, as fields of our objects take it."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def listed(items: Iterable[str]) -> str:
    """Joined by commas."""
    return ", ".join(items)
