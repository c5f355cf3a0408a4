"""Conversion of PersistentVolumes, their claims and StorageClasses, joined to the states of claims."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Final

from msgspec import Struct

from phalanx.model.api import core
from phalanx.model.conversion.selectors import read_label_selector, read_selector
from phalanx.model.pods import MountedClaim, Provisioning, Requirement, Term, VolumeClaim, WantedVolume
from phalanx.model.supplies.volumes.published import StaticVolume, may_be_reserved
from phalanx.model.supplies.volumes.read_drivers import NO_DRIVER, DriverSource, read_bytes

_PLACE_LABELS: Final = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels by which older volumes name their zone or region, with the stable label of the same meaning."""

_ZONES_SEPARATOR: Final = "__"


_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Annotation that the volume controller sets, whatever its value, once both objects refer to each other."""


SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation by which a scheduler asks the provisioner of a claim for a volume for this node."""

_STORAGE: Final = "storage"

NO_DRIVERS: Final[Mapping[str, DriverSource]] = {}

_NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")

_READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


class ClaimSource(Struct, frozen=True, gc=False):
    """The relevant fields of a PersistentVolumeClaim."""

    reference: core.ClaimReference
    """The claim as its volume refers to it."""
    volume: str
    storage_class: str
    is_bound: bool
    """Whether the volume controller has completed the binding."""
    lost: bool
    deleting: bool
    for_one_pod: bool
    """Whether an access mode is ReadWriteOncePod."""
    owner: str
    """UID of the object that controls it."""
    selected_node: str
    size: int | None
    """Bytes of storage that it requests; None without a request."""
    wanted: WantedVolume
    wrong: tuple[str, ...]
    """Errors of its selector of volumes."""


class ClassSource(Struct, frozen=True):
    """The relevant fields of a StorageClass."""

    name: str
    binds_late: bool
    """Whether claims are bound only after their first pod is placed."""
    provisions: bool
    """Whether it has a provisioner."""
    provisioner: str
    topologies: tuple[Term, ...]
    """The nodes for which it provisions; empty for all."""


class VolumeSource(Struct, frozen=True, gc=False):
    """The relevant fields of a PersistentVolume."""

    node_affinity: tuple[Term, ...]
    claim: core.ClaimReference | None
    wrong: tuple[str, ...]
    driver: str = ""
    """Its CSI driver; empty for a volume of another kind."""
    handle: str = ""
    offer: StaticVolume = StaticVolume("")
    is_available: bool = False
    """Whether a claim may take it."""
    deleting: bool = False


def read_claim(written: core.PersistentVolumeClaim) -> ClaimSource:
    """Convert one PersistentVolumeClaim."""
    meta, spec = written.metadata, written.spec
    storage_class = meta.annotations.get(STORAGE_CLASS, spec.storage_class_name or "")
    size = _size(spec)
    wrong: list[str] = []
    wanted = read_wanted(written, storage_class, size, wrong)
    return ClaimSource(
        reference=core.ClaimReference(namespace=meta.namespace, name=meta.name, uid=meta.uid),
        volume=spec.volume_name,
        storage_class=storage_class,
        is_bound=_BIND_COMPLETED in meta.annotations,
        lost=written.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        for_one_pod=_READ_WRITE_ONCE_POD in spec.access_modes,
        owner=next((owner.uid for owner in meta.owner_references if owner.controller), ""),
        selected_node=meta.annotations.get(SELECTED_NODE, ""),
        size=size,
        wanted=wanted,
        wrong=tuple(wrong),
    )


def _size(spec: core.PersistentVolumeClaimSpec) -> int | None:
    """An invalid amount counts as the largest one, as that of a request."""
    asked = spec.resources.requests.get(_STORAGE) if spec.resources is not None else None
    return read_bytes(asked, "spec.resources.requests", [])


def read_volume(written: core.PersistentVolume) -> VolumeSource:
    """Convert one PersistentVolume: its node affinity and its zone labels, as kube-scheduler reads them."""
    wrong: list[str] = []
    affinity, csi = written.spec.node_affinity, written.spec.csi
    terms: tuple[Term, ...] = ()
    if affinity is not None and affinity.required is not None:
        terms = _on_labels(read_selector(affinity.required, "spec.nodeAffinity.required", wrong))
    nodes = _with_places(terms, _places(written.metadata.labels))
    return VolumeSource(
        node_affinity=nodes,
        claim=written.spec.claim_ref,
        wrong=tuple(wrong),
        driver=csi.driver if csi is not None else "",
        handle=csi.volume_handle if csi is not None else "",
        offer=read_static_volume(written, nodes),
        is_available=is_available(written) and not wrong,
        deleting=written.metadata.deletion_timestamp is not None,
    )


def _on_labels(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The terms without `matchFields`; none if one of them then has no requirement left.

    kube-scheduler and the kubelet compare the affinity of a volume with a node that has labels and no name
    (CheckNodeAffinity in component-helpers of Kubernetes 1.37), and fields of such a node match anything.
    """
    kept = tuple(Term(tuple(each for each in term.requirements if not each.on_field)) for term in terms)
    is_met = any(
        before.requirements and not after.requirements for before, after in zip(terms, kept, strict=True)
    )
    return () if is_met else kept


def _places(labels: Mapping[str, str]) -> list[tuple[Requirement, ...]]:
    """Alternatives of the location of a volume by its labels; none without such labels.

    A value may name several zones. Where a node lacks a beta label of the volume, its stable label counts
    (VolumeZone of kube-scheduler 1.37).
    """
    choices: list[list[tuple[Requirement, ...]]] = []
    for label, stable in _PLACE_LABELS.items():
        if label not in labels:
            continue
        zones = tuple(sorted(labels[label].split(_ZONES_SEPARATOR)))
        choices.append([(Requirement(label, "In", zones),)])
        if stable != label:
            lacks = Requirement(label, "DoesNotExist")
            choices[-1].append((lacks, Requirement(stable, "In", zones)))
    return [tuple(chain(*each)) for each in product(*choices)] if choices else []


def _with_places(terms: tuple[Term, ...], places: Sequence[tuple[Requirement, ...]]) -> tuple[Term, ...]:
    """Each alternative for nodes in the right location, and for nodes without location labels."""
    if not places:
        return terms
    nowhere = tuple(Requirement(key=label, operator="DoesNotExist") for label in _PLACE_LABELS)
    alternatives = [term.requirements for term in terms if term.requirements] if terms else [()]
    placed = [Term((*required, *where)) for required in alternatives for where in (*places, nowhere)]
    return tuple(placed) or (Term(),)


def read_storage_class(written: core.StorageClass) -> ClassSource:
    """Convert one StorageClass. An allowed topology without requirements matches no node."""
    terms = [
        [
            Requirement(each.key, "In", tuple(sorted(set(each.values))))
            for each in term.match_label_expressions
        ]
        for term in written.allowed_topologies
    ]
    return ClassSource(
        name=written.metadata.name,
        binds_late=written.volume_binding_mode == "WaitForFirstConsumer",
        provisions=written.provisioner not in _NO_PROVISIONER,
        provisioner=written.provisioner,
        topologies=tuple([Term(tuple(requirements)) for requirements in terms]),
    )


def resolve_claim(
    source: ClaimSource,
    *,
    volume: VolumeSource | None,
    storage_class: ClassSource | None,
    drivers: Mapping[str, DriverSource] = NO_DRIVERS,
    reserved: VolumeSource | None = None,
) -> VolumeClaim:
    """The state of a claim, as kube-scheduler sees it; docs/volumes.md has the table.

    `volume`: the one that it names, if it exists; `storage_class`: the one that it names, if it exists.
    `drivers`: what CSIDriver objects say, by name. `reserved`: a volume that names the claim, if one exists.
    """
    driver, handle = _driver(source, volume, storage_class)
    known = drivers.get(driver, NO_DRIVER)
    provisioning: Provisioning | None = None
    wanted: WantedVolume | None = None
    nodes: tuple[Term, ...] = ()
    why = _why_unbound(source, storage_class)
    if not why and not source.volume and reserved is not None:
        nodes = reserved.node_affinity
    elif not why and not source.volume:
        if storage_class is not None and storage_class.provisions:
            size = source.size if known.publishes_capacity else None
            provisioning = Provisioning(source.storage_class, source.selected_node, size)
            nodes = _provisioned_nodes(source, storage_class)
        wanted = source.wanted if not source.selected_node else None
    elif not why:
        why = _why_unmountable(source, volume)
        nodes = volume.node_affinity if volume is not None and not why else ()
    return VolumeClaim(
        name=source.reference.name,
        node_affinity=nodes,
        why_unusable=why,
        for_one_pod=source.for_one_pod,
        owner=source.owner,
        provisioning=provisioning,
        wanted=wanted,
        driver=driver,
        handle=handle,
        needs_driver=known.must_be_installed and bool(handle),
    )


def _driver(
    source: ClaimSource, volume: VolumeSource | None, storage_class: ClassSource | None
) -> tuple[str, str]:
    """The driver and the handle of the volume, as `getCSIDriverInfo` of kube-scheduler 1.37 finds them.

    Without a volume, they are the provisioner of the class and the claim. In-tree volumes have no driver.
    """
    if source.volume and volume is not None:
        return (volume.driver, volume.handle) if volume.driver and volume.handle else ("", "")
    if storage_class is None or not storage_class.provisioner:
        return "", ""
    return storage_class.provisioner, f"claim {source.reference.namespace}/{source.reference.name}"


def _provisioned_nodes(source: ClaimSource, storage_class: ClassSource | None) -> tuple[Term, ...]:
    """Alternatives of the nodes for which a volume can be provisioned: the selected one, if there is one."""
    topologies = storage_class.topologies if storage_class is not None else ()
    if not source.selected_node:
        return topologies
    selected = Requirement("metadata.name", "In", (source.selected_node,), on_field=True)
    terms = [term for term in topologies if term.requirements] if topologies else [Term()]
    return tuple([Term((*term.requirements, selected)) for term in terms]) or (Term(),)


def _why_unbound(source: ClaimSource, storage_class: ClassSource | None) -> str:
    """Why a claim has no volume yet and none will be provisioned for its pod."""
    if source.lost:
        return f"its volume {source.volume} is lost"
    if source.deleting:
        return "it is being deleted"
    if source.volume and not source.is_bound:
        return (
            f"it names volume {source.volume} and is not bound to it yet: "
            f"the volume controller has not set annotation {_BIND_COMPLETED}"
        )
    if source.volume:
        return ""
    if source.storage_class and storage_class is None:
        return f"it is not bound to a volume, and its StorageClass {source.storage_class} does not exist"
    if storage_class is None or not storage_class.binds_late:
        return "it is not bound to a volume yet"
    if not storage_class.provisions and source.selected_node:
        return (
            f"annotation {SELECTED_NODE} asks for a volume for node {source.selected_node}, "
            f"and its StorageClass {source.storage_class} has no provisioner"
        )
    return f"it is invalid: {source.wrong[0]}" if source.wrong else ""


def _why_unmountable(source: ClaimSource, volume: VolumeSource | None) -> str:
    """Why no node can mount the volume of a bound claim."""
    if volume is None:
        return f"its volume {source.volume} does not exist"
    if volume.claim is not None and not _is_same(volume.claim, source.reference):
        return f"its volume {source.volume} belongs to claim {_shown_claim(volume.claim, source.reference)}"
    return f"its volume {source.volume} is invalid: {volume.wrong[0]}" if volume.wrong else ""


def is_reserved_for(volume: VolumeSource, source: ClaimSource) -> bool:
    """Whether the claim will be bound to this volume, which names it."""
    return (
        volume.claim is not None
        and not volume.deleting
        and not volume.wrong
        and _is_same(volume.claim, source.reference)
        and may_be_reserved(volume.offer, source.wanted)
    )


def _is_same(named: core.ClaimReference, claim: core.ClaimReference) -> bool:
    """Whether the volume names this claim. It may name it without a UID, before it is bound."""
    return (named.namespace, named.name) == (claim.namespace, claim.name) and named.uid in ("", claim.uid)


def _shown_claim(named: core.ClaimReference, claim: core.ClaimReference) -> str:
    name = f"{named.namespace}/{named.name}"
    is_other = (named.namespace, named.name) != (claim.namespace, claim.name)
    return name if is_other else f"{name} with another UID ({named.uid})"


# --- volumes that exist already --------------------------------------------------------------------------

STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Annotation that goes before `spec.storageClassName`, as in kube-scheduler and the volume controller."""

_FILESYSTEM: Final = "Filesystem"


def read_static_volume(written: core.PersistentVolume, nodes: tuple[Term, ...]) -> StaticVolume:
    """What one PersistentVolume offers. An invalid capacity offers nothing."""
    meta, spec = written.metadata, written.spec
    wrong: list[str] = []
    size = read_bytes(spec.capacity.get(_STORAGE), "spec.capacity", wrong)
    return StaticVolume(
        name=meta.name,
        storage_class=meta.annotations.get(STORAGE_CLASS, spec.storage_class_name),
        size=0 if wrong else size or 0,
        modes=tuple(sorted(set(spec.access_modes))),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        labels=tuple(sorted(meta.labels.items())),
        nodes=nodes,
    )


def is_available(written: core.PersistentVolume) -> bool:
    """Whether a claim may take the volume: it is reserved for none, and stays."""
    meta = written.metadata
    return (
        written.spec.claim_ref is None
        and written.status.phase == "Available"
        and meta.deletion_timestamp is None
    )


def read_wanted(
    written: core.PersistentVolumeClaim, storage_class: str, size: int | None, wrong: list[str]
) -> WantedVolume:
    """What the claim needs of a volume. Errors of the selector are appended to `wrong`."""
    spec = written.spec
    return WantedVolume(
        storage_class=storage_class,
        size=size or 0,
        modes=tuple(sorted(set(spec.access_modes))),
        volume_mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=read_label_selector(spec.selector, "spec.selector", wrong),
    )


# --- volumes of pods --------------------------------------------------------------------------------------


def read_claims(pod: core.Pod) -> tuple[MountedClaim, ...]:
    """The claims that the pod mounts, each once, sorted by key.

    The claim of a generic ephemeral volume is named after the pod and the volume, as kube-controller-manager
    names it (`VolumeClaimName` in component-helpers of Kubernetes 1.37).
    """
    if not pod.spec.volumes:
        return ()
    found: dict[str, MountedClaim] = {}
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name:
            key = f"{namespace}/{source.claim_name}"
            found.setdefault(key, MountedClaim(key=key))
        elif source is None and volume.ephemeral is not None:
            key = f"{namespace}/{pod.metadata.name}-{volume.name}"
            found[key] = MountedClaim(key=key, ephemeral=volume.name)
    return tuple(found[key] for key in sorted(found))


def unnamed_claims(spec: core.PodSpec) -> Iterator[str]:
    """Paths of claim names that are empty."""
    for index, volume in enumerate(spec.volumes):
        if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
            yield f"spec.volumes[{index}].persistentVolumeClaim.claimName"
