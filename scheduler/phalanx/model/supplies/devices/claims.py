"""Claims to devices, their requests and constraints, device classes, and allocations."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from phalanx.model.pods import Toleration
from phalanx.model.supplies.devices.capacity import Amounts
from phalanx.model.supplies.devices.extended_resources import EXTENDED_RESOURCE_CLAIM, ExtendedResourceClaim
from phalanx.model.supplies.devices.pools import Binding, DeviceId, DeviceTaint, NodeChoice, QualifiedName
from phalanx.model.supplies.devices.uses import DeviceUse, share_of

ALL_DEVICES: Final = -1
"""As a count: all devices that match."""


class Selector(Struct, frozen=True, gc=False):
    """A CEL expression, and the field in which it is written, such as `spec.selectors[0].cel`."""

    expression: str
    field: str


class DeviceClass(Struct, frozen=True, gc=False):
    """A class of devices. A class with `problems` matches no device, and its users wait.

    `extended_resource`: the name that it states for pods that request one. `created`: in seconds since the
    epoch.
    """

    name: str
    selectors: tuple[Selector, ...] = ()
    extended_resource: str = ""
    created: int = 0
    problems: tuple[str, ...] = ()


class Request(Struct, frozen=True, gc=False):
    """A request for devices of one class, or one alternative of a request.

    `name` is "request" or "request/alternative". `count` is ALL_DEVICES for all that match. `capacity`: what
    each device must have, and what a share of one consumes, by the names that its ResourceSlice writes.
    """

    name: str
    field: str
    device_class: str
    selectors: tuple[Selector, ...] = ()
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: Amounts = ()

    @property
    def parent(self) -> str:
        """The name of the request of which this is an alternative, or its own."""
        return self.name.partition("/")[0]

    def tolerates(self, taints: Iterable[DeviceTaint]) -> bool:
        """Whether no taint prevents the allocation. Unknown effects prevent nothing, as in kube-scheduler."""
        return all(
            taint.effect not in ("NoSchedule", "NoExecute")
            or any(_tolerates(each, taint) for each in self.tolerations)
            for taint in taints
        )


class Constraint(Struct, frozen=True, gc=False):
    """All devices of these requests have the same value of the attribute, or each has another one.

    Without `requests` it holds for all of the claim. `attribute` is written as "domain/identifier".
    """

    attribute: QualifiedName
    distinct: bool
    requests: tuple[str, ...] = ()

    def concerns(self, request: Request) -> bool:
        """Whether devices of the request count."""
        return not self.requests or request.name in self.requests or request.parent in self.requests


class ClaimSpec(Struct, frozen=True, gc=False):
    """What a claim asks for: each request as its alternatives in order of preference, mostly one.

    Equal for all claims of one template. `problems` are its errors, `unsupported` the fields that Phalanx
    does not support yet, both as "field: reason".
    """

    requests: tuple[tuple[Request, ...], ...] = ()
    constraints: tuple[Constraint, ...] = ()
    problems: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def most_devices(self) -> int:
        """The most devices that a claim takes; a request for all counts as one."""
        return sum(max(1, *(each.count for each in some)) for some in self.requests)


class AllocatedDevice(Struct, frozen=True, gc=False):
    """One device of an allocation, or a share of one, with what the share consumes.

    A device with admin access is not used up.
    """

    request: str
    device: DeviceId
    admin_access: bool = False
    share_id: str = ""
    consumed: Amounts = ()
    binding: Binding | None = None

    @property
    def use(self) -> DeviceUse | None:
        """What is in use by it; None for admin access."""
        if self.admin_access:
            return None
        return share_of(self.device, self.share_id, self.consumed) if self.share_id else self.device


class Allocation(Struct, frozen=True, gc=False):
    """The devices of a claim, and the nodes that can use them."""

    devices: tuple[AllocatedDevice, ...]
    nodes: NodeChoice


class Claim(Struct, frozen=True, gc=False):
    """A ResourceClaim. `reserved_for`: UIDs of the pods and groups that may use it. `owner`: the UID of the
    pod for which it was made, if there is one. `unbound`: why allocated devices cannot be used yet.
    `has_failed`: they never can: a binding condition says so. `ready_by`: when they are given back if they
    are not ready (ms since the epoch); 0 if that is not known.
    `is_for_extended`: a scheduler made it for extended resources of its owner."""

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    allocation: Allocation | None = None
    reserved_for: tuple[str, ...] = ()
    owner: str = ""
    deleting: bool = False
    unbound: str = ""
    has_failed: bool = False
    ready_by: int = 0
    is_for_extended: bool = False

    def __str__(self) -> str:
        return f"ResourceClaim {self.namespace}/{self.name}"


class ClaimGrant(Struct, frozen=True, gc=False):
    """A claim that a pod is to use. `allocation`: what was decided for it; None if it has an allocation.

    `extended_claim`: a claim for extended resources of the pod, which does not exist yet. Its UID is then
    that of `extended_claim_uid`. `is_for_extended`: it exists, and is deleted when the pod does not get it.
    """

    namespace: str
    name: str
    uid: str
    allocation: Allocation | None = None
    extended_claim: ExtendedResourceClaim | None = None
    is_for_extended: bool = False

    @property
    def has_binding_conditions(self) -> bool:
        """Whether the decided devices are prepared by their drivers before pods are bound."""
        found = self.allocation.devices if self.allocation is not None else ()
        return any(each.binding is not None for each in found)

    def __str__(self) -> str:
        return f"ResourceClaim {self.namespace}/{self.name}"


class AwaitedClaim(Struct, frozen=True, gc=False):
    """A claim with an allocation that pods cannot use yet, and why.

    `can_only_wait`: it is so in the API, and nothing but a condition is missing.
    """

    namespace: str
    name: str
    why: str
    can_only_wait: bool

    def __str__(self) -> str:
        return f"ResourceClaim {self.namespace}/{self.name}: {self.why}"


def extended_claim_uid(pod: str) -> str:
    """In place of a UID: the claim for extended resources of this pod, which does not exist yet."""
    return f"{EXTENDED_RESOURCE_CLAIM} of {pod}"


DeviceClasses = Mapping[str, DeviceClass]


def devices_in_use(claims: Iterable[Claim]) -> Iterator[DeviceUse]:
    """The devices that allocated claims use up, and the shares that they have."""
    return uses_of(claim.allocation for claim in claims if claim.allocation is not None)


def distinct_uses(claims: Iterable[Claim]) -> Iterator[DeviceUse]:
    """The same. Shares to which other schedulers gave one ID are different uses."""
    seen: set[DeviceUse] = set()
    for claim in claims:
        for each in claim.allocation.devices if claim.allocation is not None else ():
            use = each.use
            if use is not None and each.share_id:
                if use in seen:
                    use = share_of(each.device, f"{each.share_id} of {claim.uid}", each.consumed)
                seen.add(use)
            if use is not None:
                yield use


def uses_of(allocations: Iterable[Allocation]) -> Iterator[DeviceUse]:
    """What allocations use."""
    for allocation in allocations:
        for each in allocation.devices:
            if (use := each.use) is not None:
                yield use


def _tolerates(toleration: Toleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
