"""All keys that the configuration file may have, from the structs that read it."""

import inspect as python_inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml
from msgspec import NODEFAULT, Struct, inspect

from phalanx.cli.config_file.docstrings import field_docs
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.registry import plugin_class


class Key(Struct, frozen=True):
    """A key, a section, or a plugin."""

    path: str
    """Its place in the file: `[]` is each entry of a list, `[drf]` the entry of a plugin."""
    type: str
    default: str | None
    """As in YAML; None for a required key, and where there is none."""
    is_required: bool
    meaning: str


def all_keys(plugins: Iterable[str]) -> Iterator[Key]:
    """All keys in the order of the structs, then these plugins with their arguments. Raises ConfigError."""
    yield from _keys_of(SchedulerConfig, "")
    for name in plugins:
        yield from _plugin(name)


def _plugin(name: str) -> Iterator[Key]:
    found = plugin_class(name)
    path = f"plugins[{name}]"
    meaning = python_inspect.cleandoc(sys.modules[found.__module__].__doc__ or found.__doc__ or "")
    yield Key(path=path, type="plugin", default=None, is_required=False, meaning=meaning)
    if found.Arguments is not None:
        yield from _keys_of(found.Arguments, f"{path}.arguments.")


def _keys_of(struct: type[Struct], path: str) -> Iterator[Key]:
    info, docs = inspect.type_info(struct), field_docs(struct)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        key, is_section = path + field.encode_name, isinstance(field.type, inspect.StructType)
        yield Key(
            path=key,
            type="section" if is_section else _type(field.type),
            default=None if is_section else _default(field),
            is_required=field.required,
            meaning=docs.get(field.name) or _struct_doc(field.type),
        )
        for below, inner in structs_in(field.type):
            yield from _keys_of(inner, key + below)


def _struct_doc(kind: inspect.Type) -> str:
    return " ".join((kind.cls.__doc__ or "").split()) if isinstance(kind, inspect.StructType) else ""


def structs_in(kind: inspect.Type) -> Iterator[tuple[str, type[Struct]]]:
    """The structs in a type, each with what stands between their keys and the key of the type."""
    match kind:
        case inspect.StructType(cls=struct):
            yield ".", struct
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            for below, struct in structs_in(item):
                yield f"[]{below}", struct
        case inspect.UnionType(types=types):
            for each in types:
                yield from structs_in(each)


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType(ge=int() as least, le=int() as most):
            return f"integer, {least:,} to {most:,}"
        case inspect.EnumType(cls=enum):
            return f"one of {_choices(each.value for each in enum)}"
        case inspect.LiteralType(values=values):
            return f"one of {_choices(values)}"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"list of {_plural(item)}"
        case inspect.DictType(value_type=inspect.AnyType()):
            return "map"
        case inspect.DictType(key_type=key, value_type=value):
            return f"map of {_plural(key)} to {_plural(value)}"
        case inspect.UnionType(types=types):
            return " or ".join(_type(each) for each in types)
    return _NAMES.get(type(kind), type(kind).__name__.removesuffix("Type").lower())


_NAMES = {
    inspect.BoolType: "boolean",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "string",
    inspect.StructType: "object",
    inspect.NoneType: "null",
}


def _plural(kind: inspect.Type) -> str:
    text = _type(kind)
    return text.removeprefix("one of ") if text.startswith("one of ") else f"{text}s"


def _choices(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def _default(field: inspect.Field) -> str | None:
    if field.required:
        return None
    value = field.default if field.default is not NODEFAULT else field.default_factory()
    written = yaml.safe_dump(msgspec.to_builtins(value), default_flow_style=True, width=sys.maxsize)
    return written.partition("\n")[0]
