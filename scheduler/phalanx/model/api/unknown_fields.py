"""Names of fields that an object has in the API, but its struct lacks.

Decoders skip such fields. A later release of Kubernetes may add fields that change the meaning of an object.
So the kinds of dialects are compared with what was written.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct, inspect, structs

from phalanx.limits import GANG_PROBLEMS_MAX

S = TypeVar("S", bound=Struct)


def names_unknown_fields(struct: type[Struct]) -> bool:
    """Whether objects of this kind hold the paths of their unknown fields."""
    return "unknown_fields" in struct.__struct_fields__


def with_unknown_fields(decoded: S, spec: object) -> S:
    """The object with the paths of the fields of this written spec that its struct lacks, the first few."""
    known = _fields(type(decoded))["spec"].type
    found = tuple(islice(_unknown(spec, known, "spec"), GANG_PROBLEMS_MAX))
    return structs.replace(decoded, unknown_fields=found) if found else decoded


def _unknown(written: object, known: inspect.Type, path: str) -> Iterator[str]:
    """Its depth is that of the structs. A field that is null is absent."""
    if isinstance(known, inspect.UnionType):
        known = next((each for each in known.types if isinstance(each, inspect.StructType)), known)
    if isinstance(known, inspect.StructType) and isinstance(written, dict):
        fields = _fields(known.cls)
        for name, value in written.items():
            if name in fields:
                yield from _unknown(value, fields[name].type, f"{path}.{name}")
            elif value is not None:
                yield f"{path}.{name}"
    elif isinstance(known, inspect.VarTupleType) and isinstance(written, list):
        for index, value in enumerate(written):
            yield from _unknown(value, known.item_type, f"{path}[{index}]")


@cache
def _fields(struct: Any) -> dict[str, inspect.Field]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field for field in info.fields}
