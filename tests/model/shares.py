"""Builders of devices that are allocated in shares, for tests."""

from typing import Any

from phalanx.model.supplies.devices.capacity import Amounts
from phalanx.model.supplies.devices.uses import DeviceUse, share_of

from tests.model.devices import DRIVER, device

UNIT = 10**9


def shared(name: str, policy: dict[str, Any] | None = None, **capacity: int | str) -> dict[str, Any]:
    """A device that allows several allocations; each of its capacities has this policy."""
    own = {"requestPolicy": policy} if policy is not None else {}
    amounts = {each: {"value": str(value), **own} for each, value in capacity.items()}
    return {**device(name), "allowMultipleAllocations": True, "capacity": amounts}


def asks(**amounts: int | str) -> dict[str, Any]:
    """The field of a request that asks for these amounts."""
    return {"capacity": {"requests": {name: str(amount) for name, amount in amounts.items()}}}


def amounts(**values: int) -> Amounts:
    return tuple(sorted((name, str(value * UNIT)) for name, value in values.items()))


def use(name: str, share: str, **consumed: int) -> DeviceUse:
    """A share of a device of the node "n" that is in use."""
    return share_of((DRIVER, "n", name), share, amounts(**consumed))
