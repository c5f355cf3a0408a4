"""F6, NVSentinel: quarantine, drain and remediation of a node, step by step.

A fatal health event becomes a condition (True = fault). Then the node is cordoned, and tainted if the
settings say so; its state label goes from `quarantined` to a result of the remediation, and the node is
released. Two states are terminal for NVSentinel, `drain-failed` and `remediation-failed`: the node keeps them
until somebody repairs it, here until the end of the fault.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.edits import condition_of, delete, edit, live_pods, node_key, with_metadata
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, Undo, nothing, pause
from phalanx_simulator.faults.node_conditions import raise_condition
from phalanx_simulator.faults.nodes import cordoned, tainted

STATE_LABEL: Final = "dgxc.nvidia.com/nvsentinel-state"
DRAIN_FAILED: Final = "drain-failed"
REMEDIATION_FAILED: Final = "remediation-failed"
REMEDIATION_SUCCEEDED: Final = "remediation-succeeded"
ENDS: Final = (REMEDIATION_SUCCEEDED, REMEDIATION_FAILED, DRAIN_FAILED)
DRAIN_MODES: Final = ("AllowCompletion", "Immediate", "DeleteAfterTimeout")
_OPT_OUT: Final = "k8saas.nvidia.com/ManagedByNVSentinel"
_CORDON: Final = "k8saas.nvidia.com/cordon-"
_UNCORDON: Final = "k8saas.nvidia.com/uncordon-"
_ANNOTATIONS: Final = (
    "quarantineHealthEvent",
    "quarantineHealthEventIsCordoned",
    "quarantineHealthEventAppliedTaints",
    "quarantineHealthEventCordonPreExisting",
)
_STEPS: Final = ("quarantined", "draining", "drain-succeeded", "remediating")


class QuarantinedNode(Struct, frozen=True):
    """A quarantined node, with what undoes its quarantine."""

    node: str
    undos: tuple[Undo, ...]


def message_of(code: str, text: str, action: str) -> str:
    """A condition's message in NVSentinel's form."""
    return f"[{code}] {text} - RecommendedAction: {action}"


def quarantine(fault: Fault, context: FaultContext, node: str) -> QuarantinedNode | None:
    """Set condition and cordon, optionally taint, labels and annotations.

    None where the node is missing or opted out.

    Settings: type (of the condition), message, taint (a key; none by default).
    """
    found = context.client.get(node_key(node))
    if found is None or (found["metadata"].get("labels") or {}).get(_OPT_OUT) == "false":
        return None
    type_ = fault.text("type", "GpuXidError")
    raised = raise_condition(context, node, type_=type_, message=fault.text("message", "fatal"))
    was_cordoned = bool(found.get("spec", {}).get("unschedulable"))
    undo_cordon = cordoned(fault, context, node)
    undo_taint = _taint(fault, context, node)
    notes = _notes(fault, type_, was_cordoned=was_cordoned)
    edit(context.client, node_key(node), lambda item: with_metadata(item, "annotations", **notes))
    show_state(context, node, "quarantined")
    return QuarantinedNode(node, (raised, undo_cordon, undo_taint))


def _taint(fault: Fault, context: FaultContext, node: str) -> Undo:
    if not fault.text("taint"):
        return nothing
    settings = {"key": fault.text("taint"), "value": "true", "effect": "NoSchedule"}
    return tainted(msgspec.structs.replace(fault, settings=settings), context, node)


def _notes(fault: Fault, type_: str, *, was_cordoned: bool) -> dict[str, str | None]:
    taint = [{"Key": fault.text("taint"), "Value": "true", "Effect": "NoSchedule"}]
    return {
        "quarantineHealthEvent": msgspec.json.encode({"checkName": type_, "isFatal": True}).decode(),
        "quarantineHealthEventIsCordoned": "True",
        "quarantineHealthEventAppliedTaints": (
            msgspec.json.encode(taint).decode() if fault.text("taint") else None
        ),
        "quarantineHealthEventCordonPreExisting": "True" if was_cordoned else None,
    }


def show_state(context: FaultContext, node: str, state: str | None) -> None:
    """Set the state label, or remove it together with the cordon's owner for None."""
    by = {"by": "NVSentinel", "reason": "health-event"} if state else {"by": None, "reason": None}
    marks = {f"{_CORDON}{name}": value for name, value in by.items()}

    def change(item: Object) -> Object:
        return with_metadata(item, "labels", **{STATE_LABEL: state, **marks})

    edit(context.client, node_key(node), change)


def drain(context: FaultContext, node: str, mode: str, *, is_late: bool) -> None:
    """Delete our pods on the node, at once or after the time of DeleteAfterTimeout."""
    if mode == "Immediate" or (mode == "DeleteAfterTimeout" and is_late):
        for key in live_pods(context.client, node=node):
            delete(context.client, key)


def release(held: QuarantinedNode, context: FaultContext) -> None:
    """Remove condition, cordon, taint and state label, whatever the state is."""
    for undo in held.undos:
        undo()
    show_state(context, held.node, None)
    gone: dict[str, str | None] = dict.fromkeys(_ANNOTATIONS)
    edit(context.client, node_key(held.node), lambda item: with_metadata(item, "annotations", **gone))
    uncordoned = {f"{_UNCORDON}by": "NVSentinel"}
    edit(context.client, node_key(held.node), lambda item: with_metadata(item, "labels", **uncordoned))


async def _remediation(fault: Fault, context: FaultContext) -> None:
    """All states from quarantine to release, in equal parts of the duration.

    Settings as of `quarantine`, and: drain, one of DRAIN_MODES (default AllowCompletion); ends, one of ENDS.
    If something else clears the condition, the node is released at the next step.
    """
    held = [one for node in fault.targets if (one := quarantine(fault, context, node)) is not None]
    ends, mode = fault.text("ends", REMEDIATION_SUCCEEDED), fault.text("drain", "AllowCompletion")
    states = [*_STEPS[1:2], ends] if ends == DRAIN_FAILED else [*_STEPS[1:], ends]
    for state in states:
        if not await pause(context, fault.seconds / (len(states) + 1)):
            break
        held = [held_node for held_node in held if not _is_cancelled(held_node, fault, context)]
        for held_node in held:
            drain(context, held_node.node, mode, is_late=state != "draining")
            show_state(context, held_node.node, state)
    await context.sleep(fault.seconds / (len(states) + 1))
    for held_node in held:
        release(held_node, context)


def _is_cancelled(held: QuarantinedNode, fault: Fault, context: FaultContext) -> bool:
    """Release the node if the condition is healthy again, and say whether it is."""
    found = context.client.get(node_key(held.node))
    condition = condition_of(found or {}, fault.text("type", "GpuXidError"))
    if condition.get("status") != "False":
        return False
    release(held, context)
    return True


INJECTORS: Final[Mapping[str, Injector]] = {"nvsentinel": _remediation}
