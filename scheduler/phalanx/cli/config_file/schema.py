"""The JSON schema of the configuration file, with which editors complete, explain and check its keys."""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from phalanx.cli.config_file.docstrings import field_docs
from phalanx.cli.config_file.keys import structs_in
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.registry import plugin_class

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Final = "#/$defs/{name}"


def schema(plugins: Iterable[str]) -> dict[str, Any]:
    """The schema with the arguments of these plugins. Other plugins are allowed, with any arguments."""
    names = list(plugins)
    arguments = {name: found for name in names if (found := plugin_class(name).Arguments) is not None}
    structs = list(_structs([SchedulerConfig, *arguments.values()]))
    _, definitions = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    for struct in structs:
        _describe(definitions[struct.__name__], struct)
    entry = definitions["PluginConfig"]
    entry["properties"]["name"] = {
        **entry["properties"]["name"],
        "anyOf": [{"enum": names}, {"type": "string"}],
    }
    entry["allOf"] = [_rule(name, arguments.get(name)) for name in names]
    return {
        "$schema": _DRAFT,
        "title": "Configuration of the Phalanx scheduler",
        "anyOf": [{"$ref": "#/$defs/SchedulerConfig"}, {"type": "null"}],
        "$defs": definitions,
    }


def _rule(name: str, arguments: type[Struct] | None) -> dict[str, Any]:
    """The arguments of the plugin with this name."""
    allowed: dict[str, Any] = (
        {"type": "object", "maxProperties": 0}
        if arguments is None
        else {"$ref": _REFERENCE.format(name=arguments.__name__)}
    )
    return {
        "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
        "then": {"properties": {"arguments": allowed}},
    }


def _describe(definition: dict[str, Any], struct: type[Struct]) -> None:
    """Whether msgspec removes the indentation of a docstring depends on its version."""
    if "description" in definition:
        definition["description"] = cleandoc(definition["description"])
    docs = field_docs(struct)
    for field in msgspec.structs.fields(struct):
        if field.name in docs:
            definition["properties"][field.encode_name]["description"] = docs[field.name]


def _structs(found: Iterable[type[Struct]]) -> Iterator[type[Struct]]:
    """These structs and those of their fields, each once."""
    seen: set[type[Struct]] = set()
    waiting = list(found)
    while waiting:
        struct = waiting.pop(0)
        if struct in seen:
            continue
        seen.add(struct)
        yield struct
        info = inspect.type_info(struct)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            waiting += [inner for _, inner in structs_in(field.type)]
