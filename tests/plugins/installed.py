"""Registers plugin classes of a test as entry points, as if a distribution with them were installed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from phalanx.framework import registry


class _Entry:
    def __init__(self, name: str, loaded: object) -> None:
        self.name = name
        self.value = f"tests:{getattr(loaded, '__qualname__', loaded)}"
        self._loaded = loaded

    def load(self) -> object:
        return self._loaded


@contextmanager
def installed(**classes: object) -> Iterator[None]:
    """Register these plugins by their names within the block; `_` in a name means a dash."""
    found = tuple(_Entry(name.replace("_", "-"), loaded) for name, loaded in classes.items())
    with pytest.MonkeyPatch.context() as patch:
        known = (*registry._entry_points(), *found)
        patch.setattr(registry, "_entry_points", lambda: known)
        patch.setattr(registry, "plugin_class", registry.plugin_class.__wrapped__)
        yield
