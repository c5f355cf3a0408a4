"""Volumes that exist already, and claims that are bound to one of them when their pod is placed.

A claim of a class with WaitForFirstConsumer takes the smallest volume that satisfies it and that its node can
mount (`FindMatchingVolume` in component-helpers of Kubernetes 1.37). The claims of all pods of one placement
get different volumes, or the placement is not made.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from phalanx.model.names import PodUid
from phalanx.model.pods import Term, VolumeClaim, WantedVolume
from phalanx.model.selectors import labels_match
from phalanx.model.supplies.part import SupplyPart


class StaticVolume(Struct, frozen=True):
    """A PersistentVolume that no claim has. `nodes`: alternatives of the nodes that can mount it."""

    name: str
    storage_class: str = ""
    size: int = 0
    modes: tuple[str, ...] = ()
    volume_mode: str = ""
    attributes_class: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    nodes: tuple[Term, ...] = ()


class StorageCapacity(Struct, frozen=True, gc=False):
    """What can be provisioned for the nodes with these labels, in bytes: the largest volume, and all volumes
    together; None if the driver does not say."""

    nodes: Term
    largest: int
    total: int | None = None


class ClaimUser(Struct, frozen=True, gc=False):
    """A pod that mounts a claim. `is_placed`: it has a node; else it waits for this scheduler."""

    uid: PodUid
    name: str
    is_placed: bool


def in_use(claim: str, user: ClaimUser) -> str:
    """Why no other pod may use the claim."""
    how = "uses it" if user.is_placed else "waits for it and is first"
    return f"PersistentVolumeClaim {claim} allows one pod (ReadWriteOncePod), and pod {user.name} {how}"


class InstalledDriver(Struct, frozen=True, gc=False):
    """A CSI driver of a node. `limit`: of volumes that can be attached; None for no limit."""

    name: str
    limit: int | None = None


NodeDrivers = tuple[InstalledDriver, ...]


class ClusterVolumes(SupplyPart, frozen=True):
    """The part of a snapshot that concerns volumes.

    - `claims` is keyed by "namespace/name".
    - `claim_users`: the pods that mount a claim which only one pod may use, by key: first the placed
      ones, then in order of creation. Pods that wait for other schedulers are left out.
    - `storage_capacities`: by StorageClass, of the drivers that publish it.
    - `static_volumes`: those that claims may take, sorted by size and name. None that a placed pod has been
      decided for.
    - `csi_nodes`: the drivers that are installed, by node.
    - `limited_drivers`: the drivers of whose volumes some node takes a limited number, sorted.
    """

    supply: ClassVar[str] = "volumes"

    claims: Mapping[str, VolumeClaim] = {}
    claim_users: Mapping[str, tuple[ClaimUser, ...]] = {}
    storage_capacities: Mapping[str, tuple[StorageCapacity, ...]] = {}
    static_volumes: tuple[StaticVolume, ...] = ()
    csi_nodes: Mapping[str, NodeDrivers] = {}
    limited_drivers: tuple[str, ...] = ()


class UnboundClaim(Struct, frozen=True):
    """A PersistentVolumeClaim that must be bound before its pod."""

    namespace: str
    name: str
    uid: str
    selected_node: str = ""
    """The node for which a provisioner was asked for the volume, as last seen."""
    needs_node: bool = True
    """Whether a provisioner waits for the node. False once the claim names a volume."""
    failure: str = ""
    """Why it cannot be bound."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def mismatch(volume: StaticVolume, wanted: WantedVolume) -> str:
    """The first field of the claim that the volume does not satisfy; empty if it satisfies all.

    Fields that do not always count are last: `may_be_named` and `may_be_reserved` leave them out.
    """
    if volume.storage_class != wanted.storage_class:
        return "spec.storageClassName"
    if volume.size < wanted.size:
        return "spec.resources.requests.storage"
    if volume.volume_mode != wanted.volume_mode:
        return "spec.volumeMode"
    if volume.attributes_class != wanted.attributes_class:
        return "spec.volumeAttributesClassName"
    if not set(wanted.modes) <= set(volume.modes):
        return "spec.accessModes"
    if wanted.selector is not None and not labels_match(dict(volume.labels), wanted.selector):
        return "spec.selector"
    return ""


def may_be_reserved(volume: StaticVolume, wanted: WantedVolume) -> bool:
    """Whether a volume whose `claimRef` names the claim is for it: labels and modes do not count.

    kube-scheduler looks for it among the volumes of the claim's class (`GetPodVolumeClaims`, 1.37).
    """
    return mismatch(volume, wanted) in ("", "spec.accessModes", "spec.selector")


def may_be_named(volume: StaticVolume, wanted: WantedVolume) -> bool:
    """Whether a claim whose `spec.volumeName` is this volume will get it, so that no other claim does.

    Else the volume controller leaves both as they are (`checkVolumeSatisfyClaim`, 1.37), and any tenant can
    write such a claim.
    """
    return mismatch(volume, wanted) in ("", "spec.selector")


# --- matching -----------------------------------------------------------------------------------------------


def match_all(candidates: Sequence[Iterable[str]]) -> list[str] | None:
    """A different volume for each claim, given the names of its candidates, the best first; None if there is
    none (maximum bipartite matching by augmenting paths)."""
    lists = [tuple(names) for names in candidates]
    owner: dict[str, int] = {}
    held = [""] * len(lists)
    for claim in range(len(lists)):
        if not _augment(claim, lists, owner, held):
            return None
    return held


def _augment(claim: int, candidates: Sequence[Sequence[str]], owner: dict[str, int], held: list[str]) -> bool:
    """Find a volume for the claim; claims before it may get others. Breadth first."""
    reached: dict[str, int] = {}
    """By volume, the claim from which the search reached it."""
    waiting = [claim]
    for current in waiting:
        for name in candidates[current]:
            if name in reached:
                continue
            reached[name] = current
            if name in owner:
                waiting.append(owner[name])
                continue
            while name:
                taker = reached[name]
                owner[name] = taker
                name, held[taker] = held[taker], name
            return True
    return False
