"""Conversion of capacity that allocations consume: of devices, requests and results."""

from collections.abc import Mapping

from phalanx.model.api import core, devices
from phalanx.model.devices.capacity import Amount, Amounts, Consumable, Policy
from phalanx.model.resources import InvalidQuantity, billionths


def read_amount(written: core.Quantity, path: str, wrong: list[str]) -> Amount:
    """The quantity in billionths; 0 for an invalid one."""
    try:
        return str(billionths(written))
    except InvalidQuantity as invalid:
        wrong.append(f"{path}: {invalid}")
        return "0"


def read_consumable(
    written: devices.SliceDevice, driver: str, path: str, wrong: list[str]
) -> tuple[Consumable, ...]:
    """What allocations consume of the device; nothing where it follows from the capacity that is read."""
    if not written.capacity or not (written.allow_multiple_allocations or _is_special(written, driver)):
        return ()
    return tuple(
        Consumable(
            name,
            read_amount(each.value, f"{path}.capacity[{name}].value", wrong),
            _policy(each.request_policy, f"{path}.capacity[{name}].requestPolicy", wrong),
        )
        for name, each in sorted(written.capacity.items())
    )


def _is_special(written: devices.SliceDevice, driver: str) -> bool:
    """Whether names, policies or amounts are those that a driver need not write for whole devices."""
    return any(
        name.startswith(f"{driver}/") or each.request_policy is not None or str(each.value).startswith("-")
        for name, each in written.capacity.items()
    )


def _policy(written: devices.CapacityRequestPolicy | None, path: str, wrong: list[str]) -> Policy | None:
    if written is None:
        return None

    def amount(quantity: core.Quantity | None, field: str) -> Amount | None:
        return None if quantity is None else read_amount(quantity, f"{path}.{field}", wrong)

    found = written.valid_range or devices.CapacityRequestPolicyRange()
    return Policy(
        default=amount(written.default, "default"),
        values=tuple(
            read_amount(each, f"{path}.validValues[{index}]", wrong)
            for index, each in enumerate(written.valid_values)
        ),
        minimum=amount(found.min, "validRange.min"),
        maximum=amount(found.max, "validRange.max"),
        step=amount(found.step, "validRange.step"),
    )


def read_requested(written: devices.CapacityRequirements | None, path: str, wrong: list[str]) -> Amounts:
    """What a request asks for."""
    return _amounts(written.requests if written is not None else {}, f"{path}.capacity.requests", wrong)


def read_consumed(written: devices.DeviceRequestAllocationResult) -> Amounts:
    """What a share consumes. The API server has checked the quantities."""
    return _amounts(written.consumed_capacity, "", [])


def _amounts(written: Mapping[str, core.Quantity], path: str, wrong: list[str]) -> Amounts:
    return tuple(
        sorted((name, read_amount(each, f"{path}[{name}]", wrong)) for name, each in written.items())
    )
