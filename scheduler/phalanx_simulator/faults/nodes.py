"""F6, nodes: readiness, loss, flapping, deletion, cordon, taints, capacity, labels, clocks."""

from collections.abc import Mapping
from typing import Any, Final

from phalanx.model.resources import GPU

from phalanx_simulator.embedded.kubelets.kubelet import CLOCK_OFF_SECONDS
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.edits import (
    create,
    delete,
    edit,
    node_key,
    original_labels,
    relabel,
    same,
    uid_of,
    with_metadata,
    with_spec,
)
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, Undo, lasting, nothing, pause
from phalanx_simulator.faults.node_conditions import raise_condition

REMOVED: Final = "removed"
ANOTHER: Final = "another"
_DEFAULT_TAINT: Final = "nvidia.com/gpu-error"


def not_ready(_fault: Fault, context: FaultContext, node: str) -> Undo:
    """The kubelet reports Ready=False; its pods keep running."""
    return raise_condition(
        context, node, type_="Ready", reason="KubeletNotReady", message="container runtime is down"
    )


def lost(fault: Fault, context: FaultContext, node: str) -> Undo:
    """The node disconnects.

    Settings: restarted, 1 if its containers have ended when it reconnects.
    """
    context.kubelets.lose(node)
    return lambda: context.kubelets.find(node, restarted=bool(fault.number("restarted")))


def clock_off(fault: Fault, context: FaultContext, node: str) -> Undo:
    """The node's clock jumps, and with it all times that its kubelet writes.

    Settings: by_s.
    """

    def set_to(off_s: str | None) -> None:
        changes = {CLOCK_OFF_SECONDS: off_s}
        edit(context.client, node_key(node), lambda item: with_metadata(item, "annotations", **changes))

    set_to(fault.text("by_s"))
    return lambda: set_to(None)


def cordoned(_fault: Fault, context: FaultContext, node: str) -> Undo:
    """Set spec.unschedulable; a node that was cordoned already stays so."""
    found = context.client.get(node_key(node))
    if found is None or found.get("spec", {}).get("unschedulable"):
        return nothing
    edit(context.client, node_key(node), lambda item: with_spec(item, unschedulable=True))

    def uncordon() -> None:
        if same(context.client, node_key(node), uid_of(found)) is not None:
            edit(context.client, node_key(node), lambda item: with_spec(item, unschedulable=None))

    return uncordon


def tainted(fault: Fault, context: FaultContext, node: str) -> Undo:
    """Taint the node.

    Settings: key, value, effect (default NoSchedule).
    """
    taint = {"key": fault.text("key", _DEFAULT_TAINT), "effect": fault.text("effect", "NoSchedule")}
    if fault.text("value"):
        taint["value"] = fault.text("value")
    if taint["effect"] == "NoExecute":
        taint["timeAdded"] = context.client.now()
    edit(context.client, node_key(node), lambda item: _with_taint(item, taint))
    return lambda: edit(context.client, node_key(node), lambda item: _without_taint(item, taint))


def _with_taint(node: Object, taint: Object) -> Object:
    others = _without_taint(node, taint).get("spec", {}).get("taints", [])
    return with_spec(node, taints=[*others, taint])


def _without_taint(node: Object, taint: Object) -> Object:
    same_taint = (taint["key"], taint["effect"])
    old = node.get("spec", {}).get("taints", [])
    left = [taint for taint in old if (taint["key"], taint["effect"]) != same_taint]
    return with_spec(node, taints=left or None)


async def _flaps(fault: Fault, context: FaultContext) -> None:
    """The node is faulty for half of each period and healthy for the other half.

    Settings: period_s, 1 to 300; silent, 1 if the node stops its heartbeats instead of reporting
    Ready=False.
    """
    half_s = max(1, fault.number("period_s", 60)) / 2
    begin = lost if fault.number("silent") else not_ready
    for _ in range(max(1, round(fault.seconds / half_s / 2))):
        undos = [begin(fault, context, node) for node in fault.targets]
        await context.sleep(half_s)
        for undo in undos:
            undo()
        if not await pause(context, half_s):
            return


async def _deleted(fault: Fault, context: FaultContext) -> None:
    """Delete the node object for good; the duration is ignored."""
    for node in fault.targets:
        delete(context.client, node_key(node))


async def _recreated(fault: Fault, context: FaultContext) -> None:
    """Delete the node, and recreate it without pods after the fault's duration.

    Settings: labels, `another` if the new node gets the topology labels of a random node.
    """
    manifests = [_fresh(context, node) for node in fault.targets]
    for node in fault.targets:
        delete(context.client, node_key(node))
    await context.sleep(fault.seconds)
    for manifest in manifests:
        if manifest is not None:
            if fault.text("labels") == ANOTHER:
                _move(context, manifest)
            create(context.client, "nodes", "", manifest)
            context.kubelets.find(manifest["metadata"]["name"], restarted=True)


def _fresh(context: FaultContext, node: str) -> Object | None:
    """A manifest of the node without the changes of faults."""
    found = context.client.get(node_key(node))
    if found is None:
        return None
    capacity = dict(found["status"].get("capacity", {}))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": original_labels(found)},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


def _move(context: FaultContext, manifest: Object) -> None:
    others = context.client.keys("nodes")
    place = context.client.get(context.random.choice(others)) if others else None
    if place is not None:
        own = {"kubernetes.io/hostname": manifest["metadata"]["name"]}
        manifest["metadata"]["labels"] = {**original_labels(place), **own}


async def _shrunk(fault: Fault, context: FaultContext) -> None:
    """Allocatable decreases step by step, then returns to the capacity.

    Settings: resource (default GPUs); walk, amounts such as "7,0".
    """
    steps = [step for step in fault.text("walk", "7,0").split(",") if step]
    resource = fault.text("resource", GPU)
    for step in steps:
        for node in fault.targets:
            set_allocatable(context, node, resource, step)
        if not await pause(context, fault.seconds / len(steps)):
            break
    for node in fault.targets:
        set_allocatable(context, node, resource, "")


def set_allocatable(context: FaultContext, node: str, resource: str, amount: str) -> None:
    """Set the allocatable amount, as a device plugin does; empty for the capacity.

    A node without the resource is left alone.
    """
    found = context.client.get(node_key(node))
    status: dict[str, Any] = {} if found is None else found.get("status", {})
    capacity = status.get("capacity", {}).get(resource)
    if capacity is not None:
        allocatable = {**status.get("allocatable", {}), resource: amount or capacity}
        context.client.update_status(node_key(node), allocatable=allocatable)


def relabelled(fault: Fault, context: FaultContext, node: str) -> Undo:
    """Change a label: the node appears elsewhere in the topology, or nowhere.

    Settings: label; to, which is `another` (the value of a random node), `removed`, or a value. A node whose
    labels a fault has changed already is left alone, so that its original labels are restored.
    """
    label = fault.text("label")
    return relabel(context, node_key(node), {label: _new_value(fault, context, label)})


def _new_value(fault: Fault, context: FaultContext, label: str) -> str | None:
    to = fault.text("to", ANOTHER)
    if to == REMOVED:
        return None
    if to != ANOTHER:
        return to
    found = [context.client.get(key) or {} for key in context.client.keys("nodes")]
    values = {(node.get("metadata", {}).get("labels") or {}).get(label): None for node in found}
    known = sorted(value for value in values if value)
    return context.random.choice(known) if known else None


INJECTORS: Final[Mapping[str, Injector]] = {
    "node-not-ready": lasting(not_ready),
    "node-lost": lasting(lost),
    "node-clock": lasting(clock_off),
    "node-flap": _flaps,
    "node-delete": _deleted,
    "node-recreate": _recreated,
    "node-cordon": lasting(cordoned),
    "node-taint": lasting(tainted),
    "node-allocatable": _shrunk,
    "node-labels": lasting(relabelled),
}
