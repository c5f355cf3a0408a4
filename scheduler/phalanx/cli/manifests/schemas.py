"""The JSON schema of each kind: from `crds/` for Phalanx's kinds, from the API structs for the others.

The structs hold only the fields that are used here, so their schemas are open: other fields are allowed. What
a struct cannot express, such as the values of an operator, is added from `kubernetes.schema.yaml`.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from phalanx.framework.strict_yaml import FAST_LOADER
from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.names import API_VERSION
from phalanx.resources import data_dir

OPEN: Final = "x-kubernetes-preserve-unknown-fields"
QUANTITY: Final = "x-kubernetes-int-or-string"

JsonSchema = dict[str, Any]
Definitions = Mapping[str, JsonSchema]


@cache
def schema_of(kind: Kind) -> JsonSchema:
    """Return the schema of a kind, without references; metadata has the same schema everywhere."""
    if kind.api_version != API_VERSION:
        return _derived(kind.struct)
    text = (data_dir("crds") / f"{kind.plural}.yaml").read_text()
    declared = yaml.load(text, Loader=FAST_LOADER)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    metadata = {"required": ["metadata"], "properties": {"metadata": _derived(ObjectMeta)}}
    schema: JsonSchema = _plain(_merged(declared, metadata), {})
    return schema


def _derived(struct: type[Struct]) -> JsonSchema:
    (root,), definitions = msgspec.json.schema_components([struct], ref_template="{name}")
    details = _details()
    merged = {
        name: _merged({OPEN: True, **definition}, details.get(name, {}))
        for name, definition in definitions.items()
    }
    schema: JsonSchema = _plain(root, merged)
    return schema


@cache
def _details() -> Definitions:
    text = files(__package__).joinpath("kubernetes.schema.yaml").read_text()
    definitions: Definitions = yaml.load(text, Loader=FAST_LOADER)["definitions"]
    return definitions


def _merged(schema: JsonSchema, more: JsonSchema) -> JsonSchema:
    """Both schemas in one; `more` counts where both say something else, and lists of names are joined."""
    merged = dict(schema)
    for key, value in more.items():
        before = schema.get(key)
        if isinstance(before, dict):
            value = _merged(before, value)
        elif key == "required" and before:
            value = [*before, *value]
        merged[key] = value
    return merged


def _plain(value: Any, definitions: Definitions) -> Any:
    """The schema with references resolved, and without null, because documents have no null fields."""
    if isinstance(value, list):
        return [_plain(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    alternatives = [option for option in value.get("anyOf", ()) if option.get("type") != "null"]
    rest = {key: item for key, item in value.items() if key not in ("$ref", "anyOf", QUANTITY)}
    if "$ref" in value:
        return _plain(_merged(definitions[value["$ref"]], rest), definitions)
    if len(alternatives) == 1:
        return _plain(_merged(alternatives[0], rest), definitions)
    plain = {key: _plain(item, definitions) for key, item in rest.items()}
    if QUANTITY in value or any(option.get("type") == "number" for option in alternatives):
        return {QUANTITY: [option["type"] for option in alternatives], **plain}
    return {"anyOf": _plain(alternatives, definitions), **plain} if alternatives else plain
