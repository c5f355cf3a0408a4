"""What became of the jobs: who waited, who held what, what was lost, and what each tenant was due."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bench.philly.week import Cluster, Job, Week

_HOUR_MS: Final = 3_600_000
_CLASSES: Final = (("1", 1), ("2-4", 4), ("5-8", 8), ("9+", 1 << 30))
"""Sizes in GPUs, each up to so many."""


class Waits(Struct, frozen=True, rename="camel"):
    """Of the jobs of one size that were submitted in the week: seconds, before each start, added up."""

    jobs: int
    mean_s: float
    p95_s: float


class Outcome(Struct, frozen=True, rename="camel"):
    """One run. Utilisation and shares are of the week; the run goes on until all its jobs have started.

    `gangs`: jobs, those that were there before included. `never_started`: those that had not even then;
    `waits` counts them until then. `utilisation`: GPU time held, of what there is. `useful`: without what is
    lost of it. `jain`: over tenants, of what each held over what it was due. `lost_gpu_hours`: of runs that
    were cut short, and what pods held before their gang was whole.
    """

    gangs: int
    never_started: int
    waits: dict[str, Waits]
    utilisation: float
    jain: float
    shares: dict[str, float]
    evictions: int
    evictions_per_thousand: float
    lost_gpu_hours: float
    seconds: float


class _Standing:
    """How one job stands. `held`: how many of its pods have a node, since `changed` (ms)."""

    def __init__(self, now: int) -> None:
        self.since = now
        self.waited = 0
        self.held = 0
        self.changed = now
        self.idle = 0
        self.whole_at: int | None = None


class Book:
    """Hears what happens, in the order of time; `now` in milliseconds since the week began."""

    def __init__(self, week: Week, cluster: Cluster) -> None:
        self._week = week
        self._cluster = cluster
        self._now = 0
        self._jobs: dict[int, _Standing] = {}
        self._ended: dict[int, int] = {}
        self._evictions = 0
        self._lost = 0
        self._wanted = dict.fromkeys(cluster.guarantees, 0)
        self._held = dict.fromkeys(cluster.guarantees, 0)
        self._due: Mapping[str, float] = {}
        self._sum_held = dict.fromkeys(cluster.guarantees, 0)
        self._sum_due = dict.fromkeys(cluster.guarantees, 0.0)
        self._unstarted = {job.number for job in week.jobs if job.is_new}

    @property
    def is_over(self) -> bool:
        """Whether the week is over and each of its jobs has started."""
        return self._now >= self._week.end_ms and not self._unstarted

    def pass_to(self, now: int) -> None:
        """Nothing happened until now."""
        span = min(now, self._week.end_ms) - min(self._now, self._week.end_ms)
        self._now = now
        if span <= 0:
            return
        if not self._due:
            self._due = due(self._wanted, self._cluster.guarantees, self._cluster.gpus)
        for tenant, held in self._held.items():
            self._sum_held[tenant] += held * span
            self._sum_due[tenant] += self._due[tenant] * span

    def arrived(self, job: Job) -> None:
        """It was submitted."""
        self._jobs[job.number] = _Standing(self._now)
        self._change(job, wanted=job.total)

    def placed(self, job: Job, pods: int) -> bool:
        """So many of its pods got a node; whether it is whole now."""
        standing = self._jobs[job.number]
        standing.idle += standing.held * job.gpus * (self._now - standing.changed)
        standing.held += pods
        standing.changed = self._now
        assert standing.held <= job.pods, f"{job.name} has {standing.held} pods"
        self._change(job, held=pods * job.gpus)
        if standing.held < job.pods:
            return False
        standing.whole_at = self._now
        standing.waited += self._now - standing.since
        self._lost += standing.idle
        standing.idle = 0
        self._unstarted.discard(job.number)
        return True

    def evicted(self) -> None:
        """A job that was whole has to go."""
        self._evictions += 1

    def gone(self, job: Job) -> None:
        """The pods of one that was evicted have ended: it waits again, from its beginning."""
        standing = self._jobs[job.number]
        assert standing.whole_at is not None
        self._lost += job.total * (self._now - standing.whole_at)
        standing.held, standing.since, standing.changed, standing.whole_at = 0, self._now, self._now, None
        self._change(job, held=-job.total)

    def ended(self, job: Job) -> None:
        """It has done its work."""
        self._ended[job.number] = self._jobs.pop(job.number).waited
        self._change(job, wanted=-job.total, held=-job.total)

    def _change(self, job: Job, *, wanted: int = 0, held: int = 0) -> None:
        self._wanted[job.tenant] += wanted
        self._held[job.tenant] += held
        assert sum(self._held.values()) <= self._cluster.gpus, "more GPUs are held than there are"
        if wanted:
            self._due = {}

    def outcome(self, seconds: float) -> Outcome:
        """All of it; `seconds` is what deciding took."""
        for standing in self._jobs.values():
            if standing.whole_at is None:
                standing.waited += self._now - standing.since
        waited = self._ended | {number: standing.waited for number, standing in self._jobs.items()}
        shares = {
            tenant: round(held / self._sum_due[tenant], 4)
            for tenant, held in self._sum_held.items()
            if self._sum_due[tenant] > 0
        }
        return Outcome(
            gangs=len(self._week.jobs),
            never_started=len(self._unstarted),
            waits=_waits([(job, waited[job.number]) for job in self._week.jobs if job.is_new]),
            utilisation=round(sum(self._sum_held.values()) / (self._cluster.gpus * self._week.end_ms), 4),
            jain=round(jain(shares.values()), 4),
            shares=shares,
            evictions=self._evictions,
            evictions_per_thousand=round(1000 * self._evictions / len(self._week.jobs), 2),
            lost_gpu_hours=round((self._lost + self._idle()) / _HOUR_MS, 1),
            seconds=round(seconds, 1),
        )

    def _idle(self) -> int:
        """What gangs hold at the end that are not whole."""
        return sum(
            standing.idle + standing.held * job.gpus * (self._now - standing.changed)
            for job in self._week.jobs
            if (standing := self._jobs.get(job.number)) is not None and standing.whole_at is None
        )


def due(wanted: Mapping[str, int], guaranteed: Mapping[str, int], gpus: int) -> dict[str, float]:
    """What tenants are due: of their guarantees what they want, and the rest of all GPUs by guarantee.

    No fair share is above the demand. A queue without a guarantee has the weight of one GPU.
    """
    given = {name: float(min(wanted[name], guaranteed[name])) for name in guaranteed}
    left = gpus - sum(given.values())
    hungry = [name for name in guaranteed if wanted[name] > given[name]]
    while hungry and left > 0:
        level = left / sum(max(1, guaranteed[name]) for name in hungry)
        full = [name for name in hungry if wanted[name] - given[name] <= level * max(1, guaranteed[name])]
        for name in full or hungry:
            more = wanted[name] - given[name] if full else level * max(1, guaranteed[name])
            given[name] += more
            left -= more
        hungry = [name for name in hungry if name not in full] if full else []
    return given


def jain(values: Iterable[float]) -> float:
    """1 when all are equal, 1/n when one has everything; 1 of none."""
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0


def _waits(waited: Sequence[tuple[Job, int]]) -> dict[str, Waits]:
    found, below = {}, 0
    for name, most in _CLASSES:
        mine = sorted(ms / 1000 for job, ms in waited if below < job.total <= most)
        below = most
        if mine:
            rank = math.ceil(0.95 * len(mine)) - 1
            found[name] = Waits(len(mine), round(sum(mine) / len(mine), 1), round(mine[rank], 1))
    return found
