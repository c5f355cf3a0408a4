"""What queues are charged for claims to devices.

A device counts under one name: that of the extended resource which its class states, else the name that each
class has as an extended resource. The class is the one that the request names. Devices with admin access are
not counted.
"""

from collections.abc import Mapping

from phalanx.model.pods import ClaimCharge
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.claims import (
    ALL_DEVICES,
    Allocation,
    Claim,
    ClaimSpec,
    DeviceClasses,
    Request,
)
from phalanx.model.supplies.devices.extended_resources import CLASS_PREFIX
from phalanx.model.supplies.devices.limits import CLAIM_DEVICES_MAX

Amounts = tuple[tuple[str, int], ...]


def charged_as(device_class: str, classes: DeviceClasses) -> str:
    """The name of the resource that devices of this class count as."""
    known = classes.get(device_class)
    return (known.extended_resource if known is not None else "") or CLASS_PREFIX + device_class


def charge_of(claim: Claim, classes: DeviceClasses) -> Amounts:
    """What a claim is charged: the devices that it has, or else the most that it can get."""
    if claim.allocation is None:
        return most_of(claim.spec, classes)
    return charge_of_allocation(claim.spec, claim.allocation, classes)


def most_of(spec: ClaimSpec, classes: DeviceClasses) -> Amounts:
    """The most devices of each resource that a claim can get: of alternatives the largest amounts count.

    A request for all devices counts as many as a claim can have.
    """
    total: dict[str, int] = {}
    for alternatives in spec.requests:
        largest: dict[str, int] = {}
        for each in alternatives:
            name = charged_as(each.device_class, classes)
            largest[name] = max(largest.get(name, 0), _count(each))
        _add(total, largest)
    return _sorted({name: min(amount, CLAIM_DEVICES_MAX) for name, amount in total.items()})


def _count(request: Request) -> int:
    if request.admin_access:
        return 0
    return CLAIM_DEVICES_MAX if request.count == ALL_DEVICES else request.count


def charge_of_allocation(spec: ClaimSpec, allocation: Allocation, classes: DeviceClasses) -> Amounts:
    """The devices of an allocation."""
    asked = {each.name: each.device_class for alternatives in spec.requests for each in alternatives}
    total: dict[str, int] = {}
    for device in allocation.devices:
        if not device.admin_access and device.request in asked:
            _add(total, {charged_as(asked[device.request], classes): 1})
    return _sorted(total)


def charges_of_names(requests: Resources, classes: DeviceClasses) -> tuple[ClaimCharge, ...]:
    """What a pod is charged that requests a class by the name which each class has: the resource that the
    class states is counted too."""
    total: dict[str, int] = {}
    for resource, amount in requests.items():
        if resource.startswith(CLASS_PREFIX):
            name = charged_as(resource.removeprefix(CLASS_PREFIX), classes)
            if name != resource:
                _add(total, {name: amount})
    return (ClaimCharge(_sorted(total)),) if total else ()


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _sorted(amounts: Resources) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
