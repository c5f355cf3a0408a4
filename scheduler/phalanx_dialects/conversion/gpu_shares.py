"""Shares of GPUs that pods of KAI request by annotations, as the shares of Phalanx."""

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, Final

from phalanx.model.names import ANNOTATION_GPU_MEMORY, ANNOTATION_GPU_SHARE
from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE

_FRACTION: Final = "gpu-fraction"
_MEMORY: Final = "gpu-memory"
_DEVICES: Final = "gpu-fraction-num-devices"


def convert_shares(annotations: dict[str, Any], wrong: list[str], notes: list[str]) -> None:
    """Replace the annotations of one share. Several devices for one pod have no counterpart."""
    found = [key for key in (_FRACTION, _MEMORY) if key in annotations]
    if len(found) != 1 or annotations.get(_DEVICES, "1") != "1":
        return
    written = str(annotations[found[0]])
    number = _number(written)
    share = found[0] == _FRACTION
    if number is None or (share and number > 1):
        expected = "a number up to 1" if share else "a number of MiB"
        wrong.append(f"metadata.annotations[{found[0]}]: expected {expected}, found {written}")
        return
    if share:
        annotations[ANNOTATION_GPU_SHARE] = str(int((number * WHOLE_DEVICE).to_integral_value(ROUND_CEILING)))
    else:
        annotations[ANNOTATION_GPU_MEMORY] = f"{written}Mi"
    for key in (found[0], _DEVICES):
        annotations.pop(key, None)
    notes.append(
        f"metadata.annotations[{found[0]}]: only nodes that have the label scheduling.phalanx.dev/gpu-sharing"
        " and offer no whole GPUs give shares"
    )


def _number(written: str) -> Decimal | None:
    """A number above 0."""
    try:
        number = Decimal(written)
    except InvalidOperation:
        return None
    return number if number.is_finite() and number > 0 else None
