"""Jobs of single pods that were recorded: the pods of a gang that ran at the same time are a job."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from phalanx_simulator.lab.engine.jobs import RecordedJob


class PodRun(Struct, frozen=True):
    """One pod that ran. Times in milliseconds since the epoch; CPU and memory of all its containers.

    `gang`: the same for all pods of a gang, and for no others.
    """

    gang: str
    tenant: str
    created_ms: int
    started_ms: int
    ended_ms: int
    gpus: int
    cpu_milli: int
    memory_mib: int


def jobs_of(runs: Iterable[PodRun]) -> tuple[RecordedJob, ...]:
    """The jobs, in order of submission; times since the epoch.

    A gang whose pods all ended before others of it started is a job for each such part. A pod that took the
    place of another one makes the job longer and not larger. All pods of a job have the largest requests.
    """
    by_gang: dict[str, list[PodRun]] = {}
    for run in runs:
        by_gang.setdefault(run.gang, []).append(run)
    parts = [part for gang in by_gang.values() for part in _parts(gang)]
    parts.sort(key=lambda part: (_submitted(part), part[0].gang))
    return tuple(_job(f"job-{number}", part) for number, part in enumerate(parts, start=1))


def _parts(runs: Sequence[PodRun]) -> Iterator[list[PodRun]]:
    """The pods of a gang, divided at the times at which none ran."""
    part: list[PodRun] = []
    end = 0
    for run in sorted(runs, key=lambda each: each.started_ms):
        if part and run.started_ms > end:
            yield part
            part = []
        part.append(run)
        end = max(end, run.ended_ms)
    yield part


def _submitted(part: Sequence[PodRun]) -> int:
    return min(run.created_ms for run in part)


def _job(name: str, part: Sequence[PodRun]) -> RecordedJob:
    first = min(run.started_ms for run in part)
    return RecordedJob(
        name=name,
        tenant=part[0].tenant,
        submit_ms=min(_submitted(part), first),
        run_ms=max(1, max(run.ended_ms for run in part) - first),
        pods=_most_at_once(part),
        gpus=max(run.gpus for run in part),
        cpu_milli=max(run.cpu_milli for run in part),
        memory_mib=max(run.memory_mib for run in part),
    )


def _most_at_once(part: Sequence[PodRun]) -> int:
    """The most pods that ran at the same time; one that ends as another starts does not count with it."""
    starts = [(run.started_ms, 1) for run in part]
    ends = [(max(run.ended_ms, run.started_ms + 1), -1) for run in part]
    return max(accumulate(change for _, change in sorted([*starts, *ends])))
