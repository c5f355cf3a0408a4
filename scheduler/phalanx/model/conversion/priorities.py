"""Priorities by name, as the API server's Priority admission resolves them."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phalanx.model.api import core

PREEMPT_LOWER: Final = "PreemptLowerPriority"


class PriorityLevel(Struct, frozen=True, gc=False):
    """What a PriorityClass stands for."""

    value: int = 0
    preemption_policy: str = PREEMPT_LOWER
    is_default: bool = False


BUILT_IN: Final[Mapping[str, PriorityLevel]] = {
    "system-cluster-critical": PriorityLevel(2_000_000_000),
    "system-node-critical": PriorityLevel(2_000_001_000),
}
"""The classes that every API server creates by itself: manifests may use them without bringing them."""


def read_priority_class(written: core.PriorityClass) -> PriorityLevel:
    """One PriorityClass."""
    return PriorityLevel(
        value=written.value,
        preemption_policy=written.preemption_policy or PREEMPT_LOWER,
        is_default=written.global_default,
    )


def resolve(name: str, classes: Mapping[str, PriorityLevel]) -> PriorityLevel | None:
    """The level of this name, the global default for an empty name, None when there is no such class.

    Of several global defaults the lowest counts, as in Kubernetes.
    """
    if name:
        return classes.get(name) or BUILT_IN.get(name)
    defaults = [level for level in classes.values() if level.is_default]
    return min(defaults, key=lambda level: level.value, default=PriorityLevel())
