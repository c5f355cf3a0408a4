"""Pause and freeze Python's cyclic garbage collector while the objects of a cluster are loaded."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class GarbageCollection:
    """Controls the garbage collector of this process. Create one for each scheduler."""

    def __init__(self) -> None:
        self._pauses = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Collect nothing while many objects are decoded: it takes most of the time and frees nothing.

        Pauses may overlap, also across tasks; the end of the last one enables collection again.
        """
        if self._pauses == 0:
            gc.disable()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                gc.enable()

    def freeze(self) -> None:
        """Exempt all present objects from collection, because the objects of a cluster are long-lived."""
        gc.collect()
        gc.freeze()
