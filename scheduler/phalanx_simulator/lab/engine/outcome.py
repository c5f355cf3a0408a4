"""The figures of a run."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from phalanx_simulator.lab.engine.jobs import Job

SIZES: Final = (("0", 0), ("1", 1), ("2-4", 4), ("5-8", 8), ("9+", 1 << 30))
"""Size classes of jobs by the largest number of GPUs."""


class Waits(Struct, frozen=True, rename="camel"):
    """Waits in seconds of some submitted jobs, summed over all starts of a job."""

    jobs: int
    mean_s: float
    p95_s: float


class TenantOutcome(Struct, frozen=True, rename="camel"):
    """`share`: the held GPU time divided by the fair share; None if the tenant demanded nothing."""

    waits: Waits | None
    gpu_hours: float
    share: float | None


class Timeline(Struct, frozen=True, rename="camel"):
    """Average GPUs in each step of the days: held by pods, and requested by jobs that wait for them."""

    step_s: float
    held: tuple[float, ...]
    waiting: tuple[float, ...]


class Outcome(Struct, frozen=True, rename="camel"):
    """The figures of a run. Utilisation and shares cover the window; the run goes on until all jobs started.

    `gangs`: all jobs, including those that run at the start. `never_started`: jobs without a start until the
    end of the run; `waits` includes their time until then. `utilisation`: the share of GPU time that was
    held. `goodput`: the share of the GPU time held in the whole run that was not lost. `jain`: Jain's index
    over tenants of the held GPU time divided by the fair share. `lost_gpu_hours`: GPU time of evicted runs,
    and of pods before their gang was complete. `wait_quantiles`: the waits at 0 %, 1 %, ... 100 % of all
    submitted jobs, in seconds.
    """

    gangs: int
    never_started: int
    waits: dict[str, Waits]
    all_waits: Waits | None
    utilisation: float
    goodput: float | None
    jain: float
    shares: dict[str, float]
    evictions: int
    evictions_per_thousand: float
    lost_gpu_hours: float
    tenants: dict[str, TenantOutcome]
    wait_quantiles: tuple[float, ...]
    timeline: Timeline


def waits_by_size(waited: Sequence[tuple[Job, int]]) -> dict[str, Waits]:
    """The waits of each size class that has jobs; `waited` in milliseconds."""
    found, below = {}, -1
    for name, most in SIZES:
        mine = waits_of([ms for job, ms in waited if below < job.total <= most])
        below = most
        if mine is not None:
            found[name] = mine
    return found


def waits_of(waited_ms: Sequence[int]) -> Waits | None:
    """Mean and 95th percentile; None without jobs."""
    mine = sorted(ms / 1000 for ms in waited_ms)
    if not mine:
        return None
    rank = math.ceil(0.95 * len(mine)) - 1
    return Waits(len(mine), round(sum(mine) / len(mine), 1), round(mine[rank], 1))


def quantiles(waited_ms: Sequence[int]) -> tuple[float, ...]:
    """The smallest waits that at least 0 %, 1 %, ... 100 % of the jobs do not exceed, in seconds."""
    mine = sorted(ms / 1000 for ms in waited_ms)
    if not mine:
        return ()
    ranks = (max(1, math.ceil(percent * len(mine) / 100)) for percent in range(101))
    return tuple(round(mine[rank - 1], 1) for rank in ranks)
