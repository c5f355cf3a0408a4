"""Whether what was decided for claims is still possible by the newest state, right before a bind."""

from collections.abc import Sequence

from phalanx.model.devices.claims import AllocatedDevice, Allocation, Claim, ClaimGrant, Request
from phalanx.model.devices.cluster import ClusterDevices
from phalanx.model.devices.pools import DeviceId, DeviceTaint, PoolId, with_taints
from phalanx.model.nodes import Node


class GrantCheck:
    """Compares grants with the devices and claims of one view of the cache, in which they are assumed."""

    def __init__(self, devices: ClusterDevices) -> None:
        self._claims = {(each.namespace, each.name): each for each in devices.claims}
        self._devices = devices
        self._taints: dict[DeviceId, tuple[DeviceTaint, ...]] | None = None
        self._users: dict[DeviceId, list[str]] | None = None

    def conflict(self, grants: Sequence[ClaimGrant], node: Node) -> str:
        """The first problem for a pod on this node as text; empty if there is none."""
        return next(filter(None, (self._conflict(grant, node) for grant in grants)), "")

    def _conflict(self, grant: ClaimGrant, node: Node) -> str:
        claim = self._claims.get((grant.namespace, grant.name))
        if claim is None or claim.uid != grant.uid:
            return f"{grant} is gone"
        if claim.deleting:
            return f"{grant} is being deleted"
        if claim.allocation is None:
            return f"{grant} is not allocated any more since the decision"
        if grant.allocation is None:
            is_here = claim.allocation.nodes.allows(node)
            return "" if is_here else f"{grant} was allocated for other nodes since the decision"
        if _devices(claim.allocation) != _devices(grant.allocation):
            return f"{grant} was allocated otherwise since the decision"
        found = (self._device_conflict(claim, each) for each in grant.allocation.devices)
        return next(filter(None, found), "")

    def _device_conflict(self, claim: Claim, each: AllocatedDevice) -> str:
        name = f"device {each.device[2]} of pool {each.device[1]} of driver {each.device[0]}"
        if not each.admin_access and any(user != claim.uid for user in self._users_of(each.device)):
            return f"{name} is in use by another claim since the decision"
        taints = self._published().get(each.device)
        if taints is None:
            return f"{name} is gone"
        request = _request(claim, each.request)
        if request is not None and not request.tolerates(taints):
            return f"{name} has a taint since the decision that {claim} does not tolerate"
        return ""

    def _users_of(self, device: DeviceId) -> Sequence[str]:
        if self._users is None:
            self._users = {}
            for claim in self._devices.claims:
                for each in claim.allocation.devices if claim.allocation is not None else ():
                    if not each.admin_access:
                        self._users.setdefault(each.device, []).append(claim.uid)
        return self._users.get(device, ())

    def _published(self) -> dict[DeviceId, tuple[DeviceTaint, ...]]:
        """The devices of the newest generation of each pool, with their taints."""
        if self._taints is None:
            newest: dict[PoolId, int] = {}
            for each in self._devices.slices:
                newest[each.pool_id] = max(each.generation, newest.get(each.pool_id, each.generation))
            self._taints = {
                (*each.pool_id, device.name): device.taints
                for written in self._devices.slices
                if written.generation == newest[written.pool_id]
                for each in (with_taints(written, self._devices.taint_rules),)
                for device in each.devices
            }
        return self._taints


def _devices(allocation: Allocation) -> set[tuple[str, DeviceId]]:
    return {(each.request, each.device) for each in allocation.devices}


def _request(claim: Claim, name: str) -> Request | None:
    return next((each for some in claim.spec.requests for each in some if each.name == name), None)
