"""Volumes that count against the attach limits of nodes, as NodeVolumeLimits of kube-scheduler 1.37 counts.

The volumes of a node are those of its pods, of any scheduler and also assumed ones, and those that
VolumeAttachments name. Each counts once.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from phalanx.cache.events import ChangeLog
from phalanx.cache.nodes import NodeTable
from phalanx.cache.table import Key, ObjectStore, Table
from phalanx.limits import ATTACHED_VOLUMES_MAX
from phalanx.model.api.storage import CSINode, VolumeAttachment
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Pod
from phalanx.model.resources import NONE, Resources
from phalanx.model.supplies.volumes.attach_limits import ATTACH_LIMITS
from phalanx.model.supplies.volumes.published import NodeDrivers
from phalanx.model.supplies.volumes.read_drivers import Attachment, read_attachment, read_csi_node

VolumeId = tuple[str, str]
"""Driver and handle."""

NO_VOLUME: Final = ("", "")
"""Of a claim without a volume that counts."""


class AttachedVolumes:
    """Keeps the usage of attach limits in the table of nodes up to date."""

    def __init__(
        self,
        *,
        nodes: NodeTable,
        of_claim: Callable[[str], VolumeId],
        of_volume: Callable[[str], VolumeId],
    ) -> None:
        """`of_claim`: the volume that a claim has or will get; `of_volume`: that of a PersistentVolume."""
        self._nodes = nodes
        self._of_claim = of_claim
        self._of_volume = of_volume
        self.csi_nodes: Table[CSINode, NodeDrivers] = Table(read=read_csi_node, changed=self._drivers_changed)
        self.attachments: Table[VolumeAttachment, Attachment] = Table(
            read=read_attachment, changed=self._attachment_changed
        )
        self.tables: Mapping[str, ObjectStore[Any]] = {
            "CSINode": self.csi_nodes,
            "VolumeAttachment": self.attachments,
        }
        self._pods: dict[NodeName, dict[PodUid, Pod]] = {}
        """By node, the pods that mount claims."""
        self._mounting: dict[str, Counter[NodeName]] = {}
        """By claim, the nodes of the pods that mount it."""
        self._attached: dict[NodeName, dict[Key, Attachment]] = {}
        self._by_volume: dict[str, Counter[NodeName]] = {}
        """By PersistentVolume, the nodes that it is attached to."""
        self._used: dict[NodeName, Resources] = {}
        self._limiting: Counter[str] = Counter()
        """By driver, the number of nodes that limit it."""
        self.limited_drivers: tuple[str, ...] = ()
        """The drivers that some node has a limit for, sorted. It is the same object until one changes."""

    def conflict(self, pod: Pod) -> str:
        """The driver of a volume of this pod of whose volumes its node has more than its limit; or empty."""
        state = self._nodes.state(pod.node) if pod.node is not None and pod.node in self._used else None
        for claim in pod.claims if state is not None else ():
            driver, _ = self._of_claim(claim.key)
            if (
                state is not None
                and state.free.get(ATTACH_LIMITS.resource(driver), 0) < -ATTACHED_VOLUMES_MAX
            ):
                return driver
        return ""

    def pod_changed(self, old: Pod | None, new: Pod | None, log: ChangeLog) -> None:
        """A pod was added, changed or removed."""
        before, after = mounts(old), mounts(new)
        if old is not None and before is not None:
            pods = self._pods[before]
            del pods[old.uid]
            if not pods:
                del self._pods[before]
            for claim in old.claims:
                _lower(self._mounting, claim.key, before)
        if new is not None and after is not None:
            self._pods.setdefault(after, {})[new.uid] = new
            for claim in new.claims:
                self._mounting.setdefault(claim.key, Counter())[after] += 1
        is_same = old is not None and new is not None and before == after and old.claims == new.claims
        for node in () if is_same else dict.fromkeys((before, after)):
            if node is not None:
                self._count(node, log)

    def claim_changed(self, claim: str, log: ChangeLog) -> None:
        """The volume of a claim may be another one now."""
        for node in self._mounting.get(claim, ()):
            self._count(node, log)

    def volume_changed(self, volume: str, log: ChangeLog) -> None:
        """A PersistentVolume was added, changed or removed."""
        for node in self._by_volume.get(volume, ()):
            self._count(node, log)

    def _drivers_changed(
        self, key: Key, old: NodeDrivers | None, new: NodeDrivers | None, log: ChangeLog
    ) -> None:
        self._limiting.update(driver.name for driver in new or () if driver.limit is not None)
        self._limiting.subtract(driver.name for driver in old or () if driver.limit is not None)
        self._limiting = +self._limiting
        if self._limiting.keys() != set(self.limited_drivers):
            self.limited_drivers = tuple(sorted(self._limiting))
        log.mark_cluster_changed()
        self._count(NodeName(key[1]), log)

    def _attachment_changed(
        self, key: Key, old: Attachment | None, new: Attachment | None, log: ChangeLog
    ) -> None:
        if old is not None:
            attached = self._attached[old.node]
            del attached[key]
            if not attached:
                del self._attached[old.node]
            _lower(self._by_volume, old.volume, old.node)
        if new is not None:
            self._attached.setdefault(new.node, {})[key] = new
            self._by_volume.setdefault(new.volume, Counter())[new.node] += 1
        for node in dict.fromkeys(each.node for each in (old, new) if each is not None):
            self._count(node, log)

    def _count(self, node: NodeName, log: ChangeLog) -> None:
        """Count the volumes of a node again. Nothing is counted on nodes without limits."""
        before = self._used.pop(node, NONE)
        after = self._usage(node)
        if after:
            self._used[node] = after
        if more := _above(after, before):
            self._nodes.take(node, more, log)
        if less := _above(before, after):
            self._nodes.release(node, less, log)

    def _usage(self, node: NodeName) -> Resources:
        drivers = self.csi_nodes.get(("", node)) or ()
        if all(driver.limit is None for driver in drivers):
            return NONE
        claims = [claim.key for pod in self._pods.get(node, {}).values() for claim in pod.claims]
        volumes = {self._of_claim(claim) for claim in claims}
        for attachment in self._attached.get(node, {}).values():
            _, handle = self._of_volume(attachment.volume)
            if handle:
                volumes.add((attachment.driver, handle))
        return ATTACH_LIMITS.used_on(drivers, Counter(driver for driver, handle in volumes if handle))

    def usage(self) -> Mapping[NodeName, Resources]:
        """What nodes use of their limits."""
        return self._used


def mounts(pod: Pod | None) -> NodeName | None:
    """The node on which the pod uses claims."""
    return pod.node if pod is not None and pod.claims and pod.holds_node else None


def _above(amounts: Resources, base: Resources) -> Resources:
    """By how much the amounts are larger than the base."""
    return {name: more for name, amount in amounts.items() if (more := amount - base.get(name, 0)) > 0}


def _lower(counts: dict[str, Counter[NodeName]], key: str, node: NodeName) -> None:
    found = counts[key]
    found[node] -= 1
    if not found[node]:
        del found[node]
    if not found:
        del counts[key]
