"""No garbage collection while many objects are decoded: it would take most of the time and find nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_pauses = 0


@contextmanager
def gc_paused() -> Iterator[None]:
    """Several pauses may overlap, across tasks too; the last one to end turns collection on again."""
    global _pauses
    if _pauses == 0:
        gc.disable()
    _pauses += 1
    try:
        yield
    finally:
        _pauses -= 1
        if _pauses == 0:
            gc.enable()
