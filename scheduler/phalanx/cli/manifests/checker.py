"""Find every error of a document against the schema of its kind, by jsonschema.

What Kubernetes has beyond JSON schema is here: quantities, formats, misspelt fields, keys of lists, and rules
in CEL.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import jsonschema
from jsonschema import ValidationError
from jsonschema.validators import create, extend

from phalanx.cli.manifests.findings import Finding, inside, shown
from phalanx.cli.manifests.formats import FORMATS
from phalanx.cli.manifests.schemas import OPEN, QUANTITY, JsonSchema, schema_of
from phalanx.model.api.kind import Kind
from phalanx.model.names import API_VERSION
from phalanx.model.resources import CPU, InvalidQuantity, request_amount
from phalanx.model.supplies.devices.expressions import Rules

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
_LIMITS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
}
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_RULES: Final = "x-kubernetes-validations"
_UNKNOWN: Final = "a field that does not exist"
_SIMILAR: Final = 0.6
_ALMOST_EQUAL: Final = 0.88
"""Similarity above that of any two fields of Kubernetes' kinds: "nodeSelektor" must be a misspelling."""


def check(document: Any, kind: Kind) -> list[Finding]:
    """Return the first finding about each field; those of rules only if there are no others."""
    fields, rules = _validators(kind)
    found: dict[str, Finding] = {}
    for error in fields.iter_errors(document):
        finding = _finding(error)
        found.setdefault(finding.path, finding)
    if found or kind.api_version != API_VERSION:
        return list(found.values())
    return [_finding(error) for error in rules.iter_errors(document)]


@cache
def _validators(kind: Kind) -> tuple[Any, Any]:
    schema = schema_of(kind)
    return _Fields(schema), _Rules(schema)


class _Wrong(Exception):
    """The text of a finding, where the schema does not say it."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)


def _error(expected: str, found: str, path: Iterable[str | int] = ()) -> ValidationError:
    return ValidationError(expected, path=path, cause=_Wrong(expected, found))


def _finding(error: ValidationError) -> Finding:
    path = ""
    for part in error.absolute_path:
        path = f"{path}[{part}]" if isinstance(part, int) else inside(path, part)
    if isinstance(error.cause, _Wrong):
        return Finding(path or "metadata", *error.cause.args)
    value = error.instance
    is_size = error.validator in _LIMITS and isinstance(value, list | dict)
    return Finding(path, _expected(error), f"{len(value)}" if is_size else shown(value))


def _expected(error: ValidationError) -> str:
    """What the schema says, in words."""
    wanted = error.validator_value
    if "errorMessage" in error.schema:
        return str(error.schema["errorMessage"])
    if error.validator in _LIMITS:
        return _LIMITS[error.validator].format(wanted)
    if error.validator == "type":
        return " or ".join(_TYPE_NAMES[name] for name in ([wanted] if isinstance(wanted, str) else wanted))
    if error.validator == "enum":
        choices = [choice for choice in wanted if choice]
        return f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    if error.validator == "pattern":
        return _PATTERNS.get(wanted, f"text that matches {wanted}")
    return FORMATS[wanted].expected if error.validator == "format" else f"a valid value ({error.message})"


# --- keywords -----------------------------------------------------------------------------------------------


def _properties(validator: Any, properties: JsonSchema, value: Any, schema: JsonSchema) -> Iterator[Any]:
    """The fields in the order of the document, also those that the schema does not have."""
    for key, item in value.items() if isinstance(value, dict) else ():
        if key in properties:
            yield from _field(validator, properties[key], item, key)
        elif schema.get("type") == "object" and "additionalProperties" not in schema:
            is_open = schema.get(OPEN)
            similar = _similar_field(key, tuple(properties), _ALMOST_EQUAL if is_open else _SIMILAR)
            if similar or not is_open:
                yield _error(similar or f"one of {', '.join(properties)}", _UNKNOWN, [key])


def _entries(validator: Any, schema: JsonSchema, value: Any, _: JsonSchema) -> Iterator[Any]:
    """The values of a map with any keys."""
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from _field(validator, schema, item, key)


def _field(validator: Any, schema: JsonSchema, value: Any, key: str) -> Iterator[Any]:
    """Like the library, which makes a validator for each field, but quickly where there is only a type."""
    if not schema.keys() <= _TYPE_AND_DEFAULT or not validator.is_type(value, schema.get("type", "object")):
        yield from validator.descend(value, schema, path=key)


_TYPE_AND_DEFAULT: Final = frozenset({"type", "default"})


@cache
def _similar_field(key: str, known: Sequence[str], cutoff: float) -> str:
    """Return the known field that is similar to a misspelt `key`; empty when there is none."""
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[close[0]] if close else ""


def _required(_: Any, names: Sequence[str], value: Any, schema: JsonSchema) -> Iterator[Any]:
    for name in names if isinstance(value, dict) else ():
        if name not in value:
            type_ = schema.get("properties", {}).get(name, {}).get("type")
            yield _error(_TYPE_NAMES.get(type_, "a value"), "nothing", [name])


def _format(_: Any, name: str, value: Any, __: JsonSchema) -> Iterator[Any]:
    if name in FORMATS and isinstance(value, str) and not FORMATS[name].holds(value):
        yield ValidationError(name)


def _quantity(validator: Any, types: Sequence[str], value: Any, _: JsonSchema) -> Iterator[Any]:
    """Phalanx's kinds accept whole numbers and text, Kubernetes' kinds any number."""
    try:
        if not any(validator.is_type(value, name) for name in types):
            raise InvalidQuantity(value)
        request_amount(CPU, value)
    except InvalidQuantity as wrong:
        yield _error(wrong.expected, shown(value))


def _different(_: Any, keys: Sequence[str], value: Any, __: JsonSchema) -> Iterator[Any]:
    seen: set[tuple[str, ...]] = set()
    for position, item in enumerate(value if isinstance(value, list) else ()):
        identity = tuple(str(item.get(key)) for key in keys) if isinstance(item, dict) else ()
        if identity and identity in seen:
            expected = f"another {' or '.join(keys)} in each entry"
            yield _error(expected, f"{shown(item.get(keys[0]))} again", [position, keys[0]])
        seen.add(identity)


def _holds(_: Any, rules: Sequence[JsonSchema], value: Any, __: JsonSchema) -> Iterator[Any]:
    for rule in rules:
        if not _rule_evaluator().holds(rule["rule"], value):
            path = [part for part in rule.get("fieldPath", "").split(".") if part]
            at = value
            for part in path:
                at = at.get(part)
            yield _error(
                f"that {rule['message']}", "otherwise" if isinstance(at, dict | list) else shown(at), path
            )


@cache
def _rule_evaluator() -> Rules:
    return Rules()


_LIBRARY: Final = jsonschema.Draft202012Validator
_Fields: Final = extend(
    _LIBRARY,
    {
        "properties": _properties,
        "additionalProperties": _entries,
        "required": _required,
        "format": _format,
        QUANTITY: _quantity,
        _LIST_KEYS: _different,
    },
    type_checker=_LIBRARY.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)
_Rules: Final = create(
    meta_schema={},
    validators={
        **{name: _LIBRARY.VALIDATORS[name] for name in ("properties", "items", "additionalProperties")},
        _RULES: _holds,
    },
)
