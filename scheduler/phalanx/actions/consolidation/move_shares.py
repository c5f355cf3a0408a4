"""The capacity of shared devices in a plan of moves, as amounts of nodes.

Shares of devices add up by what they consume, but only so many of them fit each device. The amounts of a node
are what its devices have together: so the bounds of plans hold. Whether each share fits a device, the check
of the plan decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.allocator import Candidate
from phalanx.model.supplies.devices.capacity import CannotConsume, consumption
from phalanx.model.supplies.devices.claims import Request
from phalanx.model.supplies.devices.session.needs import DEVICE_SLOT, Need
from phalanx.model.supplies.devices.session.projection import PLENTY
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.model.supplies.devices.shares import capacity_of
from phalanx.model.supplies.devices.uses import DeviceUse, consumed_by, consumed_together, device_of

_UNITS: Final = 1 << 20
"""Into so many units the largest amount of each capacity is divided: solvers count in integers of 64 bits."""
_FREE: Final = PLENTY << 8


class MoveShares:
    """What is free of the devices of nodes that are allocated in shares, and what their shares free."""

    def __init__(self, session: Session, needs: Iterable[Need]) -> None:
        self._requests = tuple(
            dict.fromkeys(
                request
                for need in needs
                for spec in need.claims
                for some in spec.requests
                for request in some
            )
        )
        self._devices: dict[NodeName, list[Candidate]] = {}
        self._in_use: dict[NodeName, frozenset[DeviceUse]] = {}
        for name, state in session.nodes.items() if self._requests else ():
            found, in_use = claimed_devices(session).matching(self._requests, state.node)
            if found and all(each.device.allows_shares for each in found):
                self._devices[name], self._in_use[name] = found, in_use
        largest: dict[str, int] = {}
        for each in self._all():
            for amount in capacity_of(each.id[0], each.device):
                largest[amount.name] = max(largest.get(amount.name, 1), int(amount.value))
        self._units = {name: max(1, most // _UNITS) for name, most in sorted(largest.items())}

    def _all(self) -> Iterable[Candidate]:
        return (each for some in self._devices.values() for each in some)

    def asked(self, need: Need) -> Resources:
        """What one pod consumes at least, whichever devices it gets."""
        amounts = dict.fromkeys(self._units, 0)
        for spec in need.claims:
            for (request,) in spec.requests:
                for name, least in self._least(request).items():
                    amounts[name] += request.count * least
        return {_resource(name): amount // self._units[name] for name, amount in amounts.items()}

    def _least(self, request: Request) -> Mapping[str, int]:
        found: list[Mapping[str, int]] = []
        for each in self._all():
            try:
                wanted = consumption(capacity_of(each.id[0], each.device), request.capacity)
            except CannotConsume:
                continue
            if wanted is not None:
                found.append({name: int(amount) for name, amount in wanted})
        return {name: min((each.get(name, 0) for each in found), default=0) for name in self._units}

    def free(self, node: NodeName) -> Resources:
        """What is free on the node."""
        if node not in self._devices:
            return {_resource(name): _FREE for name in self._units}
        amounts = dict.fromkeys(self._units, 0)
        in_use = self._in_use[node]
        for each in self._devices[node]:
            if each.id not in in_use:
                used = consumed_together(use for use in in_use if device_of(use) == each.id)
                for amount in capacity_of(each.id[0], each.device):
                    amounts[amount.name] += max(0, int(amount.value) - used.get(amount.name, 0))
        return self._in_units(amounts)

    def freed(self, node: NodeName, ended: Sequence[DeviceUse]) -> Resources:
        """What these uses of devices free on the node."""
        amounts = dict.fromkeys(self._units, 0)
        known = {each.id: each for each in self._devices.get(node, ())}
        for use in ended:
            each = known.get(device_of(use))
            if each is not None:
                whole = {one.name: int(one.value) for one in capacity_of(each.id[0], each.device)}
                for name, amount in consumed_by(use) if use != each.id else whole.items():
                    amounts[name] = amounts.get(name, 0) + amount
        return self._in_units(amounts)

    def _in_units(self, amounts: Mapping[str, int]) -> Resources:
        """Rounded up: as much as asked amounts are rounded down."""
        return {_resource(name): -(-amounts[name] // unit) for name, unit in self._units.items()}


def _resource(name: str) -> str:
    return f"{DEVICE_SLOT}capacity {name}"
