"""The jobs of some days of a trace, including those that still run from before, and a cluster for them."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from phalanx_simulator.campaigns.jobs import TraceJob

GPUS_PER_NODE: Final = 8

DAY_MS: Final = 24 * 3600 * 1000


class Job(Struct, frozen=True, gc=False):
    """`pods` pods of `gpus` GPUs that start together; times in milliseconds since the first day.

    `number`: its rank in the order of submission. `is_new`: it was submitted in these days; other jobs run at
    the start, and `run_ms` is their remaining run time.
    """

    number: int
    name: str
    tenant: str
    pods: int
    gpus: int
    submit_ms: int
    run_ms: int
    is_new: bool

    @property
    def total(self) -> int:
        """GPUs of all pods."""
        return self.pods * self.gpus


class Week(Struct, frozen=True):
    """`wanted`: the average demand in GPUs if each job ran from its submission.

    `first_day`: the start in whole days after the first job of the trace. `part`: GPU time by tenant, of all
    jobs of the trace, not only of those of the week.
    """

    first_day: int
    days: int
    jobs: tuple[Job, ...]
    wanted: float
    part: dict[str, float]

    @property
    def end_ms(self) -> int:
        """The end of the last day."""
        return self.days * DAY_MS


class Cluster(Struct, frozen=True):
    """Nodes of eight GPUs, and the guarantee of each tenant; the guarantees sum to all GPUs."""

    nodes: int
    guarantees: dict[str, int]

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.nodes * GPUS_PER_NODE


def busiest(trace: Sequence[TraceJob], days: int) -> int:
    """The first of `days` consecutive days with the most submissions, counted from the first job."""
    by_day: dict[int, int] = {}
    for job in trace:
        day = int(job.submit_s * 1000) // DAY_MS
        by_day[day] = by_day.get(day, 0) + 1
    sums = {day: sum(by_day.get(day + more, 0) for more in range(days)) for day in by_day}
    return min(sums, key=lambda day: (-sums[day], day), default=0)


def week_of(trace: Sequence[TraceJob], *, first_day: int, days: int) -> Week:
    """The jobs submitted in these days, and the rest of earlier jobs that would still run."""
    begin, end = first_day * DAY_MS, (first_day + days) * DAY_MS
    jobs: list[Job] = []
    part: dict[str, float] = {}
    for each in trace:
        submit, run = int(each.submit_s * 1000), int(each.run_s * 1000)
        part[each.queue] = part.get(each.queue, 0.0) + each.gpu_seconds
        left = run if submit >= begin else submit + run - begin
        if submit < end and left > 0:
            jobs.append(
                Job(
                    number=len(jobs),
                    name=each.name,
                    tenant=each.queue,
                    pods=each.pods,
                    gpus=each.gpus_per_pod,
                    submit_ms=max(0, submit - begin),
                    run_ms=left,
                    is_new=submit >= begin,
                )
            )
    return Week(first_day, days, tuple(jobs), _wanted(jobs, end - begin), part)


def _wanted(jobs: Sequence[Job], span_ms: int) -> float:
    return sum(job.total * min(job.run_ms, span_ms - job.submit_ms) for job in jobs) / span_ms


def cluster_for(week: Week, load_percent: int) -> Cluster:
    """So many nodes that the demand is this share of all GPUs, and at least enough for the largest job."""
    largest = max((job.pods for job in week.jobs), default=1)
    nodes = max(largest, math.ceil(week.wanted * 100 / load_percent / GPUS_PER_NODE))
    return Cluster(nodes, _divided(nodes * GPUS_PER_NODE, week.part))


def _divided(gpus: int, part: dict[str, float]) -> dict[str, int]:
    """Whole GPUs in proportion to the parts, by the largest remainder method."""
    total = sum(part.values())
    exact = {name: gpus * part[name] / total for name in sorted(part)}
    given = {name: int(amount) for name, amount in exact.items()}
    rest = sorted(exact, key=lambda name: (given[name] - exact[name], name))
    for name in rest[: gpus - sum(given.values())]:
        given[name] += 1
    return given
