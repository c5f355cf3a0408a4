"""Events: one object, served by two groups under different field names.

They are stored in the form of events.k8s.io/v1, which has the fields of v1 that it lacks under deprecated
names.
"""

from typing import Any, Final

from phalanx_simulator.embedded.apiserver.errors import Cause
from phalanx_simulator.embedded.apiserver.kind_rules import Rules
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.apiserver.objects import Stamps
from phalanx_simulator.embedded.store import Object

_CORE_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_STORED_NAMES: Final = {core: stored for stored, core in _CORE_NAMES.items()}
_REQUIRED: Final = ("eventTime", "reportingController", "reportingInstance", "action", "reason")


def is_core_event(kind: ResourceType) -> bool:
    """Whether the resource shows its objects otherwise than they are stored."""
    return kind.kind == "Event" and not kind.group


def shown(kind: ResourceType, item: Object) -> Object:
    """A stored object in the form of the resource."""
    return _renamed(item, _CORE_NAMES) if is_core_event(kind) else item


def stored(kind: ResourceType, item: Object) -> Object:
    """An object in the form of the resource as it is stored."""
    return _renamed(item, _STORED_NAMES) if is_core_event(kind) else item


def stored_field(kind: ResourceType, field: str) -> str:
    """The stored name of a field of the resource, as selectors use it."""
    return _STORED_NAMES.get(field, field) if is_core_event(kind) else field


def _renamed(item: Object, names: dict[str, str]) -> Object:
    return {names.get(field, field): value for field, value in item.items()}


class CoreEventRules(Rules):
    """Rules of v1 events: an event lives in the namespace of its object."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        _complete(new)

    def check_create(self, new: Object) -> list[Cause]:
        namespace = new["regarding"].get("namespace", "")
        if namespace == new["metadata"]["namespace"] or (
            not namespace and new["metadata"]["namespace"] == "default"
        ):
            return []
        why = f'Invalid value: "{namespace}": does not match event.namespace'
        return [Cause("FieldValueInvalid", why, "involvedObject.namespace")]


class EventRules(CoreEventRules):
    """Rules of events.k8s.io/v1: controller, action and time are required."""

    def check_create(self, new: Object) -> list[Cause]:
        found = [
            Cause("FieldValueRequired", "Required value", name) for name in _REQUIRED if not new.get(name)
        ]
        if new.get("type") not in ("Normal", "Warning"):
            why = f'Invalid value: "{new.get("type", "")}": has invalid value: {new.get("type", "")}'
            found.append(Cause("FieldValueInvalid", why, "type"))
        return found


def _complete(new: dict[str, Any]) -> None:
    """Fields that the real server shows even when they are empty."""
    for field in ("regarding", "deprecatedSource"):
        new.setdefault(field, {})
    for field in ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
        new.setdefault(field, None)
    for field in ("reportingController", "reportingInstance"):
        new.setdefault(field, "")
