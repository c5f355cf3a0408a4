"""Which plugins override which hooks. It depends on their classes only, so sessions share it."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from phalanx.framework.plugin import Plugin, overrides

LASTING_HOOKS: Final = ("node_filter", "node_cost", "rules")
"""Hooks whose answers refusals depend on. They hold until `valid_until`."""


class Overrider(Struct, frozen=True):
    """A plugin that overrides a hook."""

    position: int
    """Its position among the plugins, from 0."""
    may_read_time: bool
    """False if an answer of the hook could change with time while refusals assume that it holds."""


class Overriders:
    """The plugins that override each hook. Computed at the first question about a hook."""

    def __init__(self, kinds: Iterable[type[Plugin]]) -> None:
        """`kinds`: the classes of all plugins, in the configured order."""
        self.kinds = tuple(kinds)
        self._found: dict[tuple[str, ...], Sequence[Overrider]] = {}

    def of(self, *hooks: str) -> Sequence[Overrider]:
        """The plugins that override one of the hooks; whether they may read time depends on the first."""
        found = self._found.get(hooks)
        if found is None:
            found = self._found[hooks] = [
                Overrider(position, _may_read_time(kind, hooks[0]))
                for position, kind in enumerate(self.kinds)
                if any(overrides(kind, hook) for hook in hooks)
            ]
        return found


def _may_read_time(kind: type[Plugin], hook: str) -> bool:
    lasting = any(overrides(kind, lasting_hook) for lasting_hook in LASTING_HOOKS)
    return hook not in (*LASTING_HOOKS, "open") or not lasting or overrides(kind, "valid_until")
