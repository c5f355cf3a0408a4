"""The constraints of a claim while its devices are chosen."""

from collections.abc import Sequence
from typing import Final

from phalanx.model.supplies.devices.claims import Constraint, Request
from phalanx.model.supplies.devices.pools import Attribute, Device

_COMPARABLE: Final = frozenset({"int", "bool", "string", "version"})
"""Lists are behind a feature gate of Kubernetes that is off."""


class ConstraintState:
    """The values of the devices that a claim has, for each of its constraints."""

    def __init__(self, constraints: Sequence[Constraint]) -> None:
        self._constraints = constraints
        self._values: list[list[Attribute]] = [[] for _ in constraints]

    def add(self, request: Request, device: Device) -> bool:
        """Add a device of this request if all constraints allow it."""
        added: list[list[Attribute]] = []
        for constraint, values in zip(self._constraints, self._values, strict=True):
            if constraint.concerns(request):
                value = device.attributes.get(constraint.attribute)
                if value is None or not _allows(constraint, value, values):
                    for each in added:
                        each.pop()
                    return False
                values.append(value)
                added.append(values)
        return True

    def remove(self, request: Request, device: Device) -> None:
        """Remove the device that was added last."""
        for constraint, values in zip(self._constraints, self._values, strict=True):
            if constraint.concerns(request):
                values.pop()


def _allows(constraint: Constraint, value: Attribute, values: Sequence[Attribute]) -> bool:
    """Whether a device with this value may join those with the other values. The first one always may."""
    if not values:
        return True
    if value.kind not in _COMPARABLE:
        return False
    return value not in values if constraint.distinct else value == values[0]
