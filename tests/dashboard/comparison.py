"""How much two screenshots differ."""

import io
from typing import Any, Final

DIFFERENT_MAX: Final = 0.0005
"""The part of two pictures that may differ: 32 squares of 4 pixels of a screen of 1280 by 800."""
_SQUARE: Final = 4
"""Pixels: squares are compared, so that the edges of letters may be drawn a little differently."""
_CHANNEL_MAX: Final = 12
"""The most by which a colour of a square may differ, of 255."""


def difference(seen: bytes, wanted: bytes) -> float:
    """The part of the squares that differ; 1 if the sizes do."""
    import numpy
    from PIL import Image

    def squares(content: bytes) -> Any:
        with Image.open(io.BytesIO(content)) as image:
            return numpy.asarray(image.convert("RGB").reduce(_SQUARE), dtype=numpy.int16)

    left, right = squares(seen), squares(wanted)
    if left.shape != right.shape:
        return 1.0
    return float((numpy.abs(left - right).max(axis=2) > _CHANNEL_MAX).mean())
