"""When Python's garbage collector may look at the many objects of a cluster, which it would do in vain."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_pauses = 0


@contextmanager
def gc_paused() -> Iterator[None]:
    """No collection while many objects are decoded: it would take most of the time and find nothing.

    Several pauses may overlap, across tasks too; the last one to end turns collection on again.
    """
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


def freeze() -> None:
    """What is there now lives long: no full collection looks at it any more."""
    gc.collect()
    gc.freeze()
