"""Admission: checks and defaults of new objects, and the schemas of custom resources."""

from typing import Any, Final

from phalanx_simulator.embedded.apiserver.errors import Subject, forbidden, not_found
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.store import Key, Object, Store

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


_NAMESPACE: Final = Subject("namespaces", "Namespace")
_PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_EVICTION_DELAY_S: Final = 300
_NOT_READY_TAINT: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def admit_create(kind: ResourceType, namespace: str, new: Object, store: Store) -> None:
    """Complete a new object in place. Raises ApiError where it may not exist."""
    if kind.namespaced:
        _require_namespace(kind, namespace, new, store)
    if kind.resource == "pods":
        _set_priority(kind, new, store)
        _tolerate_short_absence(new["spec"])
    elif kind.resource == "nodes":
        _taint_until_ready(new)


def _require_namespace(kind: ResourceType, namespace: str, new: Object, store: Store) -> None:
    entry = store.get(Key("namespaces", "", namespace))
    if entry is None:
        raise not_found(_NAMESPACE, namespace)
    if is_deleting(entry.data):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(kind.subject, new["metadata"].get("name", ""), why)


def _set_priority(kind: ResourceType, pod: Object, store: Store) -> None:
    spec, name = pod.setdefault("spec", {}), pod["metadata"].get("name", "")
    priority, class_name, policy = 0, spec.get("priorityClassName", ""), "PreemptLowerPriority"
    found = _priority_class(class_name, store)
    if found is None and class_name:
        raise forbidden(kind.subject, name, f"no PriorityClass with name {class_name} was found")
    if found is not None:
        priority, class_name = found["value"], found["metadata"]["name"]
        policy = found.get("preemptionPolicy", policy)
    if spec.get("priority") not in (None, priority):
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(kind.subject, name, why)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", policy)
    if class_name:
        spec["priorityClassName"] = class_name


def _priority_class(name: str, store: Store) -> Object | None:
    if name:
        entry = store.get(Key(_PRIORITY_CLASSES, "", name))
        return None if entry is None else entry.data
    defaults = [entry.data for entry in store.entries(_PRIORITY_CLASSES) if entry.data.get("globalDefault")]
    return min(defaults, key=lambda item: int(item["value"])) if defaults else None


def _tolerate_short_absence(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates_eviction(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_DELAY_S,
                }
            )
    spec["tolerations"] = tolerations


def _tolerates_eviction(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _taint_until_ready(node: Object) -> None:
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if not any(taint.get("key") == _NOT_READY_TAINT["key"] for taint in taints):
        taints.append(dict(_NOT_READY_TAINT))
