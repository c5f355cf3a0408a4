"""Places pods only on nodes that can mount their volumes.

A bound PersistentVolumeClaim restricts its pods to the nodes of the volume's node affinity. A claim that does
not exist, is not bound, or belongs to another pod delays the gang. A claim whose class provisions a volume
when its pod is placed (WaitForFirstConsumer) restricts them to the topologies that the class allows, and to
nodes for which the driver publishes enough space, if it publishes any.

A claim whose class binds late takes a volume that exists already if one satisfies it: the smallest one
that the node can mount. Without a provisioner it needs such a volume. How many there are is an amount of
nodes, and a budget of several nodes (`phalanx.model.supplies.volumes.session`).

A node may take a limited number of volumes of a driver (CSINode). A pod that alone has more is rejected here.
What is left of the limit is an amount, as free memory is (`phalanx.model.supplies.volumes.attach_limits`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model import named_parts
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.pods import MountedClaim, Pod, VolumeClaim, WantedVolume
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import format_bytes
from phalanx.model.selectors import node_matches_any
from phalanx.model.supplies.volumes.published import StaticVolume, in_use, match_all, mismatch
from phalanx.model.supplies.volumes.session import OpenVolumes, SpaceFilter, can_be_provisioned

_COST_OF_FAILURE: Final = 100
"""A strong preference against the node, but no other one may be left."""


class Volumes(Plugin):
    """Checks PersistentVolumeClaims, which the cache has joined with their volumes and their pods."""

    name = "volumes"
    lasting_answers = True
    """The cache counts a change of the pods of a claim that only one pod may use as a change of volumes."""

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Report the first claim of a waiting member that cannot be used yet."""
        volumes = view.supply(OpenVolumes)
        for pod in gang.members:
            for claim in pod.claims if pod.is_waiting else ():
                state = volumes.cluster.claims.get(claim.key) if volumes is not None else None
                objection = _unusable(pod, claim, state)
                if objection is None and volumes is not None:
                    objection = _used(pod, claim, volumes) or _unmatched(claim, state, volumes)
                if objection is not None:
                    return objection
        return None

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes that cannot mount all volumes of the pod."""
        volumes = view.supply(OpenVolumes)
        if volumes is None:
            return None
        restricting = tuple([claim for claim in pod.volumes if claim.node_affinity and claim.wanted is None])
        spaces = tuple([volumes.space_for(claim) for claim in pod.volumes if _needs_space(claim)])
        matching = _Matching([claim for claim in pod.volumes if claim.wanted is not None], volumes)
        drivers = _Drivers(pod.volumes, volumes)
        if not (restricting or spaces or drivers.may_reject or matching.may_reject):
            return None
        return _mount_filter(restricting, spaces, drivers, matching)

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        """Prefer nodes for which no volume of the pod could lately not be provisioned."""
        failed = frozenset(node for claim in pod.volumes for node in claim.failed_on)
        return (lambda node: _COST_OF_FAILURE if node.name in failed else 0) if failed else None


def _unusable(pod: Pod, mounted: MountedClaim, claim: VolumeClaim | None) -> Objection | None:
    key, next_step = mounted.key, f"Create or bind PersistentVolumeClaim {mounted.key}"
    if claim is None and mounted.ephemeral:
        why = f"kube-controller-manager has not created it yet for ephemeral volume {mounted.ephemeral}"
        next_step = f"Wait until kube-controller-manager creates PersistentVolumeClaim {key}"
    elif claim is None:
        why = "it does not exist"
    elif mounted.ephemeral and claim.owner != pod.uid:
        why = f"it was not created for pod {pod}, whose ephemeral volume {mounted.ephemeral} needs this name"
        next_step = f"Delete PersistentVolumeClaim {key}, or rename the pod or the volume"
    else:
        why = claim.why_unusable
    if not why:
        return None
    return Objection(
        reason=Reason.VOLUME_NOT_BOUND,
        message=f"PersistentVolumeClaim {key} cannot be used: {why}",
        next_step=next_step,
    )


def _used(pod: Pod, mounted: MountedClaim, volumes: OpenVolumes) -> Objection | None:
    """Of the pods that mount a claim with the access mode ReadWriteOncePod, only the first may be placed."""
    users = volumes.cluster.claim_users.get(mounted.key, ())
    if not users or users[0].uid == pod.uid:
        return None
    return Objection(
        reason=Reason.VOLUME_NOT_BOUND,
        message=in_use(mounted.key, users[0]),
        next_step=f"Wait until pod {users[0].name} ends, or use another access mode or claim",
    )


def _unmatched(mounted: MountedClaim, claim: VolumeClaim | None, volumes: OpenVolumes) -> Objection | None:
    """A claim without a provisioner that no volume satisfies, whatever the node."""
    if claim is None or claim.wanted is None or claim.provisioning is not None:
        return None
    why = _why_none_fits(volumes.cluster.static_volumes, claim.wanted)
    if not why:
        return None
    return Objection(
        reason=Reason.VOLUME_NOT_BOUND,
        message=f"PersistentVolumeClaim {mounted.key} cannot be bound: {why}",
        next_step=f"Create a PersistentVolume for claim {mounted.key}, or wait until a claim releases one",
    )


def _why_not(claim: VolumeClaim, node: Node) -> str:
    provisioning = claim.provisioning
    if provisioning is None:
        return f"volume of claim {claim.name} is not accessible"
    if provisioning.selected_node not in ("", node.name):
        node_name = named_parts.node(provisioning.selected_node, titled=True)
        return f"the volume of claim {claim.name} is being provisioned for {node_name}"
    return f"StorageClass {provisioning.storage_class} of claim {claim.name} does not allow their topology"


def _needs_space(claim: VolumeClaim) -> bool:
    """Whether space is needed in any case: no volume that exists already would do instead."""
    provisioning = claim.provisioning
    return provisioning is not None and provisioning.needs_space is not None and claim.wanted is None


class _Matching:
    """The nodes on which each of these claims gets a volume that exists already, or a new one."""

    def __init__(self, claims: Sequence[VolumeClaim], volumes: OpenVolumes) -> None:
        self._volumes = volumes
        self._claims = [
            (claim, claim.wanted, volumes.space_for(claim) if claim.provisioning is not None else None)
            for claim in claims
            if claim.wanted is not None
        ]
        self.may_reject = bool(self._claims)
        """Whether some node may be rejected."""

    def why_not(self, node: Node) -> str | None:
        """Why the claims do not all get a volume there."""
        needed = [
            (claim, wanted)
            for claim, wanted, space in self._claims
            if space is None or not can_be_provisioned(claim, node, space)
        ]
        found = [self._volumes.candidates(node.name, wanted) for _, wanted in needed]
        for (claim, wanted), candidates in zip(needed, found, strict=True):
            if not candidates:
                return (
                    f"no volume of StorageClass {wanted.storage_class} for claim {claim.name} is accessible"
                )
        if len(found) > 1 and match_all([[each.name for each in some] for some in found]) is None:
            names = ", ".join(sorted(claim.name for claim, _ in needed))
            return f"too few accessible volumes for claims {names} of one pod"
        return None


class _Drivers:
    """The nodes whose drivers can attach the volumes of a pod to an empty node."""

    def __init__(self, claims: Iterable[VolumeClaim], volumes: OpenVolumes) -> None:
        self._nodes = volumes.cluster.csi_nodes
        self._counts = Counter(
            driver for driver, _ in {(each.driver, each.handle) for each in claims if each.handle}
        )
        self._required = sorted({each.driver for each in claims if each.needs_driver})
        self.may_reject = bool(self._required or (self._counts and self._nodes))
        """Whether some node may be rejected."""

    def why_not(self, node: Node) -> str | None:
        """Why the node cannot attach them."""
        installed = self._nodes.get(node.name, ())
        names = [driver.name for driver in installed]
        for name in self._required:
            if name not in names:
                return f"driver {name} is not installed"
        for driver in installed:
            count = self._counts[driver.name]
            if count and driver.limit is not None and count > driver.limit:
                return f"driver {driver.name} attaches {driver.limit} volumes at most, a pod has {count}"
        return None


def _mount_filter(
    claims: tuple[VolumeClaim, ...], spaces: tuple[SpaceFilter, ...], drivers: _Drivers, matching: _Matching
) -> NodeFilter:
    def check(node: Node) -> str | None:
        for claim in claims:
            if not node_matches_any(node, claim.node_affinity):
                return _why_not(claim, node)
        lacking = next((space.lacking for space in spaces if not space.is_on(node)), None)
        return lacking or drivers.why_not(node) or matching.why_not(node)

    return check


def _why_none_fits(volumes: Iterable[StaticVolume], wanted: WantedVolume) -> str:
    """Why no volume satisfies the claim, whatever its node; empty if one does."""
    found = [(each, mismatch(each, wanted)) for each in volumes if each.storage_class == wanted.storage_class]
    if not found:
        return f"no PersistentVolume of its StorageClass {wanted.storage_class} is available"
    if not all(field for _, field in found):
        return ""
    last = max((field for _, field in found), key=_FIELDS.index)
    of = f"of its StorageClass {wanted.storage_class}"
    none = f"none of {len(found)} available PersistentVolumes {of} satisfies"
    if len(found) == 1:
        none = f"the only available PersistentVolume {of} does not satisfy"
    return f"{none} {last} {_shown(last, wanted)}"


_FIELDS: Final = (
    "",
    "spec.resources.requests.storage",
    "spec.volumeMode",
    "spec.volumeAttributesClassName",
    "spec.accessModes",
    "spec.selector",
)
"""Fields in the order in which they are compared."""


def _shown(field: str, wanted: WantedVolume) -> str:
    """The value of the field."""
    match field:
        case "spec.resources.requests.storage":
            return format_bytes(wanted.size)
        case "spec.volumeMode":
            return wanted.volume_mode
        case "spec.volumeAttributesClassName":
            return wanted.attributes_class or "none"
        case "spec.accessModes":
            return ", ".join(wanted.modes)
    parts = wanted.selector.requirements if wanted.selector is not None else ()
    return ", ".join(" ".join((each.key, each.operator, ",".join(each.values))).strip() for each in parts)
