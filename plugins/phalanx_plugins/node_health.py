"""Keeps new pods off nodes whose conditions, or NVSentinel, report a fault.

Each condition type has a healthy status: Ready is healthy when True, GpuXidError when False. The opposite
status is a fault; for Ready, Unknown is a fault too. Types that are not in the table are ignored, and so are
absent conditions. The table has the conditions of the kubelet, of node-problem-detector, of NVSentinel, of
KWOK's GPU node, and the usual conditions of GPU sites. The argument `conditions` adds types, changes their
healthy status, or removes them (Ignored).

NodeNotInNWTopologyCM is no fault: while it is True the node is in no domain, so only gangs that require a
level stay away. The label `dgxc.nvidia.com/nvsentinel-state` is a fault from quarantine until remediation has
succeeded. A new leader takes the times of transitions from lastTransitionTime of the conditions.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct
from phalanx.framework.plugin import Plugin
from phalanx.model.nodes import READY, Node

NVSENTINEL_STATE: Final = "dgxc.nvidia.com/nvsentinel-state"
NVSENTINEL_FAULTS: Final = frozenset(
    {
        "quarantined",
        "draining",
        "drain-succeeded",
        "drain-failed",
        "remediating",
        "remediation-failed",
    }
)

HEALTHY_WHEN_TRUE: Final = (READY, "AggregatedNodeHealth")
HEALTHY_WHEN_FALSE: Final = (
    # the kubelet and the network plugin
    *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
    # node-problem-detector
    *("KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "CperHardwareErrorFatal", "DiskBadBlock"),
    *("CorruptDockerOverlay2", "FrequentUnregisterNetDevice", "FrequentKubeletRestart"),
    *("FrequentDockerRestart", "FrequentContainerdRestart", "KubeletUnhealthy"),
    *("ContainerRuntimeUnhealthy", "KubeProxyUnhealthy", "NTPProblem"),
    # GPU sites and KWOK's GPU node; the first is written in both ways
    *("VMEEventScheduled", "VMEventScheduled", "FilesystemCorruptionProblem", "KubeletProblem"),
    *("ContainerRuntimeProblem", "GpuHWSlowDown", "GpuDbeMsbeProblem", "NvPeerMemProblem"),
    *("IBLinksProblem", "ACSModuleCheck", "DgxRaidProblem", "CephMountsHung", "RoCELinksProblem"),
    *("RoCESpoofCheckProblem", "FlannelNetworkDeviceProblem"),
    # NVSentinel
    *("GpuMemWatch", "GpuThermalWatch", "GpuThermalMarginWatch", "GpuPcieWatch", "GpuPowerWatch"),
    *("GpuInforomWatch", "GpuSmWatch", "GpuNvlinkWatch", "GpuNvswitchFatalWatch", "GpuMcuWatch"),
    *("GpuPmuWatch", "GpuDriverWatch", "GpuCpusetWatch", "GpuDcgmConnectivityFailure", "GpuXidError"),
    *("SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff", "SysLogsNICDriverError"),
    *("InfiniBandStateCheck", "InfiniBandDegradationCheck", "EthernetStateCheck"),
    *("EthernetDegradationCheck", "NVSwitchFatalError", "NVSwitchDown", "NVSwitchNonFatalError"),
    *("DCGMError", "CSPMaintenance", "SyslogError"),
)

Healthy = Literal["True", "False", "Ignored"]

FAULTY: Final[Mapping[Healthy, tuple[str, ...]]] = {"True": ("False",), "False": ("True",), "Ignored": ()}
"""For each healthy status, the statuses that are faults. Unknown is a fault for Ready only."""


class NodeHealthArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """What the configuration file may set."""

    conditions: Mapping[str, Healthy] = {}
    """The healthy status by type of the node condition, in addition to the built-in table. `Ignored` removes
    a type."""


class NodeHealth(Plugin):
    """Checks conditions of nodes and the label of NVSentinel."""

    name = "node-health"
    Arguments = NodeHealthArguments

    def __init__(self, arguments: NodeHealthArguments) -> None:
        self._faulty = {**DEFAULTS, **{kind: FAULTY[each] for kind, each in arguments.conditions.items()}}
        if arguments.conditions.get(READY) == "True":
            self._faulty[READY] = DEFAULTS[READY]

    def node_fault(self, node: Node) -> str | None:
        """The first faulty condition by type, or the state of NVSentinel."""
        for kind, status in node.conditions.items():
            if status in self._faulty.get(kind, ()):
                return f"condition {kind} is {status}"
        state = node.labels.get(NVSENTINEL_STATE)
        return f"NVSentinel state is {state}" if state in NVSENTINEL_FAULTS else None

    def node_status_since(self, node: Node) -> int:
        """The start of the oldest faulty condition; for a healthy node, the end of the last one."""
        faulty: list[int] = []
        healthy: list[int] = []
        for kind, status in node.conditions.items():
            if statuses := self._faulty.get(kind):
                since = node.condition_changes.get(kind, 0)
                (faulty if status in statuses else healthy).append(since)
        if faulty or node.labels.get(NVSENTINEL_STATE) in NVSENTINEL_FAULTS:
            return min(faulty, default=0)
        return max(healthy, default=0)


DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(HEALTHY_WHEN_TRUE, FAULTY["True"]),
    **dict.fromkeys(HEALTHY_WHEN_FALSE, FAULTY["False"]),
    READY: ("False", "Unknown"),
}
"""The table: for each condition type, the statuses that are faults."""
