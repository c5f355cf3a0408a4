"""What other schedulers would read in an object after its conversion, by path."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from phalanx.model.names import KAI_QUEUE_LABEL

from phalanx_dialects.conversion.templates import OTHER_SCHEDULERS

_SCHEDULERS: Final = frozenset({"schedulerName", "batchScheduler", "ray.io/scheduler-name"})
"""Fields and labels that name a scheduler, or the controller's plugin for one."""

_GROUPS: Final = frozenset(
    {"scheduling.k8s.io/group-name", "pod-group-name", "scheduling.x-k8s.io/pod-group"}
)
"""Annotations and labels by which pods name a PodGroup."""

_PREFIXES: Final = ("volcano.sh/", "scheduling.volcano.sh/", "kai.scheduler/")

_READ: Final = frozenset(
    {
        "volcano.sh/task-spec",
        "volcano.sh/task-index",
        "volcano.sh/partition-id",
        "kai.scheduler/subgroup-name",
        "scheduling.volcano.sh/queue-name",
        "scheduling.volcano.sh/group-min-member",
        KAI_QUEUE_LABEL,
    }
)
"""Annotations and labels with these prefixes that are converted, or mean the same here."""


def unconverted(value: object, path: str = "") -> Iterator[str]:
    """Paths at which another scheduler or one of its PodGroups is still named."""
    for at, key, found in _entries(value, path):
        name = found.get("name") if isinstance(found, Mapping) else found
        if key in _SCHEDULERS and isinstance(name, str) and name in OTHER_SCHEDULERS:
            yield f"{at}: {name} is not converted"
        elif key in _GROUPS and _is_of_metadata(at, key) and isinstance(found, str) and found:
            yield f"{at}: names PodGroup {found}, and is not converted"


def ignored(value: object, path: str = "") -> Iterator[str]:
    """Paths of annotations and labels for another scheduler that stay and mean nothing here."""
    for at, key, found in _entries(value, path):
        is_theirs = key.startswith(_PREFIXES) and key not in _READ
        if is_theirs and _is_of_metadata(at, key) and isinstance(found, str):
            yield f"{at}: is left as it is, which means nothing here"


def _is_of_metadata(at: str, key: str) -> bool:
    """Whether the field is an annotation or a label."""
    around = at.removesuffix(f"[{key}]").removesuffix(f".{key}").lower()
    return around.endswith(("annotations", "labels"))


def _entries(value: object, path: str) -> Iterator[tuple[str, str, Any]]:
    """All fields at any depth, without the status. Keys with a slash are written in brackets."""
    if isinstance(value, Mapping):
        for key, found in value.items():
            name = f"[{key}]" if "/" in str(key) or not path else f".{key}"
            at = f"{path}{name}" if path else str(key)
            if path or key != "status":
                yield at, str(key), found
                yield from _entries(found, at)
    elif isinstance(value, list):
        for index, found in enumerate(value):
            yield from _entries(found, f"{path}[{index}]")
