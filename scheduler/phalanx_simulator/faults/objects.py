"""F9, objects: groups, queues, priorities and labels are edited, deleted or recreated in mid-cycle.

All kinds have `bind_within_s`: they wait at most so many seconds for the next bind and act at that moment.
Targets are namespace/name (queues and priority classes: name); without targets `count` (default 1) are drawn.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.resources import GPU

from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import (
    POD_GROUPS,
    PRIORITY_CLASSES,
    QUEUES,
    create,
    delete,
    drawn_objects,
    drawn_pods,
    group_of,
    recreated,
    relabel,
    respec,
)
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, Undo, nothing
from phalanx_simulator.faults.moments import in_mid_cycle

_SYSTEM: Final = "system-"
_NAME_LABEL: Final = "kubernetes.io/metadata.name"

Edit = Callable[[Fault, FaultContext, Key], Undo]


def _editing(resource: str, change: Edit) -> Injector:
    """An injector that edits objects of the resource for its duration."""

    async def injector(fault: Fault, context: FaultContext) -> None:
        await in_mid_cycle(fault, context)
        undos = [change(fault, context, key) for key in _drawn(fault, context, resource)]
        if fault.seconds > 0:
            await context.sleep(fault.seconds)
            for undo in undos:
                undo()

    return injector


def _drawn(fault: Fault, context: FaultContext, resource: str) -> list[Key]:
    if resource == "pods":
        return drawn_pods(fault, context)
    return drawn_objects(fault, context, resource)


def _deleting(resource: str) -> Injector:
    """An injector that deletes objects and does not recreate them."""

    async def injector(fault: Fault, context: FaultContext) -> None:
        await in_mid_cycle(fault, context)
        for key in drawn_objects(fault, context, resource):
            delete(context.client, key)

    return injector


def _recreating(resource: str) -> Injector:
    """An injector that deletes objects and recreates them under the same name after its duration."""

    async def injector(fault: Fault, context: FaultContext) -> None:
        await in_mid_cycle(fault, context)
        keys = drawn_objects(fault, context, resource)
        manifests = [recreated(found) for key in keys if (found := context.client.get(key)) is not None]
        for key in keys:
            delete(context.client, key)
        await context.sleep(fault.seconds)
        for manifest in manifests:
            create(context.client, resource, manifest["metadata"].get("namespace", ""), manifest)

    return injector


def _spec(context: FaultContext, key: Key) -> Object:
    found = context.client.get(key)
    return {} if found is None else found.get("spec", {})


def _min_member(fault: Fault, context: FaultContext, key: Key) -> Undo:
    """minMember grows or shrinks, not below 1. Settings: delta (default 1)."""
    wanted = _spec(context, key).get("minMember", 1) + fault.number("delta", 1)
    return respec(context, key, {"minMember": max(1, wanted)})


def _group_queue(fault: Fault, context: FaultContext, key: Key) -> Undo:
    """Move the group to another queue.

    Settings: queue, or a random one.
    """
    now = _spec(context, key).get("queue")
    others = [other.name for other in context.client.keys(QUEUES) if other.name != now]
    return _set_drawn(context, key, "queue", fault.text("queue"), others)


def _group_priority(fault: Fault, context: FaultContext, key: Key) -> Undo:
    """Give the group another priority class.

    Settings: class, or a random one.
    """
    now = _spec(context, key).get("priorityClassName")
    known = [other.name for other in context.client.keys(PRIORITY_CLASSES)]
    others = [name for name in known if name != now and not name.startswith(_SYSTEM)]
    return _set_drawn(context, key, "priorityClassName", fault.text("class"), others)


def _set_drawn(context: FaultContext, key: Key, field: str, wanted: str, others: list[str]) -> Undo:
    if not wanted and not others:
        return nothing
    return respec(context, key, {field: wanted or context.random.choice(others)})


def _queue_limit(fault: Fault, context: FaultContext, key: Key) -> Undo:
    """Lower the queue's GPU limit below its usage.

    Settings: percent of the usage (default 50).
    """
    found = context.client.get(key)
    if found is None:
        return nothing
    used = int((found.get("status", {}).get("allocated") or {}).get(GPU, 0))
    limit = {**found["spec"].get("limit", {}), GPU: str(used * fault.number("percent", 50) // 100)}
    guarantee = {name: amount for name, amount in found["spec"].get("guarantee", {}).items() if name != GPU}
    changes: dict[str, Any] = {"limit": limit}
    if "guarantee" in found["spec"]:
        changes["guarantee"] = guarantee
    return respec(context, key, changes)


def _queue_loop(_fault: Fault, context: FaultContext, key: Key) -> Undo:
    """The queue and another one become each other's parents."""
    others = [other for other in context.client.keys(QUEUES) if other != key]
    if not others:
        return nothing
    other = context.random.choice(others)
    undos = (
        respec(context, key, {"parent": other.name}),
        respec(context, other, {"parent": key.name}),
    )

    def undo() -> None:
        for undo in undos:
            undo()

    return undo


def _namespace_labels(fault: Fault, context: FaultContext, key: Key) -> Undo:
    """Remove a namespace's labels, or set one.

    Settings: label and value.
    """
    found = context.client.get(key)
    if found is None:
        return nothing
    if fault.text("label"):
        return relabel(context, key, {fault.text("label"): fault.text("value")})
    own = found["metadata"].get("labels") or {}
    return relabel(context, key, dict.fromkeys(name for name in own if name != _NAME_LABEL))


def _pod_moved(_fault: Fault, context: FaultContext, key: Key) -> Undo:
    """A pod's label names another group of its namespace."""
    pod = context.client.get(key)
    known = [group.name for group in context.client.keys(POD_GROUPS) if group.namespace == key.namespace]
    others = [name for name in known if pod is not None and name != group_of(pod)]
    if not others:
        return nothing
    return relabel(context, key, {LABEL_POD_GROUP: context.random.choice(others)})


async def _priority_value(fault: Fault, context: FaultContext) -> None:
    """Recreate a priority class with another value for the fault's duration.

    Settings: value.
    """
    await in_mid_cycle(fault, context)
    known = [key for key in drawn_objects(fault, context, PRIORITY_CLASSES) if _SYSTEM not in key.name]
    before = {key: found for key in known if (found := context.client.get(key)) is not None}
    for key, found in before.items():
        _replace(context, key, found, fault.number("value"))
    await context.sleep(fault.seconds)
    for key, found in before.items():
        _replace(context, key, found, found["value"])


def _replace(context: FaultContext, key: Key, old: Object, value: int) -> None:
    delete(context.client, key)
    manifest = {**old, "metadata": {"name": key.name}, "value": value}
    create(context.client, PRIORITY_CLASSES, "", manifest)


INJECTORS: Final[Mapping[str, Callable[[Fault, FaultContext], Awaitable[None]]]] = {
    "group-min-member": _editing(POD_GROUPS, _min_member),
    "group-queue": _editing(POD_GROUPS, _group_queue),
    "group-priority": _editing(POD_GROUPS, _group_priority),
    "group-delete": _deleting(POD_GROUPS),
    "group-recreate": _recreating(POD_GROUPS),
    "queue-limit": _editing(QUEUES, _queue_limit),
    "queue-loop": _editing(QUEUES, _queue_loop),
    "queue-delete": _deleting(QUEUES),
    "queue-recreate": _recreating(QUEUES),
    "priority-value": _priority_value,
    "namespace-labels": _editing("namespaces", _namespace_labels),
    "pod-moved": _editing("pods", _pod_moved),
}
