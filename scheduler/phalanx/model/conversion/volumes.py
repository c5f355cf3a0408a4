"""Volumes: which nodes can mount what a PersistentVolumeClaim is bound to, or why it cannot be used yet."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phalanx.model.api import core
from phalanx.model.conversion.selectors import read_selector
from phalanx.model.pods import Requirement, Term
from phalanx.model.snapshot import VolumeClaim

_PLACE_LABELS: Final = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels by which older volumes say where they are -> the label that nodes carry for it."""

_ZONES_SEPARATOR: Final = "__"


class ClaimSource(Struct, frozen=True, gc=False):
    """What matters of a PersistentVolumeClaim."""

    volume: str
    storage_class: str
    lost: bool
    deleting: bool


class VolumeSource(Struct, frozen=True, gc=False):
    """What matters of a PersistentVolume."""

    node_affinity: tuple[Term, ...]
    wrong: tuple[str, ...]


def read_claim(written: core.PersistentVolumeClaim) -> ClaimSource:
    """One PersistentVolumeClaim."""
    return ClaimSource(
        volume=written.spec.volume_name,
        storage_class=written.spec.storage_class_name or "",
        lost=written.status.phase == "Lost",
        deleting=written.metadata.deletion_timestamp is not None,
    )


def read_volume(written: core.PersistentVolume) -> VolumeSource:
    """One PersistentVolume: its node affinity, and its zone labels, read as kube-scheduler reads them."""
    wrong: list[str] = []
    affinity = written.spec.node_affinity
    terms: tuple[Term, ...] = ()
    if affinity is not None and affinity.required is not None:
        terms = read_selector(affinity.required, "spec.nodeAffinity.required", wrong)
    return VolumeSource(
        node_affinity=_with_places(terms, _places(written.metadata.labels)), wrong=tuple(wrong)
    )


def _places(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Where a volume's labels say it is; a value may name several zones."""
    return tuple(
        Requirement(
            key=node_label, operator="In", values=tuple(sorted(labels[label].split(_ZONES_SEPARATOR)))
        )
        for label, node_label in _PLACE_LABELS.items()
        if label in labels
    )


def _with_places(terms: tuple[Term, ...], places: tuple[Requirement, ...]) -> tuple[Term, ...]:
    """Each alternative, for nodes in the right place and for nodes that do not say where they are."""
    if not places:
        return terms
    nowhere = tuple(Requirement(key=label, operator="DoesNotExist") for label in _PLACE_LABELS)
    alternatives = [term.requirements for term in terms if term.requirements] if terms else [()]
    placed = [Term((*required, *where)) for required in alternatives for where in (places, nowhere)]
    return tuple(placed) or (Term(),)


def binds_late(written: core.StorageClass) -> bool:
    """Whether claims of this StorageClass are bound only once their first pod is placed."""
    return written.volume_binding_mode == "WaitForFirstConsumer"


def resolve_claim(source: ClaimSource, *, volume: VolumeSource | None, binds_late: bool) -> VolumeClaim:
    """What a claim means now. `volume`: the one that it names, if that exists; `binds_late`: of its class."""
    why = _why_unusable(source, volume, binds_late)
    if why or volume is None:
        return VolumeClaim(why_unusable=why)
    return VolumeClaim(node_affinity=volume.node_affinity)


def _why_unusable(source: ClaimSource, volume: VolumeSource | None, binds_late: bool) -> str:
    if source.deleting:
        return "it is being deleted"
    if source.lost:
        return f"its volume {source.volume} is lost"
    if not source.volume:
        if binds_late:
            return (
                f"it is not bound, and its StorageClass {source.storage_class} binds when a pod is placed "
                "(WaitForFirstConsumer), which is not supported yet"
            )
        return "it is not bound to a volume yet"
    if volume is None:
        return f"its volume {source.volume} does not exist"
    return f"its volume {source.volume} is invalid: {volume.wrong[0]}" if volume.wrong else ""
