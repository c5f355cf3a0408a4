"""Temporary changes of labels and specs.

The original values are noted in an annotation of the object.

One such change at a time: an object that carries a note is left alone, so that faults that overlap do not
restore one another's lies. An object that is made anew is made from its true state.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import edit, same, uid_of, with_metadata, with_spec
from phalanx_simulator.faults.fault import FaultContext, Undo, nothing

NOTE: Final = "sim.phalanx.dev/before-the-fault"
"""Annotation: the part that was changed and what it held, as JSON; null for what was not there."""

_LABELS: Final = "labels"
_SPEC: Final = "spec"
_KEPT: Final = ("labels", "name", "namespace")


def relabel(context: FaultContext, key: Key, labels: Mapping[str, str | None]) -> Undo:
    """Set labels, or remove them for None, until undone."""
    return _borrow(context, key, _LABELS, labels)


def respec(context: FaultContext, key: Key, fields: Mapping[str, Any]) -> Undo:
    """Set fields of the spec, or remove them for None, until undone."""
    return _borrow(context, key, _SPEC, fields)


def _borrow(context: FaultContext, key: Key, part: str, changes: Mapping[str, Any]) -> Undo:
    found = context.client.get(key)
    if found is None or _note_of(found):
        return nothing
    old = _part_of(found, part)
    before = {name: old.get(name) for name in changes}
    note = msgspec.json.encode({part: before}).decode()
    edit(context.client, key, lambda item: _changed(item, part, changes, note))

    def restore() -> None:
        if same(context.client, key, uid_of(found)) is not None:
            edit(context.client, key, lambda item: _changed(item, part, before, None))

    return restore


def _changed(item: Object, part: str, changes: Mapping[str, Any], note: str | None) -> Object:
    changed = with_metadata(item, _LABELS, **changes) if part == _LABELS else with_spec(item, **changes)
    return with_metadata(changed, "annotations", **{NOTE: note})


def _part_of(item: Object, part: str) -> Object:
    found: Object | None = item["metadata"].get(_LABELS) if part == _LABELS else item.get(_SPEC)
    return found or {}


def _note_of(item: Object) -> dict[str, dict[str, Any]]:
    written = (item["metadata"].get("annotations") or {}).get(NOTE)
    note: dict[str, dict[str, Any]] = {} if written is None else msgspec.json.decode(written)
    return note


def true_part(item: Object, part: str) -> Object:
    """The labels or the spec without the changes of a fault."""
    merged = {**_part_of(item, part), **_note_of(item).get(part, {})}
    return {name: value for name, value in merged.items() if value is not None}


def true_labels(item: Object) -> Object:
    """The labels without the changes of a fault."""
    return true_part(item, _LABELS)


def anew(item: Object) -> Object:
    """A manifest that recreates the object."""
    metadata = {name: value for name, value in item["metadata"].items() if name in _KEPT}
    metadata["labels"] = true_labels(item)
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": metadata,
        "spec": true_part(item, _SPEC),
    }
