"""When work was last saved, as pods and PodGroups say in an annotation."""

from typing import Final

from phalanx.model.api.meta import Annotations
from phalanx.model.conversion.metadata import seconds_at
from phalanx.model.names import ANNOTATION_LAST_CHECKPOINT

_SHOWN: Final = 64


def read_checkpoint(written: Annotations) -> tuple[int, str]:
    """Seconds since the epoch, 0 for never; and what is wrong, "path: what", empty where nothing is."""
    text = written.last_checkpoint
    if text is None:
        return 0, ""
    at = seconds_at(text)
    if at is not None:
        return at, ""
    path = f"metadata.annotations[{ANNOTATION_LAST_CHECKPOINT}]"
    return 0, f"{path}: {text[:_SHOWN]!r} is no time such as 2026-11-01T10:00:00Z"
