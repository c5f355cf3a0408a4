"""Which plugins override which hooks. It depends on their classes only, so sessions share it."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from phalanx.framework.plugin import HOOKS, Plugin, overrides
from phalanx.framework.pod_view import DeclaredReads, declared_reads

LASTING_HOOKS: Final = ("node_filter", "node_cost", "rules")
"""Hooks whose answers refusals depend on. They hold until `valid_until`."""


class Overrider(Struct, frozen=True):
    """A plugin that overrides a hook."""

    position: int
    """Its position among the plugins, from 0."""
    may_read_time: bool
    """False if an answer of the hook could change with time while refusals assume that it holds."""


class Overriders:
    """The plugins that override each hook."""

    def __init__(self, kinds: Iterable[type[Plugin]]) -> None:
        """`kinds`: the classes of all plugins, in the configured order."""
        self.kinds = tuple(kinds)
        self._overridden = tuple(
            [frozenset(hook for hook in HOOKS if overrides(kind, hook)) for kind in self.kinds]
        )
        """The hooks that each of them overrides."""

        self._of_one = {hook: self._find((hook,)) for hook in HOOKS}

    def of(self, *hooks: str) -> Sequence[Overrider]:
        """The plugins that override one of the hooks; whether they may read time depends on the first."""
        return self._of_one[hooks[0]] if len(hooks) == 1 else self._find(hooks)

    def _find(self, hooks: tuple[str, ...]) -> Sequence[Overrider]:
        return [
            Overrider(position, _may_read_time(overridden, hooks[0]))
            for position, overridden in enumerate(self._overridden)
            if not overridden.isdisjoint(hooks)
        ]

    @cached_property
    def reads(self) -> DeclaredReads:
        """The declarations of all plugins."""
        return declared_reads(self.kinds)


def _may_read_time(overridden: frozenset[str], hook: str) -> bool:
    lasting = not overridden.isdisjoint(LASTING_HOOKS)
    return hook not in (*LASTING_HOOKS, "open") or not lasting or "valid_until" in overridden
