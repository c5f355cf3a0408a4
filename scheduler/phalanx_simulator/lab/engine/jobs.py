"""Jobs of a history, and the days of it that are played."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

DAY_MS: Final = 24 * 3600 * 1000
_HOUR_S: Final = 3600

DECLARED_RUNTIMES_S: Final = (
    *(900, _HOUR_S, 4 * _HOUR_S, 12 * _HOUR_S),
    *(days * 24 * _HOUR_S for days in (1, 2, 4, 7, 14, 30, 60)),
)
"""The maximum run times that users declare: the least sufficient one, since users declare round numbers."""


class RecordedJob(Struct, frozen=True, gc=False):
    """A job as its history has it: `pods` pods of `gpus` GPUs that start together.

    `submit_ms`: milliseconds since the first job. `cpu_milli`, `memory_mib`: of one pod. `limit_s`: the
    maximum run time that its user declared. `models`: the GPU models that it accepts, empty for all.
    """

    name: str
    tenant: str
    submit_ms: int
    run_ms: int
    pods: int
    gpus: int
    cpu_milli: int = 0
    memory_mib: int = 0
    limit_s: int | None = None
    priority: int = 0
    models: tuple[str, ...] = ()

    @property
    def gpu_seconds(self) -> float:
        """GPU time that it uses."""
        return self.pods * self.gpus * (self.run_ms / 1000)


class Job(Struct, frozen=True, gc=False):
    """`pods` pods of `gpus` GPUs that start together; times in milliseconds since the first day.

    `number`: its rank in the order of submission. `is_new`: it was submitted in these days; other jobs run at
    the start, and `run_ms` is their remaining run time. Other fields as of RecordedJob.
    """

    number: int
    name: str
    tenant: str
    pods: int
    gpus: int
    submit_ms: int
    run_ms: int
    is_new: bool
    cpu_milli: int = 0
    memory_mib: int = 0
    limit_s: int | None = None
    priority: int = 0
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """GPUs of all pods."""
        return self.pods * self.gpus


class Window(Struct, frozen=True):
    """`wanted`: the average demand in GPUs if each job ran from its submission.

    `first_day`: the start in whole days after the first job of the history. `part`: GPU time by tenant, of
    all jobs of the history, not only of those of the window.
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


def busiest(submitted_ms: Iterable[int], days: int) -> int:
    """The first of `days` consecutive days with the most submissions, counted from the first job."""
    by_day: dict[int, int] = {}
    for each in submitted_ms:
        by_day[each // DAY_MS] = by_day.get(each // DAY_MS, 0) + 1
    sums = {day: sum(by_day.get(day + more, 0) for more in range(days)) for day in by_day}
    return min(sums, key=lambda day: (-sums[day], day), default=0)


def window_of(
    history: Sequence[RecordedJob], *, first_day: int, days: int, rounds_limits: bool = True
) -> Window:
    """The jobs submitted in these days, and the rest of earlier jobs that would still run.

    `history` is in order of submission. `rounds_limits`: a job without a declared maximum run time gets the
    least sufficient round one.
    """
    begin, end = first_day * DAY_MS, (first_day + days) * DAY_MS
    jobs: list[Job] = []
    part: dict[str, float] = {}
    for each in history:
        part[each.tenant] = part.get(each.tenant, 0.0) + each.gpu_seconds
        left = each.run_ms if each.submit_ms >= begin else each.submit_ms + each.run_ms - begin
        if each.submit_ms < end and left > 0:
            jobs.append(_job_of(each, len(jobs), begin=begin, left=left, rounds_limits=rounds_limits))
    return Window(first_day, days, tuple(jobs), _wanted(jobs, end - begin), part)


def _job_of(each: RecordedJob, number: int, *, begin: int, left: int, rounds_limits: bool) -> Job:
    limit = declared_runtime_s(left) if rounds_limits else None
    if each.limit_s is not None:
        limit = max(1, each.limit_s - (each.run_ms - left) // 1000)
    return Job(
        number=number,
        name=each.name,
        tenant=each.tenant,
        pods=each.pods,
        gpus=each.gpus,
        submit_ms=max(0, each.submit_ms - begin),
        run_ms=left,
        is_new=each.submit_ms >= begin,
        cpu_milli=each.cpu_milli,
        memory_mib=each.memory_mib,
        limit_s=limit,
        priority=each.priority,
        models=each.models,
    )


def _wanted(jobs: Sequence[Job], span_ms: int) -> float:
    return sum(job.total * min(job.run_ms, span_ms - job.submit_ms) for job in jobs) / span_ms


def declared_runtime_s(run_ms: int) -> int:
    """The maximum run time in seconds that a user declares for a job of this run time."""
    return next((each for each in DECLARED_RUNTIMES_S if each * 1000 >= run_ms), -(-run_ms // 1000))


def divided(gpus: int, part: Mapping[str, float]) -> dict[str, int]:
    """Whole GPUs in proportion to the parts, by the largest remainder method."""
    total = sum(part.values())
    exact = {name: gpus * part[name] / total if total else 0.0 for name in sorted(part)}
    given = {name: int(amount) for name, amount in exact.items()}
    rest = sorted(exact, key=lambda name: (given[name] - exact[name], name))
    for name in rest[: gpus - sum(given.values())]:
        given[name] += 1
    return given
