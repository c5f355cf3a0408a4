"""Lets entry points lead to plugin classes of a test, as if a distribution that has them were installed."""

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
    """Within the block these plugins are found by their names; `_` in a name stands for a dash."""
    found = tuple(_Entry(name.replace("_", "-"), loaded) for name, loaded in classes.items())
    with pytest.MonkeyPatch.context() as patch:
        known = (*registry._entry_points(), *found)
        patch.setattr(registry, "_entry_points", lambda: known)
        patch.setattr(registry, "plugin_class", registry.plugin_class.__wrapped__)
        yield
