"""Published failure rates, and the simulated fault that each cause maps to.

| figure | source |
| --- | --- |
| 6.5 node faults per 1,000 node-days | Meta, "Revisiting Reliability", HPCA'25 (arXiv 2410.21680), RSC-1 |
| a 1,024-GPU job fails every 7.9 h | the same; node faults give 28.8 h, so jobs add their own |
| few nodes have most faults: the top 5 % about half | Lablup (arXiv 2605.09370): top 3 of 63 nodes > 50 % |
| causes and their counts | Llama 3 (arXiv 2407.21783), Table 5: 419 unexpected interruptions in 54 days |
| 1 to 2 % of faults hit a whole domain in 60 s | Minder (NSDI'25): 99 % are of a single machine |
| a GPU reset takes about 90 s, a reboot 42 min | NVSentinel's runbook examples (81 s and 42 min) |
| 1 to 5 days for a part to be replaced; 10 % flap | the project's own survey of the above |
| 1 % false positives | Meta, as above: health checks have less than 1 % |
| detection in 2 to 60 s; 10 min for a hang | ByteRobust, SOSP'25 (arXiv 2509.16293) |
| 9.9 % of job failures are hangs, 36.1 % CUDA errors | the same |

How a cause of Llama's table is split into a reset, a reboot and a replacement is our own estimate: no source
that we know gives it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct
from phalanx.clock import Random

from phalanx_simulator.faults import xids
from phalanx_simulator.faults.kinds import Values

SECONDS_PER_DAY: Final = 86_400
NODE_FAULTS_PER_NODE_DAY: Final = 6.5e-3
JOB_MTTF_HOURS: Final = 7.9
JOB_GPUS: Final = 1_024
_GPUS_PER_NODE: Final = 8

JOB_FAULTS_PER_GPU_DAY: Final = 24 / JOB_MTTF_HOURS / JOB_GPUS - NODE_FAULTS_PER_NODE_DAY / _GPUS_PER_NODE
"""Hazard rate of the jobs themselves: with node faults, a job of 1,024 GPUs then runs 7.9 h on average."""

NODE_FAILURE_RATE_SIGMA: Final = 1.645
"""σ of the lognormal failure rate factor of a node. The top p of a lognormal hold Φ(σ - z) of the sum, where
z is the quantile of 1 - p: for p = 5 %, z = 1.645, so this σ gives Φ(0) = one half."""

CORRELATED: Final = 0.015
FALSE_POSITIVE: Final = 0.01
FLAP: Final = 0.10
HANG: Final = 9.9 / (9.9 + 36.1)
"""Share of hangs among hangs and CUDA errors, the failures of jobs themselves."""

HANG_DETECTION_S: Final = 600
DETECTION_S: Final = (2, 60)


class Repair(Enum):
    """How a node or a GPU is repaired, which decides for how long it is out of service."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    REPLACEMENT = "replacement"


_MEDIAN_S: Final = {Repair.RESET: 90.0, Repair.REBOOT: 42 * 60.0}
_SPREAD: Final = {Repair.RESET: 0.4, Repair.REBOOT: 0.5}
_REPLACEMENT_DAYS: Final = (1.0, 5.0)


def repair_s(repair: Repair, random: Random) -> float:
    """Draw a repair time: lognormal about its median, or one to five days for a replacement."""
    if repair is Repair.NONE:
        return 0.0
    if repair is Repair.REPLACEMENT:
        return round(random.uniform(*_REPLACEMENT_DAYS) * SECONDS_PER_DAY, 3)
    return round(_MEDIAN_S[repair] * random.lognormvariate(0, _SPREAD[repair]), 3)


class Outcome(Struct, frozen=True):
    """The simulated fault of a cause, its settings, and its repair time."""

    kind: str
    repair: Repair
    settings: Mapping[str, Values] = {}
    is_hang: bool = False


class Cause(Struct, frozen=True):
    """A row of Llama 3's Table 5; `outcomes` with their weights."""

    name: str
    count: int
    outcomes: tuple[tuple[Outcome, int], ...]


def _xid(action: str, repair: Repair, *codes: int) -> Outcome:
    return Outcome(xids.kind_of(action), repair, {"code": codes or xids.CODES[action]})


def _drained(type_: str) -> Outcome:
    return Outcome("nvsentinel", Repair.REBOOT, {"type": (type_,), "drain": ("Immediate",)})


_RESET: Final = _xid(xids.RESET_GPU, Repair.RESET)
_REBOOT: Final = _xid(xids.RESTART_BM, Repair.REBOOT)
_SUPPORT: Final = _xid(xids.CONTACT_SUPPORT, Repair.REPLACEMENT)
_APP: Final = _xid(xids.RESTART_APP, Repair.NONE)
_HANGS: Final = Outcome("pod-gpu-failure", Repair.NONE, {"reason": ("NCCLTimeout",)}, is_hang=True)
_BUG: Final = Outcome("pod-gpu-failure", Repair.NONE, {"exit_code": (1, 137)})
_SILENT: Final = Outcome("node-lost", Repair.REBOOT, {"restarted": (1,)})
_REPLACED: Final = Outcome("node-recreate", Repair.REPLACEMENT)

CAUSES: Final = (
    Cause("faulty GPU", 148, ((_RESET, 5), (_REBOOT, 4), (_SUPPORT, 1))),
    Cause("HBM3 memory", 72, ((_xid(xids.RESET_GPU, Repair.RESET, 48, 64, 95), 8), (_SUPPORT, 2))),
    Cause("software bug", 54, ((_APP, 2), (_BUG, 1))),
    Cause("network switch or cable", 35, ((_drained("InfiniBandStateCheck"), 1),)),
    Cause("host maintenance", 32, ((_drained("CSPMaintenance"), 1),)),
    Cause("GPU SRAM", 19, ((_RESET, 1),)),
    Cause("GPU system processor", 17, ((_xid(xids.RESET_GPU, Repair.RESET, 119, 120), 1),)),
    Cause("NIC", 7, ((_drained("SysLogsNICDriverError"), 4), (_REPLACED, 1))),
    Cause("NCCL watchdog timeout", 7, ((_HANGS, 1),)),
    Cause("silent data corruption", 6, ((_BUG, 1), (_SUPPORT, 1))),
    Cause("GPU thermal", 6, ((Outcome("node-condition", Repair.REBOOT, {"type": ("GpuHWSlowDown",)}), 1),)),
    Cause("SSD", 3, ((_SILENT, 1), (_REPLACED, 1))),
    Cause("power supply", 3, ((_SILENT, 1), (_REPLACED, 2))),
    Cause("server chassis", 2, ((_REPLACED, 1),)),
    Cause("IO board", 2, ((_REPLACED, 1),)),
    Cause("dependency", 2, ((_BUG, 1),)),
    Cause("CPU", 2, ((_SILENT, 1), (_REPLACED, 1))),
    Cause("system memory", 2, ((_SILENT, 1), (_REPLACED, 1))),
)
