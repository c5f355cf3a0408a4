"""Node conditions of real GPU clusters, and the status of each on a healthy node.

TALK: the 24 of "Large Scale and Reliability Testing in Kubernetes using KWOK" (KubeCon China 2024). KWOK: the
three that KWOK's virtual-gpu-node.yaml adds. NVSENTINEL: those of NVIDIA's NVSentinel. NPD: those of
node-problem-detector that the talk does not name. Polarity is mixed: two are True on a healthy node.
"""

from collections.abc import Mapping
from typing import Final

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
UNHEARD_OF: Final = ("SiteCheckPassed", "CoolingLoopState", "FutureGpuWatch")
"""Types that no table knows: nobody can say which status of theirs is bad."""

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
