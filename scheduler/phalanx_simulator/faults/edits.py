"""Helpers with which faults read, change, create and delete objects.

An object may be missing or recreated at the time of the change."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from phalanx.model.names import API_GROUP, DEFAULT_SCHEDULER_NAME, LABEL_POD_GROUP
from phalanx.model.resources import GPU

from phalanx_simulator.embedded.apiserver.errors import ApiError
from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.pod_requests import allocatable_of, requests_of
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.fault import Fault, FaultContext, Undo, nothing

POD_GROUPS: Final = f"podgroups.{API_GROUP}"
QUEUES: Final = f"queues.{API_GROUP}"
PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_FINISHED: Final = ("Succeeded", "Failed")


def node_key(name: str) -> Key:
    """The key of a node."""
    return Key("nodes", "", name)


def key_of(resource: str, target: str) -> Key:
    """The key of a target: namespace/name, or a name for cluster scope."""
    namespace, _, name = target.rpartition("/")
    return Key(resource, namespace, name)


def uid_of(item: Object) -> str:
    """The UID of an object."""
    uid: str = item["metadata"]["uid"]
    return uid


def same(client: Client, key: Key, uid: str) -> Object | None:
    """The object, if it still exists with this UID."""
    found = client.get(key)
    return found if found is not None and uid_of(found) == uid else None


def edit(client: Client, key: Key, change: Callable[[Object], Object]) -> None:
    """Change the object; a missing object or a refused write is ignored."""
    with suppress(ApiError):
        client.update(key, change)


def create(client: Client, resource: str, namespace: str, new: Object) -> Key | None:
    """Create an object; None where the server refuses it."""
    try:
        made = client.create(resource, namespace, new)
    except ApiError:
        return None
    return Key(resource, namespace, made["metadata"]["name"])


def delete(client: Client, key: Key, *, grace_s: int | None = None) -> None:
    """Delete the object that has this name now."""
    found = client.get(key)
    if found is not None:
        with suppress(ApiError):
            client.delete(key, uid=uid_of(found), grace_s=grace_s)


def put_condition(client: Client, node: str, *, type_: str, status: str, reason: str, message: str) -> None:
    """Set one condition of a node, with its heartbeat."""
    now = client.now()
    condition = {"type": type_, "status": status, "reason": reason, "message": message}
    client.update_status(
        node_key(node), condition={**condition, "lastHeartbeatTime": now, "lastTransitionTime": now}
    )


def condition_of(node: Object, type_: str) -> Object:
    """A condition of a node, empty where it has none of this type."""
    conditions = node.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition.get("type") == type_), {})


def with_metadata(item: Object, field: str, **changes: str | None) -> Object:
    """The object with some labels or annotations set, or removed for None."""
    old = item["metadata"].get(field) or {}
    merged = {**old, **changes}
    kept = {name: value for name, value in merged.items() if value is not None}
    return {**item, "metadata": {**item["metadata"], field: kept}}


def with_spec(item: Object, **changes: object) -> Object:
    """The object with some fields of its spec set, or removed for None."""
    merged = {**item.get("spec", {}), **changes}
    return {**item, "spec": {name: value for name, value in merged.items() if value is not None}}


def is_over(pod: Object) -> bool:
    """Whether the pod has finished."""
    return pod["status"].get("phase") in _FINISHED


def is_ours(pod: Object) -> bool:
    """Whether the pod names our scheduler."""
    return bool(pod["spec"].get("schedulerName") == DEFAULT_SCHEDULER_NAME)


def group_of(pod: Object) -> str:
    """The PodGroup of the pod; empty for none."""
    name: str = (pod["metadata"].get("labels") or {}).get(LABEL_POD_GROUP, "")
    return name


def live_pods(client: Client, *, node: str = "", bound: bool = True) -> list[Key]:
    """Our pods that have not finished and are not being deleted.

    On one node, or all bound or unbound ones.
    """
    keys = client.pods_on(node) if node else client.keys("pods")
    return [key for key in keys if _is_live(client.get(key), bound=bound)]


def _is_live(pod: Object | None, *, bound: bool) -> bool:
    if pod is None or not is_ours(pod) or is_over(pod) or is_deleting(pod):
        return False
    return bool(pod["spec"].get("nodeName")) is bound


def drawn_pods(fault: Fault, context: FaultContext, *, bound: bool = True) -> list[Key]:
    """The pods that a fault targets.

    Targets with a slash are pods; any other target is a node, of which `count` pods are drawn (default 1).
    Without targets `count` pods are drawn from all.
    """
    if not fault.targets:
        return draw(live_pods(context.client, bound=bound), fault.number("count", 1), context)
    found: list[Key] = []
    for target in fault.targets:
        if "/" in target:
            found.append(key_of("pods", target))
        else:
            found += draw(live_pods(context.client, node=target), fault.number("count", 1), context)
    return found


def draw(keys: list[Key], count: int, context: FaultContext) -> list[Key]:
    """A random sample of the objects, at most as many as there are."""
    return context.random.sample(keys, min(count, len(keys)))


def drawn_objects(fault: Fault, context: FaultContext, resource: str) -> list[Key]:
    """The objects that a fault targets: its targets, or a sample of `count` (default 1)."""
    if fault.targets:
        return [key_of(resource, target) for target in fault.targets]
    return draw(context.client.keys(resource), fault.number("count", 1), context)


def drain_one_gpu(context: FaultContext, node: str) -> None:
    """Delete one random pod with GPUs on the node, as a drain of one GPU does."""
    pods = [key for key in live_pods(context.client, node=node) if gpus_of(context, key)]
    for key in draw(pods, 1, context):
        delete(context.client, key)


def gpus_of(context: FaultContext, key: Key) -> int:
    """GPUs that a pod requests or a node offers; 0 for a missing object."""
    found = context.client.get(key)
    if found is None:
        return 0
    return (allocatable_of(found) if key.resource == "nodes" else requests_of(found)).get(GPU, 0)


NOTE: Final = "sim.phalanx.dev/before-the-fault"
"""Annotation: the changed part and its previous values, as JSON; null for a field that did not exist."""

_LABELS: Final = "labels"
_SPEC: Final = "spec"
_KEPT: Final = ("labels", "name", "namespace")


def relabel(context: FaultContext, key: Key, labels: Mapping[str, str | None]) -> Undo:
    """Set labels, or remove them for None, until undone."""
    return _change_until_undone(context, key, _LABELS, labels)


def respec(context: FaultContext, key: Key, fields: Mapping[str, Any]) -> Undo:
    """Set fields of the spec, or remove them for None, until undone."""
    return _change_until_undone(context, key, _SPEC, fields)


def _change_until_undone(context: FaultContext, key: Key, part: str, changes: Mapping[str, Any]) -> Undo:
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


def original_part(item: Object, part: str) -> Object:
    """The labels or the spec as they were before a fault changed them."""
    merged = {**_part_of(item, part), **_note_of(item).get(part, {})}
    return {name: value for name, value in merged.items() if value is not None}


def original_labels(item: Object) -> Object:
    """The labels as they were before a fault changed them."""
    return original_part(item, _LABELS)


def recreated(item: Object) -> Object:
    """A manifest that recreates the object."""
    metadata = {name: value for name, value in item["metadata"].items() if name in _KEPT}
    metadata["labels"] = original_labels(item)
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": metadata,
        "spec": original_part(item, _SPEC),
    }
