"""Whether what was decided for claims is still possible by the newest state, right before a bind."""

from collections.abc import Callable, Sequence
from typing import Final

from phalanx.cache.devices.users import ClaimUsers, PublishedDevices
from phalanx.cache.table import Key
from phalanx.model import named_parts
from phalanx.model.nodes import Node
from phalanx.model.supplies.devices.claims import (
    AllocatedDevice,
    Allocation,
    AwaitedClaim,
    Claim,
    ClaimGrant,
    Request,
    devices_in_use,
)
from phalanx.model.supplies.devices.pools import DeviceId
from phalanx.model.supplies.devices.shares import is_within
from phalanx.model.supplies.devices.uses import DeviceUse, device_of

_UNSEEN: Final = "its allocation is not known to be written yet"


class GrantCheck:
    """Compares grants with the newest devices and claims, in which the grants are assumed."""

    def __init__(
        self, claim: Callable[[Key], Claim | None], users: ClaimUsers, published: PublishedDevices
    ) -> None:
        self._claim = claim
        self._users = users
        self._published = published

    def conflict(self, grants: Sequence[ClaimGrant], node: Node) -> str:
        """The first problem for a pod on this node as text; empty if there is none."""
        return next(filter(None, (self._conflict(grant, node) for grant in grants)), "")

    def awaited(self, grant: ClaimGrant, real: Claim | None) -> AwaitedClaim | None:
        """What the devices of a grant lack before pods are bound; `real` is the claim as the API shows it.

        An allocation that it does not show yet may have conditions that are not true.
        """
        if real is not None and real.allocation is not None:
            can_only_wait = not (real.has_failed or real.deleting)
            found = AwaitedClaim(real.namespace, real.name, real.unbound, can_only_wait)
            return found if real.unbound else None
        if not grant.has_binding_conditions:
            return None
        return AwaitedClaim(grant.namespace, grant.name, _UNSEEN, can_only_wait=False)

    def _conflict(self, grant: ClaimGrant, node: Node) -> str:
        claim = self._claim((grant.namespace, grant.name))
        if claim is None or claim.uid != grant.uid:
            return f"{grant} is gone"
        if claim.deleting:
            return f"{grant} is being deleted"
        if claim.allocation is None:
            return f"{grant} is not allocated any more since the decision"
        if claim.has_failed:
            return f"{grant}: {claim.unbound}"
        if grant.allocation is None:
            is_here = claim.allocation.nodes.allows(node)
            return "" if is_here else f"{grant} was allocated for other nodes since the decision"
        if _devices(claim.allocation) != _devices(grant.allocation):
            return f"{grant} was allocated otherwise since the decision"
        found = (self._device_conflict(claim, each) for each in grant.allocation.devices)
        return next(filter(None, found), "")

    def _device_conflict(self, claim: Claim, each: AllocatedDevice) -> str:
        name = (
            f"device {each.device[2]} of pool {named_parts.domain(each.device[1])} of driver {each.device[0]}"
        )
        others = self._uses_of_others(claim, each)
        if each.use is not None and (each.device in others or (others and not each.share_id)):
            return f"{name} is in use by another claim since the decision"
        device = self._published.device(each.device)
        if device is None:
            return f"{name} is gone"
        if each.share_id and not device.allows_shares:
            return f"{name} does not allow several allocations any more"
        if each.use is not None and others and not is_within(each.device, device, [*others, each.use]):
            return f"{name} has less capacity left since the decision than {claim} needs"
        request = _request(claim, each.request)
        if request is not None and not request.tolerates(device.taints):
            return f"{name} has a taint since the decision that {claim} does not tolerate"
        return ""

    def _uses_of_others(self, claim: Claim, each: AllocatedDevice) -> list[DeviceUse]:
        """What other claims, and other requests of the claim, have of the device."""
        own = (claim.namespace, claim.name)
        found: list[DeviceUse] = []
        for key in self._users.of_device(each.device):
            user = self._claim(key)
            if user is not None and (key != own or each.share_id):
                uses = (use for use in devices_in_use((user,)) if device_of(use) == each.device)
                found += uses if key != own else (use for use in uses if use != each.use)
        return found


def _devices(allocation: Allocation) -> set[tuple[str, DeviceId, str]]:
    return {(each.request, each.device, each.share_id) for each in allocation.devices}


def _request(claim: Claim, name: str) -> Request | None:
    return next((each for some in claim.spec.requests for each in some if each.name == name), None)
