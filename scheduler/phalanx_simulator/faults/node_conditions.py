"""Node conditions of real GPU clusters, and the status of each on a healthy node.

TALK: the 24 of "Large Scale and Reliability Testing in Kubernetes using KWOK" (KubeCon China 2024). KWOK: the
three that KWOK's virtual-gpu-node.yaml adds. NVSENTINEL: those of NVIDIA's NVSentinel. NPD: those of
node-problem-detector that the talk does not name. Polarity is mixed: two are True on a healthy node.
"""

from collections.abc import Mapping
from typing import Final

from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.edits import condition_of, node_key, put_condition, same, uid_of
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, Undo, lasting, nothing, pause

_HEALTHY_WHEN_TRUE: Final = ("AggregatedNodeHealth", "Ready")

TALK: Final = (
    "AggregatedNodeHealth",
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "FrequentKubeletRestart",
    "FrequentDockerRestart",
    "FrequentContainerdRestart",
    "FrequentUnregisterNetDevice",
    "FilesystemCorruptionProblem",
    "KubeletProblem",
    "ContainerRuntimeProblem",
    "VMEEventScheduled",
    "GpuHWSlowDown",
    "GpuDbeMsbeProblem",
    "NvPeerMemProblem",
    "IBLinksProblem",
    "ACSModuleCheck",
    "DgxRaidProblem",
    "CephMountsHung",
    "NodeNotInNWTopologyCM",
)
KWOK: Final = ("RoCELinksProblem", "RoCESpoofCheckProblem", "FlannelNetworkDeviceProblem")
NVSENTINEL: Final = (
    "GpuMemWatch",
    "GpuThermalWatch",
    "GpuThermalMarginWatch",
    "GpuPcieWatch",
    "GpuPowerWatch",
    "GpuInforomWatch",
    "GpuSmWatch",
    "GpuNvlinkWatch",
    "GpuNvswitchFatalWatch",
    "GpuMcuWatch",
    "GpuPmuWatch",
    "GpuDriverWatch",
    "GpuCpusetWatch",
    "GpuDcgmConnectivityFailure",
    "GpuXidError",
    "SysLogsXIDError",
    "SysLogsSXIDError",
    "SysLogsGPUFallenOff",
    "SysLogsNICDriverError",
    "InfiniBandStateCheck",
    "InfiniBandDegradationCheck",
    "EthernetStateCheck",
    "EthernetDegradationCheck",
    "NVSwitchFatalError",
    "NVSwitchDown",
    "NVSwitchNonFatalError",
    "DCGMError",
    "CSPMaintenance",
    "SyslogError",
)
NPD: Final = (
    "XfsShutdown",
    "CperHardwareErrorFatal",
    "DiskBadBlock",
    "CorruptDockerOverlay2",
    "KubeletUnhealthy",
    "ContainerRuntimeUnhealthy",
    "KubeProxyUnhealthy",
    "NTPProblem",
)
UNKNOWN_TYPES: Final = ("SiteCheckPassed", "CoolingLoopState", "FutureGpuWatch")
"""Types that are in no table, so that their faulty status is unknown."""

HEALTHY_STATUS: Final[Mapping[str, str]] = {
    type_: "True" if type_ in _HEALTHY_WHEN_TRUE else "False" for type_ in (*TALK, *KWOK, *NVSENTINEL, *NPD)
}


def healthy(type_: str) -> str:
    """The status on a healthy node.

    An unknown type is healthy when False, like NVSentinel's.
    """
    return HEALTHY_STATUS.get(type_, "False")


def faulty(type_: str) -> str:
    """The status that reports a fault."""
    return "False" if healthy(type_) == "True" else "True"


def raise_condition(
    context: FaultContext, node: str, *, type_: str, status: str = "", reason: str = "", message: str = ""
) -> Undo:
    """Set a condition to its faulty status, or to `status`.

    The undo restores the healthy status unless the condition was changed since.
    """
    found = context.client.get(node_key(node))
    if found is None:
        return nothing
    status, reason = status or faulty(type_), reason or f"{type_}Detected"
    put_condition(context.client, node, type_=type_, status=status, reason=reason, message=message)

    def heal() -> None:
        left = same(context.client, node_key(node), uid_of(found))
        if left is not None and _matches(condition_of(left, type_), status, reason, message):
            well, why = healthy(type_), _healthy_reason(type_)
            put_condition(context.client, node, type_=type_, status=well, reason=why, message="")

    return heal


def _matches(condition: Object, status: str, reason: str, message: str) -> bool:
    return (condition.get("status"), condition.get("reason"), condition.get("message")) == (
        status,
        reason,
        message,
    )


def _healthy_reason(type_: str) -> str:
    return "KubeletReady" if type_ == "Ready" else f"No{type_}"


def _condition(fault: Fault, context: FaultContext, node: str) -> Undo:
    """Settings: type; status (default: the faulty one; Unknown is possible); reason; message."""
    return raise_condition(
        context,
        node,
        type_=fault.text("type"),
        status=fault.text("status"),
        reason=fault.text("reason"),
        message=fault.text("message", "injected"),
    )


async def _heartbeats(fault: Fault, context: FaultContext) -> None:
    """Repeat the same status with a new heartbeat and message, `times` times.

    Settings: type, times. A condition that the node does not have is added with its healthy status. A
    faulty condition keeps its message; only its heartbeat changes.
    """
    type_, times = fault.text("type"), fault.number("times", 1)
    for beat in range(times):
        for node in fault.targets:
            _beat(context, node, type_, f"checked, round {beat + 1}")
        if not await pause(context, fault.seconds / times):
            return


def _beat(context: FaultContext, node: str, type_: str, message: str) -> None:
    found = context.client.get(node_key(node))
    if found is None:
        return
    now = condition_of(found, type_)
    status, reason = now.get("status", healthy(type_)), now.get("reason", _healthy_reason(type_))
    if status != healthy(type_):
        message = now.get("message", "")
    put_condition(context.client, node, type_=type_, status=status, reason=reason, message=message)


INJECTORS: Final[Mapping[str, Injector]] = {
    "node-condition": lasting(_condition),
    "node-heartbeat": _heartbeats,
}
