"""Conversion of volumes that no claim has, and of what claims need of such a volume."""

from typing import Final

from phalanx.model.api import core
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.conversion.selectors import read_label_selector
from phalanx.model.pods import Term, WantedVolume
from phalanx.model.static_volumes import StaticVolume

STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Annotation that goes before `spec.storageClassName`, as in kube-scheduler and the volume controller."""

_STORAGE: Final = "storage"
_FILESYSTEM: Final = "Filesystem"


def read_static_volume(written: core.PersistentVolume, nodes: tuple[Term, ...]) -> StaticVolume:
    """What one PersistentVolume offers. An invalid capacity offers nothing."""
    meta, spec = written.metadata, written.spec
    wrong: list[str] = []
    amount = spec.capacity.get(_STORAGE)
    size = 0 if amount is None else read_amounts({_STORAGE: amount}, "spec.capacity", wrong)[_STORAGE]
    return StaticVolume(
        name=meta.name,
        storage_class=meta.annotations.get(STORAGE_CLASS, spec.storage_class_name),
        size=0 if wrong else size,
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
