"""Defaulting and pruning by a CustomResourceDefinition's structural schema.

Fields that the schema does not name are dropped, absent ones with a default are filled in. Nothing is
validated.
"""

from typing import Any

from phalanx_simulator.embedded.store import Object

_ALWAYS_KEPT = ("apiVersion", "kind", "metadata")


def conformed(schema: Object, item: Object) -> Object:
    """The object as the schema lets it be stored; nothing given is changed."""
    if not schema:
        return item
    kept = {name: item[name] for name in _ALWAYS_KEPT if name in item}
    properties = {k: v for k, v in schema.get("properties", {}).items() if k not in _ALWAYS_KEPT}
    return {**kept, **_object({**schema, "properties": properties}, item)}


def _value(schema: Object, value: Any) -> Any:
    if isinstance(value, dict):
        return _object(schema, value)
    if isinstance(value, list) and "items" in schema:
        return [_value(schema["items"], item) for item in value]
    return value


def _object(schema: Object, value: Object) -> Object:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    extra = schema.get("additionalProperties")
    if extra is not None:
        return {
            name: _value(extra, item) if isinstance(extra, dict) else item for name, item in value.items()
        }
    properties = schema.get("properties", {})
    known = {name: _value(properties[name], item) for name, item in value.items() if name in properties}
    for name, property_ in properties.items():
        if name not in known and "default" in property_:
            known[name] = _value(property_, property_["default"])
    return known
