"""Fields of our own kinds that the schema knows and the scheduler does not honour yet.

A set one is refused with a verdict or a condition that names it, never ignored. Whoever implements a field
takes it out of these lists and the words "Not implemented yet" out of its description in `crds/`.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import fields

from phalanx.model.wire.phalanx import PodGroupSpec, QueueSpec, Role

FIELDS: Final[dict[type[Struct], frozenset[str]]] = {
    PodGroupSpec: frozenset({"start_by"}),
    Role: frozenset({"requests"}),
}
"""Per struct, fields of which any set value is refused."""

VALUES: Final[dict[type[Struct], dict[str, frozenset[str]]]] = {
    PodGroupSpec: {"start_when": frozenset({"Reserved"})},
}
"""Per struct and field, the values that are refused while others are honoured."""


def of_pod_group(spec: PodGroupSpec) -> tuple[str, ...]:
    """Paths of the set fields that are refused, such as `spec.roles[worker].requests`."""
    paths = [*_refused(spec, "spec")]
    for role in spec.roles:
        paths.extend(_refused(role, f"spec.roles[{role.name}]"))
    named = (part.name for part in spec.sub_groups if part.topology is not None and part.topology.name)
    paths.extend(f"spec.subGroups[{name}].topology.name" for name in named)
    return tuple(paths)


def of_queue(spec: QueueSpec) -> tuple[str, ...]:
    """Paths of the set fields that are refused, such as `spec.flavors[h100].guarantee`."""
    paths = [*_refused(spec, "spec")]
    for flavor in spec.flavors:
        paths.extend(_refused(flavor, f"spec.flavors[{flavor.name}]"))
    return tuple(paths)


def _refused(value: Struct, path: str) -> Iterator[str]:
    """In the order of the struct's fields. An empty list or map asks for nothing and is not refused."""
    never = FIELDS.get(type(value), frozenset())
    values = VALUES.get(type(value), {})
    for name, written in _names(type(value)):
        setting = getattr(value, name)
        if name in never and setting not in (None, (), {}):
            yield f"{path}.{written}"
        elif setting in values.get(name, ()):
            yield f"{path}.{written}: {setting}"


@cache
def _names(kind: type[Struct]) -> tuple[tuple[str, str], ...]:
    """The struct's fields, as they are called here and in JSON. msgspec reads all annotations for that."""
    return tuple((field.name, field.encode_name) for field in fields(kind))
