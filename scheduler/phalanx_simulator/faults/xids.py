"""F6, GPU errors by NVIDIA Xid code, with the catalogue's immediate action.

Codes by action as in NVIDIA's catalogue bundled with NVSentinel (172 codes). Where an action needs a workflow
(48, 45, 74, 144-150) the simulator uses the worst outcome: a reset of the GPU, or the quarantine of the
whole NVLink domain.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from phalanx.model.resources import GPU

from phalanx_simulator.faults.edits import create, drain_one_gpu, drawn_pods, gpus_of, node_key
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector
from phalanx_simulator.faults.nodes import set_allocatable
from phalanx_simulator.faults.nvsentinel import drain, message_of, quarantine, release

RESTART_APP: Final = "RESTART_APP"
IGNORE: Final = "IGNORE"
RESET_GPU: Final = "RESET_GPU"
NVLINK: Final = "NVLINK"
RESTART_BM: Final = "RESTART_BM"
CONTACT_SUPPORT: Final = "CONTACT_SUPPORT"

CODES: Final[Mapping[str, tuple[int, ...]]] = {
    RESTART_APP: (
        *(8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86),
        *(88, 89, 94, *range(96, 106), *range(126, 136), 139),
    ),
    IGNORE: (
        *(14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161),
    ),
    RESET_GPU: (45, 46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    NVLINK: (74, *range(144, 151)),
    RESTART_BM: (79,),
    CONTACT_SUPPORT: (54, 78, 142, 151, 159, *range(162, 173)),
}
"""Codes by action. The catalogue lists no action for 162-172; they count as CONTACT_SUPPORT."""

RECOVERY_ACTIONS: Final[Mapping[str, str]] = {
    "None": IGNORE,
    "GPU Reset Required": RESET_GPU,
    "Drain and Reset": RESET_GPU,
    "Node Reboot Required": RESTART_BM,
}
"""Xid 154 carries one of these texts, which overrides the code that came before."""

_APP_EXIT_CODE: Final = 134
_EVENTS: Final = "events.events.k8s.io"


def kind_of(action: str) -> str:
    """The kind of fault of an action."""
    return f"xid-{action.lower().replace('_', '-')}"


async def _ignored(fault: Fault, context: FaultContext) -> None:
    """An Event on each node and nothing else.

    Settings: code (all kinds of this module have it).
    """
    for node in fault.targets:
        _report(context, node, fault, IGNORE)


async def _app_failed(fault: Fault, context: FaultContext) -> None:
    """One pod of each node fails; the node stays healthy.

    Settings: exit_code. An Event reports the code.
    """
    for node in fault.targets:
        _report(context, node, fault, RESTART_APP)
    for key in drawn_pods(fault, context):
        context.kubelets.fail(
            key, exit_code=fault.number("exit_code", _APP_EXIT_CODE), reason="Error", message=_text(fault)
        )


async def _gpu_reset(fault: Fault, context: FaultContext) -> None:
    """One GPU is out for the duration (a reset takes 90 s) and its pod is deleted."""
    for node in fault.targets:
        _report(context, node, fault, RESET_GPU)
        drain_one_gpu(context, node)
        set_allocatable(context, node, GPU, str(max(0, gpus_of(context, node_key(node)) - 1)))
    await context.sleep(fault.seconds)
    for node in fault.targets:
        set_allocatable(context, node, GPU, "")


async def _domain_quarantined(fault: Fault, context: FaultContext) -> None:
    """All nodes of the NVLink domain (the targets) are quarantined; running work may finish."""
    settings = {**fault.settings, "type": "GpuNvlinkWatch", "message": _message(fault, NVLINK)}
    fault = msgspec.structs.replace(fault, settings=settings)
    held = [one for node in fault.targets if (one := quarantine(fault, context, node)) is not None]
    await context.sleep(fault.seconds)
    for held_node in held:
        release(held_node, context)


async def _node_out(fault: Fault, context: FaultContext) -> None:
    """The node is quarantined, drained and disconnected for the duration: a reboot takes 42 minutes."""
    action = fault.kind.removeprefix("xid-").upper().replace("-", "_")
    settings = {**fault.settings, "type": "SysLogsXIDError", "message": _message(fault, action)}
    fault = msgspec.structs.replace(fault, settings=settings)
    held = [one for node in fault.targets if (one := quarantine(fault, context, node)) is not None]
    for held_node in held:
        drain(context, held_node.node, "Immediate", is_late=False)
        context.kubelets.lose(held_node.node)
    await context.sleep(fault.seconds)
    for held_node in held:
        context.kubelets.find(held_node.node, restarted=True)
        release(held_node, context)


async def _overridden(fault: Fault, context: FaultContext) -> None:
    """Xid 154: its text names the action.

    Settings: text, one of RECOVERY_ACTIONS.
    """
    kind = kind_of(RECOVERY_ACTIONS[fault.text("text", "None")])
    settings = {**fault.settings, "code": 154}
    await _BY_ACTION[kind](msgspec.structs.replace(fault, kind=kind, settings=settings), context)


def _text(fault: Fault) -> str:
    return f"NVRM: Xid (PCI:0000:1b:00): {fault.number('code')}"


def _message(fault: Fault, action: str) -> str:
    return message_of(str(fault.number("code")), _text(fault), action)


def _report(context: FaultContext, node: str, fault: Fault, action: str) -> None:
    """An Event on the node, as NVSentinel writes for non-fatal errors."""
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{node}."},
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node},
        "type": "Warning",
        "reason": "SysLogsXIDError",
        "action": action,
        "note": _message(fault, action),
        "eventTime": context.client.now(),
        "reportingController": "nvsentinel",
        "reportingInstance": "nvsentinel",
    }
    if context.client.get(node_key(node)) is not None:
        create(context.client, _EVENTS, "default", event)


_BY_ACTION: Final[Mapping[str, Injector]] = {
    kind_of(IGNORE): _ignored,
    kind_of(RESTART_APP): _app_failed,
    kind_of(RESET_GPU): _gpu_reset,
    kind_of(NVLINK): _domain_quarantined,
    kind_of(RESTART_BM): _node_out,
    kind_of(CONTACT_SUPPORT): _node_out,
}
INJECTORS: Final[Mapping[str, Injector]] = {**_BY_ACTION, "xid-recovery-action": _overridden}
