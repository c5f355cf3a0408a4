"""Find every error of a document against its schema: the part of OpenAPI that structural schemas use."""

import difflib
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from phalanx.cli.manifests.crd_rules import RULES as RULES_BY_MESSAGE
from phalanx.cli.manifests.findings import Finding, inside, shown
from phalanx.cli.manifests.schemas import OPEN, QUANTITY, RULES, Schema
from phalanx.model.api.values import parse_time
from phalanx.model.resources import CPU, InvalidQuantity, request_amount

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_TYPE_NAMES: Final = {
    "object": "a map",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_PATTERNS: Final = {
    "^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$": "a duration such as 1h30m",
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$": (
        "a label key such as topology.kubernetes.io/zone"
    ),
    "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$": "a label value of letters, digits, -, _ and .",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "a name of lower-case letters, digits and -",
    "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": "a name of lower-case letters, digits, - and .",
}
_UNKNOWN: Final = "a field that does not exist"
_SIMILAR: Final = 0.6
_ALMOST_EQUAL: Final = 0.88
"""Similarity above that of any two fields of Kubernetes' kinds: "nodeSelektor" must be a misspelling."""


def check(value: Any, schema: Schema) -> list[Finding]:
    """Return all findings in the order of the document."""
    return list(_Checker(schema).check(value, schema.root, ""))


class _Checker:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._by_type: dict[str, Callable[[Any, dict[str, Any], str], Iterator[Finding]]] = {
            "object": self._object,
            "array": self._array,
            "string": _text,
            "integer": _number,
        }

    def check(self, value: Any, schema: dict[str, Any], path: str) -> Iterator[Finding]:
        schema = self._schema.resolve(schema)
        if schema.get(QUANTITY):
            yield from _quantity(value, schema, path)
            return
        type_ = schema.get("type", "")
        if type_ in _TYPES and not _is_a(value, type_):
            yield Finding(path, _TYPE_NAMES[type_], shown(value))
            return
        if "enum" in schema and value not in schema["enum"]:
            choices = ", ".join(choice for choice in schema["enum"] if choice)
            yield Finding(path, f"one of {choices}", shown(value))
            return
        if type_ in self._by_type:
            yield from self._by_type[type_](value, schema, path)

    def _object(self, value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[Finding]:
        found = [
            *self._missing(value, schema, path),
            *(finding for key in value for finding in self._field(key, value[key], schema, path)),
        ]
        low, high = schema.get("minProperties", 0), schema.get("maxProperties", len(value))
        if not low <= len(value) <= high:
            found.append(Finding(path, f"{low} to {high} entries", f"{len(value)}"))
        yield from found or _violated_rules(value, schema, path)

    def _missing(self, value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[Finding]:
        for name in schema.get("required", ()):
            if name not in value:
                wanted = self._schema.resolve(schema.get("properties", {}).get(name, {}))
                yield Finding(
                    inside(path, name), _TYPE_NAMES.get(wanted.get("type", ""), "a value"), "nothing"
                )

    def _field(self, key: str, value: Any, schema: dict[str, Any], path: str) -> Iterator[Finding]:
        properties = schema.get("properties", {})
        field_schema = properties.get(key, schema.get("additionalProperties"))
        cutoff = _ALMOST_EQUAL if schema.get(OPEN) else _SIMILAR
        if isinstance(field_schema, dict):
            yield from self.check(value, field_schema, inside(path, key))
        elif similar := _similar_field(key, tuple(properties), cutoff):
            yield Finding(inside(path, key), similar, _UNKNOWN)
        elif not schema.get(OPEN):
            yield Finding(inside(path, key), f"one of {', '.join(properties)}", _UNKNOWN)

    def _array(self, value: list[Any], schema: dict[str, Any], path: str) -> Iterator[Finding]:
        low, high = schema.get("minItems", 0), schema.get("maxItems", len(value))
        if not low <= len(value) <= high:
            yield Finding(path, f"{low} to {high} entries", f"{len(value)}")
        items = schema.get("items", {})
        found = [
            finding
            for position, item in enumerate(value)
            for finding in self.check(item, items, f"{path}[{position}]")
        ]
        yield from found or [*_repeated(value, schema, path), *_violated_rules(value, schema, path)]


def _is_a(value: Any, type_: str) -> bool:
    """Whether the value has the type; in Python, and only there, a boolean is an integer."""
    return isinstance(value, _TYPES[type_]) and (type_ == "boolean" or not isinstance(value, bool))


@cache
def _similar_field(key: str, known: tuple[str, ...], cutoff: float) -> str:
    """Return the known field that is similar to a misspelt `key`; empty when there is none."""
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[close[0]] if close else ""


def _repeated(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[Finding]:
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: set[tuple[Any, ...]] = set()
    for position, item in enumerate(value):
        identity = tuple(item.get(key) for key in keys)
        if keys and identity in seen:
            yield Finding(
                inside(f"{path}[{position}]", keys[0]),
                f"another {' or '.join(keys)} in each entry",
                f"{shown(identity[0])} again",
            )
        seen.add(identity)


def _violated_rules(value: Any, schema: dict[str, Any], path: str) -> Iterator[Finding]:
    """Yield the violated rules of a value whose fields are all valid."""
    for rule in schema.get(RULES, ()):
        if not RULES_BY_MESSAGE[rule["message"]](value):
            field = rule.get("fieldPath", "")
            yield Finding(
                f"{path}{field}".lstrip(".") or "metadata", f"that {rule['message']}", _at(value, field)
            )


def _at(value: Any, field: str) -> str:
    """Format the value of the field of a rule, unless it is a list or a map."""
    for part in filter(None, field.split(".")):
        value = value.get(part)
    return "otherwise" if isinstance(value, dict | list) else shown(value)


def _text(value: str, schema: dict[str, Any], path: str) -> Iterator[Finding]:
    if schema.get("format") == "date-time" and parse_time(value) is None:
        yield Finding(path, "a time such as 2026-12-24T18:00:00Z", shown(value))
    elif len(value) < schema.get("minLength", 0):
        yield Finding(path, f"at least {schema['minLength']} characters", shown(value))
    elif len(value) > schema.get("maxLength", len(value)):
        yield Finding(path, f"at most {schema['maxLength']} characters", f"{len(value)}")
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield Finding(
            path, _PATTERNS.get(schema["pattern"], f"text that matches {schema['pattern']}"), shown(value)
        )


def _number(value: int, schema: dict[str, Any], path: str) -> Iterator[Finding]:
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    if value < low:
        yield Finding(path, f"at least {low}", shown(value))
    elif value > high:
        yield Finding(path, f"at most {high}", shown(value))


def _quantity(value: Any, schema: dict[str, Any], path: str) -> Iterator[Finding]:
    """Check a quantity; Phalanx's kinds accept whole numbers and text, Kubernetes' kinds any number."""
    fraction_allowed = {"type": "number"} in schema["anyOf"]
    try:
        if isinstance(value, dict | list | bool) or (isinstance(value, float) and not fraction_allowed):
            raise InvalidQuantity(value)
        request_amount(CPU, value)
    except InvalidQuantity as wrong:
        yield Finding(path, wrong.expected, shown(value))
