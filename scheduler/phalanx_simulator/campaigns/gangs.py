"""Jobs for bug-finding runs: many gangs of many shapes, minutes long.

`synthetic_jobs` has the statistics of life instead, where most jobs are single pods.
"""

from collections.abc import Iterable
from typing import Final

from phalanx.clock import Random
from phalanx.model.resources import GPU

from phalanx_simulator.campaigns.jobs import TraceJob
from phalanx_simulator.embedded.pod_requests import allocatable_of
from phalanx_simulator.embedded.store import Object

_PODS: Final = (1, 2, 3, 4, 4, 6, 8, 8, 16, 24)
_GPUS: Final = (1, 1, 2, 4, 8)
_MEDIAN_S: Final = 240.0
_SIGMA: Final = 1.0
_FAILING_PERCENT: Final = 5
_TENANTS: Final = 4
_URGENT_PERCENT: Final = 10


def gang_jobs(*, random: Random, hours: float, nodes: Iterable[Object], load: float) -> tuple[TraceJob, ...]:
    """Jobs in order of submission that request the share `load` of all GPU time."""
    gpus = sum(allocatable_of(node).get(GPU, 0) for node in nodes)
    seconds = hours * 3600
    wanted = load * gpus * seconds
    jobs: list[TraceJob] = []
    while wanted > 0:
        job = _drawn(len(jobs), gpus, seconds, random)
        wanted -= job.gpu_seconds
        jobs.append(job)
    return tuple(sorted(jobs, key=lambda job: job.submit_s))


def _drawn(index: int, cluster_gpus: int, seconds: float, random: Random) -> TraceJob:
    """Draw a job of at most half of the cluster, so that it fits while a part is out."""
    gpus = random.choice(_GPUS)
    pods = max(1, min(random.choice(_PODS), cluster_gpus // 2 // gpus))
    return TraceJob(
        name=f"job-{index}",
        submit_s=round(random.uniform(0, seconds), 3),
        queue=f"tenant-{random.randrange(_TENANTS)}",
        pods=pods,
        gpus_per_pod=gpus,
        run_s=round(min(seconds, _MEDIAN_S * random.lognormvariate(0, _SIGMA)), 3),
        exit_code=1 if random.randrange(100) < _FAILING_PERCENT else 0,
        urgent=random.randrange(100) < _URGENT_PERCENT,
    )
