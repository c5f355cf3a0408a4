"""Histories as CSV files with the columns of Microsoft's Philly trace: a job with its GPUs on each row."""

from pathlib import Path
from typing import Final

from phalanx_simulator.campaigns.jobs import TraceError, TraceJob, read_trace
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.history.history import History, HistoryError

_CPU_MILLI_PER_GPU: Final = 4000
_MEMORY_MIB_PER_GPU: Final = 32 << 10
"""The trace has no CPU and no memory: so much that neither is scarce on a node of eight GPUs."""


def read_philly(path: Path, *, gpus_per_pod: int) -> History:
    """Read the columns timestamp, duration, num_gpus and cluster. Raises HistoryError and OSError."""
    try:
        trace = read_trace(path, gpus_per_pod=gpus_per_pod)
    except TraceError as error:
        raise HistoryError(str(error)) from error
    return History(jobs=tuple(map(recorded, trace)))


def recorded(job: TraceJob) -> RecordedJob:
    """The job with CPU and memory in proportion to its GPUs."""
    cpu_milli, memory_mib = defaults_for(job.gpus_per_pod)
    return RecordedJob(
        name=job.name,
        tenant=job.queue,
        submit_ms=int(job.submit_s * 1000),
        run_ms=int(job.run_s * 1000),
        pods=job.pods,
        gpus=job.gpus_per_pod,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )


def defaults_for(gpus: int) -> tuple[int, int]:
    """CPU in thousandths of a core and MiB of memory of a pod of which only the GPUs are known."""
    return _CPU_MILLI_PER_GPU * gpus, _MEMORY_MIB_PER_GPU * gpus
