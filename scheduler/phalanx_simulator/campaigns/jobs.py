"""Jobs of a campaign: read from a trace or drawn with its statistics; their manifests."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from phalanx.clock import Random
from phalanx.model.names import LABEL_QUEUE
from phalanx.model.resources import CPU, GPU, MEMORY

from phalanx_simulator.campaigns import philly
from phalanx_simulator.embedded.kubelets.kubelet import EXIT_CODE, FAILS_AFTER_SECONDS
from phalanx_simulator.embedded.manifests import job as job_manifest
from phalanx_simulator.embedded.manifests import pod_group, priority_class, queue
from phalanx_simulator.embedded.pod_requests import allocatable_of
from phalanx_simulator.embedded.store import Object

_HOUR_S: Final = 3600
_GPUS_PER_POD: Final = 8
_COLUMNS: Final = ("timestamp", "duration", "num_gpus", "cluster")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CORES_PER_GPU: Final = 4
_GIB_PER_GPU: Final = 32
_URGENT: Final = "urgent"
_URGENT_VALUE: Final = 1000
_RETRIES: Final = 10_000
"""backoffLimit of a job that succeeds: its failures are injected, so it is retried until it is done."""


class TraceError(ValueError):
    """A trace file cannot be read; the message names file, line and field."""

    def __init__(self, path: Path, line: int, field: str, why: str) -> None:
        super().__init__(f"{path}, line {line}, {field}: {why}")


class TraceJob(Struct, frozen=True):
    """A job of `pods` pods with `gpus_per_pod` GPUs each; several pods form a gang.

    submit_s: seconds since the start. run_s: runtime once all pods run. exit_code: 0 if it succeeds. urgent:
    of higher priority than the others.
    """

    name: str
    submit_s: float
    queue: str
    pods: int
    gpus_per_pod: int
    run_s: float
    exit_code: int = 0
    urgent: bool = False

    @property
    def gpu_seconds(self) -> float:
        """GPU time that the job uses."""
        return self.pods * self.gpus_per_pod * self.run_s


def read_trace(path: Path, *, gpus_per_pod: int = _GPUS_PER_POD) -> tuple[TraceJob, ...]:
    """Read the jobs of a CSV file in order of submission, the first at 0 s.

    Columns: timestamp (ISO 8601, UTC), duration (seconds), num_gpus, cluster (becomes the queue); others are
    ignored. `gpus_per_pod` is the maximum of one pod. Raises TraceError, and OSError.
    """
    with path.open(newline="", encoding="utf-8") as file:
        try:
            read = list(_rows(path, csv.DictReader(file), gpus_per_pod))
        except (UnicodeDecodeError, csv.Error) as error:
            raise TraceError(path, 1, "the file", f"is no CSV in UTF-8: {error}") from None
    if not read:
        raise TraceError(path, 2, "the first job", "there is none")
    first = min(job.submit_s for job in read)
    moved = [replace(job, submit_s=job.submit_s - first) for job in read]
    return tuple(sorted(moved, key=lambda job: job.submit_s))


def _rows(path: Path, rows: "csv.DictReader[str]", gpus_per_pod: int) -> Iterator[TraceJob]:
    missing = [column for column in _COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise TraceError(path, 1, ", ".join(missing), "there is no such column")
    for row in rows:
        yield _job_of(path, rows.line_num, row, gpus_per_pod)


def _job_of(path: Path, line: int, row: Mapping[str, str | None], gpus_per_pod: int) -> TraceJob:
    for column in _COLUMNS:
        if not row[column]:
            raise TraceError(path, line, column, "is empty")
    submit_s = _time(path, line, str(row["timestamp"]))
    queue_name = _queue(path, line, str(row["cluster"]))
    pods, size = _shape(_gpus(path, line, str(row["num_gpus"])), gpus_per_pod)
    return TraceJob(
        name=f"job-{line}",
        submit_s=submit_s,
        queue=queue_name,
        pods=pods,
        gpus_per_pod=size,
        run_s=_duration(path, line, str(row["duration"])),
    )


def _time(path: Path, line: int, text: str) -> float:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(
            path, line, "timestamp", f"{text!r} is not a time such as 2017-10-09 07:01:55"
        ) from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _duration(path: Path, line: int, text: str) -> float:
    try:
        read = float(text)
    except ValueError:
        read = math.nan
    if not 0 < read < math.inf:
        raise TraceError(path, line, "duration", f"{text!r} is not a number of seconds above 0")
    return read


def _gpus(path: Path, line: int, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise TraceError(path, line, "num_gpus", f"{text!r} is not a number of GPUs, 1 or more")
    return int(text)


def _queue(path: Path, line: int, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise TraceError(path, line, "cluster", f"{text!r} cannot be the name of a queue (RFC 1123 label)")
    return text


def _shape(gpus: int, gpus_per_pod: int) -> tuple[int, int]:
    """Number of pods and GPUs of each: equal pods, as few as possible."""
    size = next(size for size in range(min(gpus, gpus_per_pod), 0, -1) if gpus % size == 0)
    return gpus // size, size


def synthetic_jobs(
    *, random: Random, hours: float, nodes: Iterable[Object], load: float, gpus_per_pod: int = _GPUS_PER_POD
) -> tuple[TraceJob, ...]:
    """Draw jobs with the statistics of `philly`, in order of submission.

    load: requested GPU time as a fraction of the GPU time of the nodes (manifests) in these hours; 1 slightly
    overloads the cluster. No job is larger than the cluster, and none runs longer than `hours`.
    """
    gpus, seconds = _gpus_of(nodes), hours * _HOUR_S
    wanted = load * gpus * seconds
    jobs: list[TraceJob] = []
    if gpus > 0 and seconds > 0:
        for submit_s, tenant in _submissions(random, seconds):
            if wanted <= 0:
                break
            job = _drawn_job(len(jobs), submit_s, tenant, gpus, seconds, random, gpus_per_pod)
            wanted -= job.gpu_seconds
            jobs.append(job)
    return tuple(sorted(jobs, key=lambda job: job.submit_s))


def fitted(
    jobs: Sequence[TraceJob], *, random: Random, hours: float, nodes: Iterable[Object], load: float
) -> tuple[TraceJob, ...]:
    """Cut a random stretch out of a trace and scale its times to `hours`.

    The stretch ends when it has the requested load, or with the trace. Jobs that are larger than the cluster
    are left out; runtimes are at most `hours`.
    """
    gpus, seconds = _gpus_of(nodes), hours * _HOUR_S
    wanted = load * gpus * seconds
    stretch: list[TraceJob] = []
    for job in jobs[random.randrange(max(1, len(jobs))) :]:
        if wanted <= 0:
            break
        if job.pods * job.gpus_per_pod <= gpus:
            stretch.append(replace(job, run_s=min(job.run_s, seconds)))
            wanted -= stretch[-1].gpu_seconds
    return _rescaled(stretch, seconds)


def _rescaled(jobs: Sequence[TraceJob], seconds: float) -> tuple[TraceJob, ...]:
    if not jobs:
        return ()
    first, last = jobs[0].submit_s, jobs[-1].submit_s
    factor = seconds / (last - first + 1)
    return tuple(replace(job, submit_s=round((job.submit_s - first) * factor, 3)) for job in jobs)


def _gpus_of(nodes: Iterable[Object]) -> int:
    return sum(allocatable_of(node).get(GPU, 0) for node in nodes)


def _submissions(random: Random, seconds: float) -> Iterator[tuple[float, str]]:
    """Endless submission times and tenants; each burst belongs to one tenant."""
    tenants = range(1, len(philly.JOBS_BY_TENANT) + 1)
    while True:
        now = random.uniform(0, seconds)
        tenant = f"tenant-{random.choices(tenants, philly.JOBS_BY_TENANT)[0]}"
        for _ in range(philly.burst_size(random)):
            yield round(now % seconds, 3), tenant
            now += random.expovariate(math.log(2) / philly.GAP_S)


def _drawn_job(
    index: int,
    submit_s: float,
    tenant: str,
    cluster_gpus: int,
    longest_s: float,
    random: Random,
    gpus_per_pod: int,
) -> TraceJob:
    sizes = {size: count for size, count in philly.JOBS_BY_GPUS.items() if size <= cluster_gpus}
    gpus = random.choices(list(sizes), list(sizes.values()))[0]
    run_s = philly.duration_s(gpus, random)
    exit_code = 1 if philly.fails(run_s, random) else 0
    pods, size = _shape(gpus, gpus_per_pod)
    return TraceJob(
        f"job-{index}", submit_s, tenant, pods, size, run_s=min(run_s, longest_s), exit_code=exit_code
    )


def queues(jobs: Iterable[TraceJob]) -> tuple[Object, ...]:
    """The Queues that the jobs name, each once, without limits."""
    return tuple(queue(name) for name in sorted({job.queue: None for job in jobs}))


def priority_classes(jobs: Iterable[TraceJob]) -> tuple[Object, ...]:
    """The PriorityClass of urgent jobs, if there are any."""
    return (priority_class(_URGENT, _URGENT_VALUE),) if any(job.urgent for job in jobs) else ()


def manifests(job: TraceJob, *, namespace: str = "default") -> tuple[Object, ...]:
    """The manifests of a job: the Job, and a PodGroup if it has several pods.

    A job with an exit code fails once, as does its Job. A job that succeeds is retried after each failure.
    """
    is_gang = job.pods > 1
    priority = {"priorityClassName": _URGENT} if job.urgent else {}
    whole = job_manifest(
        job.name,
        members=job.pods,
        namespace=namespace,
        group=job.name if is_gang else "",
        requests=_requests(job.gpus_per_pod),
        run_s=None if job.exit_code else job.run_s,
        **priority,
    )
    whole["spec"]["backoffLimit"] = 0 if job.exit_code else _RETRIES
    metadata = whole["spec"]["template"]["metadata"]
    if job.exit_code:
        end = {FAILS_AFTER_SECONDS: str(job.run_s), EXIT_CODE: str(job.exit_code)}
        metadata["annotations"] = {**metadata.get("annotations", {}), **end}
    if not is_gang:
        metadata["labels"][LABEL_QUEUE] = job.queue
        return (whole,)
    group = pod_group(job.name, min_member=job.pods, namespace=namespace, queue=job.queue, **priority)
    return group, whole


def _requests(gpus: int) -> dict[str, str]:
    return {GPU: str(gpus), CPU: str(_CORES_PER_GPU * gpus), MEMORY: f"{_GIB_PER_GPU * gpus}Gi"}


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
    """Draw a job of at most half of the cluster, so that it fits while some nodes are out of service."""
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
