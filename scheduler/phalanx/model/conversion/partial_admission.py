"""Jobs that may be started with fewer pods than their parallelism, as their annotations say."""

from typing import Final

from msgspec import Struct

from phalanx.model.api.meta import ObjectMeta
from phalanx.model.names import (
    ANNOTATION_FULL_PARALLELISM,
    ANNOTATION_MIN_PARALLELISM,
    ANNOTATION_SUSPENSION,
)
from phalanx.model.reasons import Objection, Reason

_DIGITS_MAX: Final = 10
"""Those of the largest int32."""


class PartialAdmission(Struct, frozen=True, gc=False):
    """What a Job allows, and what has been done about it."""

    minimum: int
    """How many pods must start."""
    parallelism: int
    """How many pods may run at the same time by now."""
    pods: int
    """How many pods exist at the same time by now: fewer than the parallelism if fewer are left to do."""
    full: int | None = None
    """The parallelism before it was lowered; None if it was not."""
    suspended: bool = False
    """Whether somebody else than the scheduler has suspended it."""
    has_run: bool = False
    """Whether a pod of it has ended."""
    version: str = ""
    """The resourceVersion of the Job."""


def read_partial_admission(
    meta: ObjectMeta, *, parallelism: int, pods: int, suspended: bool, has_run: bool
) -> PartialAdmission | Objection | None:
    """What the annotations of a Job with so many pods allow; None without the annotation."""
    written = meta.annotations.get(ANNOTATION_MIN_PARALLELISM)
    if written is None:
        return None
    minimum = _above_zero(written)
    if minimum is None:
        return Objection(
            Reason.INVALID_OBJECT,
            f"Job {meta.namespace}/{meta.name}: annotation {ANNOTATION_MIN_PARALLELISM} is not a whole "
            f"number above 0",
            "Correct the annotation, or remove it",
        )
    return PartialAdmission(
        minimum=min(minimum, pods),
        parallelism=parallelism,
        pods=pods,
        full=_above_zero(meta.annotations.get(ANNOTATION_FULL_PARALLELISM, "")),
        suspended=suspended and ANNOTATION_SUSPENSION not in meta.annotations,
        has_run=has_run,
        version=meta.resource_version,
    )


def _above_zero(written: str) -> int | None:
    is_number = written.isascii() and written.isdigit() and len(written) <= _DIGITS_MAX
    return (int(written) or None) if is_number else None
