"""Label and field selectors: parsed from a query, matched against objects."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from phalanx_simulator.embedded.apiserver.errors import bad_request
from phalanx_simulator.embedded.apiserver.events import stored_field
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.store import Object

Match = Callable[[Object], bool]

_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        "spec.nodeName",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "jobs.batch": ("status.successful",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.events.k8s.io": (
        "regarding.kind",
        "regarding.name",
        "regarding.namespace",
        "regarding.uid",
        "reason",
        "reportingController",
        "type",
    ),
}
_PATHS: Final = {"source": "source.component"}
"""Paths of fields whose selector has another name."""

_ITEM: Final = re.compile(
    r"\s*(!?)\s*([^\s=!,()]+)\s*(?:(==|=|!=|\bnotin\b|\bin\b)\s*(\([^)]*\)|[^,]*))?\s*(?:,|$)"
)


def everything(_: Object) -> bool:
    """Match every object."""
    return True


def selector(kind: ResourceType, labels: str, fields: str) -> Match:
    """Label and field selector of a request as one predicate.

    Raises ApiError 400.
    """
    matches = [*_label_matches(labels), *_field_matches(kind, fields)]
    if not matches:
        return everything
    return lambda item: all(match(item) for match in matches)


def label_selector(wanted: Object | None) -> Match:
    """A LabelSelector as a predicate: empty matches everything, None matches nothing."""
    if wanted is None:
        return lambda _: False
    matches = [_equal(key, value) for key, value in (wanted.get("matchLabels") or {}).items()]
    matches += [_expression(term) for term in wanted.get("matchExpressions") or []]
    return lambda item: all(match(item) for match in matches)


def _equal(key: str, value: str) -> Match:
    return lambda item: _labels(item).get(key) == value


def _expression(expression: Object) -> Match:
    key, values = expression["key"], expression.get("values") or []
    matches: dict[str, Match] = {
        "In": lambda item: _labels(item).get(key) in values,
        "NotIn": lambda item: _labels(item).get(key) not in values,
        "Exists": lambda item: key in _labels(item),
        "DoesNotExist": lambda item: key not in _labels(item),
    }
    return matches[expression["operator"]]


def _label_matches(text: str) -> list[Match]:
    matches: list[Match] = []
    position = 0
    while position < len(text):
        found = _ITEM.match(text, position)
        if found is None or found.end() == position:
            raise bad_request(f"unable to parse requirement: {text!r}")
        matches.append(_label_match(*found.group(1, 2, 3, 4)))
        position = found.end()
    return matches


def _label_match(absent: str, key: str, operator: str | None, operand: str | None) -> Match:
    if operator is None:
        return lambda item: (key in _labels(item)) != bool(absent)
    operand = (operand or "").strip()
    if operator in ("in", "notin") and not operand.startswith("("):
        raise bad_request(f"unable to parse requirement: found {operand!r}, expected: '('")
    values = {value.strip() for value in operand.strip("()").split(",")}
    if operator in ("=", "==", "in"):
        return lambda item: _labels(item).get(key) in values
    return lambda item: _labels(item).get(key) not in values


def _labels(item: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels


def _field_matches(kind: ResourceType, text: str) -> list[Match]:
    return [_field_match(kind, item) for item in text.split(",") if item.strip()]


def _field_match(kind: ResourceType, item: str) -> Match:
    found = re.fullmatch(r"\s*([^=!]+?)(==|=|!=)(.*)", item)
    if found is None:
        raise bad_request(f"invalid selector: '{item}'; can't understand '{item}'")
    field, operator, value = found.groups()
    if field not in _METADATA_FIELDS and field not in _FIELDS.get(kind.subject.qualified, ()):
        raise bad_request(f"field label not supported: {field}")
    first, *rest = _PATHS.get(field, field).split(".")
    parts = [stored_field(kind, first), *rest]
    wanted = value.strip()
    return lambda data: (_text_at(data, parts) == wanted) == (operator != "!=")


def _text_at(data: Any, parts: list[str]) -> str:
    for part in parts:
        data = data.get(part) if isinstance(data, dict) else None
    if isinstance(data, bool):
        return "true" if data else "false"
    return "" if data is None else str(data)
