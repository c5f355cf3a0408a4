"""Capacity that several allocations of one device consume, as kube-scheduler counts it.

A device that allows several allocations is given in shares. Each share consumes some of every capacity of the
device: what its request asks for, rounded up to what the request policy of the capacity allows. Without a
request it is the default of the policy, and without a policy all of the capacity.

Requests with amounts may also get whole devices, if these have as much.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

Amount = str
"""An amount in billionths, as decimal text: 80Gi is more than the 64 bits of an integer in a recording."""

Amounts = tuple[tuple[str, Amount], ...]
"""Amounts by the name of the capacity, as the ResourceSlice writes it: with or without a domain."""

UNBOUNDED: Final = 1 << 20
"""As a number of shares: more than are ever allocated."""

_UNIT: Final = 10**9
_INT64_MAX: Final = (1 << 63) - 1
_PARTS: Final = (("m", 10**6), ("u", 10**3), ("n", 1))
_MULTIPLES: Final = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10), ("", 1))


class Policy(Struct, frozen=True, gc=False):
    """What shares may consume of a capacity: one of `values`, or a multiple of `step` from `minimum` on."""

    default: Amount | None = None
    values: tuple[Amount, ...] = ()
    minimum: Amount | None = None
    maximum: Amount | None = None
    step: Amount | None = None


class Consumable(Struct, frozen=True, gc=False):
    """One capacity of a device, by the name that the ResourceSlice writes."""

    name: str
    value: Amount
    policy: Policy | None = None


class CannotConsume(Exception):
    """No device is tried for the request, as in kube-scheduler. The text says which capacity, and why."""


def consumption(capacity: Iterable[Consumable], requested: Amounts) -> Amounts | None:
    """What a share for this request consumes, in order of names; None if no share of the device can serve it.

    Raises CannotConsume.
    """
    asked, found = dict(requested), list[tuple[Consumable, int]]()
    known = tuple(capacity)
    if not asked.keys() <= {each.name for each in known}:
        return None
    # All amounts before any check: an error does not depend on the order of capacities.
    for each in known:
        amount = _consumed(each, asked.get(each.name))
        if amount < 0:
            raise CannotConsume(f"capacity {each.name}: is negative")
        found.append((each, amount))
    if any(amount > int(each.value) or _violates(amount, each.policy) for each, amount in found):
        return None
    return tuple(sorted((each.name, str(amount)) for each, amount in found))


def is_free(capacity: Iterable[Consumable], wanted: Amounts, used: Mapping[str, int]) -> bool:
    """Whether the device has these amounts beside those that are used."""
    values = {each.name: int(each.value) for each in capacity}
    return all(used.get(name, 0) + int(amount) <= values[name] for name, amount in wanted)


def how_many(capacity: Iterable[Consumable], wanted: Amounts, used: Mapping[str, int]) -> int:
    """How many shares of these amounts the device has beside what is used."""
    values = {each.name: int(each.value) for each in capacity}
    counts = [
        UNBOUNDED * (used.get(name, 0) <= values[name])
        if int(amount) == 0
        else (values[name] - used.get(name, 0)) // int(amount)
        for name, amount in wanted
    ]
    return max(0, min(counts, default=UNBOUNDED))


def as_quantity(amount: Amount) -> str:
    """The amount as Kubernetes writes quantities."""
    number = int(amount)
    if number % _UNIT:
        return next(f"{number // unit}{suffix}" for suffix, unit in _PARTS if number % unit == 0)
    whole = number // _UNIT
    if whole == 0:
        return "0"
    return next(f"{whole // unit}{suffix}" for suffix, unit in _MULTIPLES if whole % unit == 0)


def _consumed(capacity: Consumable, requested: Amount | None) -> int:
    policy = capacity.policy
    if requested is None:
        default = policy.default if policy is not None else None
        return int(capacity.value if default is None else default)
    amount = int(requested)
    if policy is None:
        return amount
    if policy.minimum is not None:
        return _in_steps(amount, policy, capacity.name)
    return next((int(each) for each in policy.values if amount <= int(each)), amount)


def _in_steps(amount: int, policy: Policy, name: str) -> int:
    """The amount, rounded up to the next step."""
    least = int(policy.minimum or 0)
    if amount < least:
        return least
    if policy.step is None:
        return amount
    if amount > _INT64_MAX * _UNIT:
        raise CannotConsume(f"capacity {name}: the request is too large")
    first, step = _whole(least), max(1, _whole(int(policy.step)))
    steps = -(-(_whole(amount) - first) // step)
    if first + step * steps > _INT64_MAX:
        raise CannotConsume(f"capacity {name}: the next step after the request is too large")
    return (first + step * steps) * _UNIT


def _violates(amount: int, policy: Policy | None) -> bool:
    """Whether the policy forbids to consume this amount, which is rounded up."""
    if policy is None or (policy.default is not None and amount == int(policy.default)):
        return False
    if policy.maximum is not None and amount > int(policy.maximum):
        return True
    if policy.step is not None:
        least, step = _whole(int(policy.minimum or 0)), max(1, _whole(int(policy.step)))
        return (_whole(amount) - least) % step != 0
    is_range = policy.minimum is not None or policy.maximum is not None
    return not is_range and bool(policy.values) and amount not in map(int, policy.values)


def _whole(amount: int) -> int:
    """Steps are counted in whole numbers, rounded up: DRAFractionalCapacityRange is off in Kubernetes 1.37,
    unless its minimum compatibility version is set to 1.37 too."""
    return -(-amount // _UNIT)
