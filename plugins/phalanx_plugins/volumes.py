"""Places pods only on nodes that can mount their volumes.

A bound PersistentVolumeClaim restricts its pods to the nodes of the volume's node affinity. A claim that does
not exist, is not bound, or belongs to another pod delays the gang. A claim whose class provisions a volume
when its pod is placed (WaitForFirstConsumer) restricts them to the topologies that the class allows, and to
nodes for which the driver publishes enough space, if it publishes any.

A node may take a limited number of volumes of a driver (CSINode). A pod that alone has more is rejected here.
What is left of the limit is an amount, as free memory is (`phalanx.model.attach_limits`).
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

from phalanx.framework.plugin import NodeCost, NodeFilter, Plugin
from phalanx.framework.pod_view import PodView
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.pods import MountedClaim, Pod, Term, VolumeClaim
from phalanx.model.reasons import Objection, Reason
from phalanx.model.selectors import labels_match, node_matches_any
from phalanx.model.snapshot import in_use

_COST_OF_FAILURE: Final = 100
"""A strong preference against the node, but no other one may be left."""


class Volumes(Plugin):
    """Checks PersistentVolumeClaims, which the cache has joined with their volumes and their pods."""

    name = "volumes"
    lasting_answers = True
    """The cache counts a change of the pods of a claim that only one pod may use as a change of volumes."""

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Report the first claim of a waiting member that cannot be used yet."""
        for pod in gang.members:
            for claim in pod.claims if pod.is_waiting else ():
                objection = _unusable(pod, claim, view.claims.get(claim.key)) or _used(pod, claim, view)
                if objection is not None:
                    return objection
        return None

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        """Reject nodes that cannot mount all volumes of the pod."""
        restricting = tuple([claim for claim in pod.volumes if claim.node_affinity])
        spaces = tuple([_Space(claim, view) for claim in pod.volumes if _needs_space(claim)])
        drivers = _Drivers(pod.volumes, view)
        if not (restricting or spaces or drivers.may_reject):
            return None
        return _mount_filter(restricting, spaces, drivers)

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


def _used(pod: Pod, mounted: MountedClaim, view: SessionView) -> Objection | None:
    """Of the pods that mount a claim with the access mode ReadWriteOncePod, only the first may be placed."""
    users = view.claim_users.get(mounted.key, ())
    if not users or users[0].uid == pod.uid:
        return None
    return Objection(
        reason=Reason.VOLUME_NOT_BOUND,
        message=in_use(mounted.key, users[0]),
        next_step=f"Wait until pod {users[0].name} ends, or use another access mode or claim",
    )


def _why_not(claim: VolumeClaim, node: Node) -> str:
    provisioning = claim.provisioning
    if provisioning is None:
        return f"volume of claim {claim.name} is not accessible"
    if provisioning.selected_node not in ("", node.name):
        return f"the volume of claim {claim.name} is being provisioned for node {provisioning.selected_node}"
    return f"StorageClass {provisioning.storage_class} of claim {claim.name} does not allow their topology"


def _needs_space(claim: VolumeClaim) -> bool:
    return claim.provisioning is not None and claim.provisioning.needs_space is not None


class _Space:
    """The nodes for which a driver has enough space for the volume of a claim."""

    def __init__(self, claim: VolumeClaim, view: SessionView) -> None:
        provisioning = claim.provisioning
        assert provisioning is not None
        capacities = view.storage_capacities.get(provisioning.storage_class, ())
        size = provisioning.needs_space or 0
        self.lacking = f"not enough space for claim {claim.name} of StorageClass {provisioning.storage_class}"
        self._by_label: dict[tuple[str, str], list[Term]] = {}
        """Selectors by a label that a node must have for them: most select one node or zone."""
        self._others: list[Term] = []
        for capacity in capacities:
            if capacity.largest >= size:
                self._add(capacity.nodes)

    def _add(self, nodes: Term) -> None:
        for each in nodes.requirements:
            if each.operator == "In" and len(each.values) == 1:
                self._by_label.setdefault((each.key, each.values[0]), []).append(nodes)
                return
        self._others.append(nodes)

    def is_on(self, node: Node) -> bool:
        """Whether it has space for this node."""
        found = (self._by_label.get(label, ()) for label in node.labels.items() if self._by_label)
        return any(labels_match(node.labels, term) for term in chain(self._others, *found))


class _Drivers:
    """The nodes whose drivers can attach the volumes of a pod to an empty node."""

    def __init__(self, volumes: Iterable[VolumeClaim], view: SessionView) -> None:
        self._nodes = view.csi_nodes
        self._counts = Counter(
            driver for driver, _ in {(each.driver, each.handle) for each in volumes if each.handle}
        )
        self._required = sorted({each.driver for each in volumes if each.needs_driver})
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
    claims: tuple[VolumeClaim, ...], spaces: tuple[_Space, ...], drivers: _Drivers
) -> NodeFilter:
    def check(node: Node) -> str | None:
        for claim in claims:
            if not node_matches_any(node, claim.node_affinity):
                return _why_not(claim, node)
        lacking = next((space.lacking for space in spaces if not space.is_on(node)), None)
        return lacking or drivers.why_not(node)

    return check
