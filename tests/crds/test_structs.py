"""The typed structs and the CRD schemas have the same fields, types and required fields."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect
from phalanx.model.api import pod_groups, queues

from tests.crds.files import Document, schema

PAIRS = [
    ("PodGroup", "spec", pod_groups.PodGroupSpec),
    ("PodGroup", "status", pod_groups.PodGroupStatus),
    ("Queue", "spec", queues.QueueSpec),
    ("Queue", "status", queues.QueueStatus),
    ("Topology", "spec", queues.TopologySpec),
]
JSON_TYPES = {inspect.StrType: "string", inspect.IntType: "integer", inspect.BoolType: "boolean"}


def bare(found: inspect.Type) -> inspect.Type:
    """The type without None."""
    if not isinstance(found, inspect.UnionType):
        return found
    some = tuple(each for each in found.types if not isinstance(each, inspect.NoneType))
    return some[0] if len(some) == 1 else inspect.UnionType(some)


def differences(found: Document, kind: inspect.Type, path: str) -> Iterator[str]:
    """Yield one line for each difference between schema and struct."""
    kind = bare(kind)
    if isinstance(kind, inspect.StructType):
        yield from struct_differences(found, kind, path)
    elif isinstance(kind, inspect.VarTupleType):
        if found.get("type") != "array":
            yield f"{path}: the struct has a list"
        else:
            yield from differences(found["items"], kind.item_type, f"{path}[]")
    elif isinstance(kind, inspect.DictType):
        yield from differences(found.get("additionalProperties", {}), kind.value_type, f"{path}{{}}")
    elif isinstance(kind, inspect.UnionType):
        if not found.get("x-kubernetes-int-or-string"):
            yield f"{path}: the struct has a quantity"
    elif found.get("type") != JSON_TYPES[type(kind)]:
        yield f"{path}: {found.get('type')} in the schema, {JSON_TYPES[type(kind)]} in the struct"


def struct_differences(found: Document, kind: inspect.StructType, path: str) -> Iterator[str]:
    properties = found.get("properties", {})
    fields = {field.encode_name: field for field in kind.fields}
    for name in properties.keys() ^ fields.keys():
        yield f"{path}.{name}: only in the {'schema' if name in properties else 'struct'}"
    required = {name for name, field in fields.items() if field.required}
    for name in required ^ set(found.get("required", [])):
        yield f"{path}.{name}: required only in the {'struct' if name in required else 'schema'}"
    for name in properties.keys() & fields.keys():
        yield from differences(properties[name], fields[name].type, f"{path}.{name}")


@pytest.mark.parametrize(("kind", "part", "struct"), PAIRS)
def test_schema_and_struct_have_the_same_fields(kind: str, part: str, struct: type[msgspec.Struct]) -> None:
    assert sorted(differences(schema(kind, part), inspect.type_info(struct), f"{kind}.{part}")) == []
