"""Accounts for the jobs of a run: waits, GPU time held and lost, and the fair share of each tenant."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bench.philly.week import Cluster, Job, Week

_HOUR_MS: Final = 3_600_000
_CLASSES: Final = (("1", 1), ("2-4", 4), ("5-8", 8), ("9+", 1 << 30))
"""Size classes by the largest number of GPUs."""


class Waits(Struct, frozen=True, rename="camel"):
    """Waits in seconds of the submitted jobs of one size class, summed over all starts of a job."""

    jobs: int
    mean_s: float
    p95_s: float


class Outcome(Struct, frozen=True, rename="camel"):
    """The figures of a run. Utilisation and shares cover the week; the run goes on until all jobs started.

    `gangs`: all jobs, including those that run at the start of the week. `never_started`: jobs without a
    start until the end of the run; `waits` includes their time until then. `utilisation`: the share of GPU
    time that was held. `useful`: the same without lost GPU time. `jain`: Jain's index over tenants of the
    held GPU time divided by the fair share. `lost_gpu_hours`: GPU time of evicted runs, and of pods before
    their gang was complete.
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


class _JobState:
    """The state of one job. `held`: how many of its pods have a node, since `changed` (ms)."""

    def __init__(self, now: int) -> None:
        self.since = now
        self.waited = 0
        self.held = 0
        self.changed = now
        self.idle = 0
        self.whole_at: int | None = None


class Accounting:
    """Records events in the order of time; `now` in milliseconds since the start of the week."""

    def __init__(self, week: Week, cluster: Cluster) -> None:
        self._week = week
        self._cluster = cluster
        self._now = 0
        self._jobs: dict[int, _JobState] = {}
        self._ended: dict[int, int] = {}
        self._evictions = 0
        self._lost = 0
        self._wanted = dict.fromkeys(cluster.guarantees, 0)
        self._held = dict.fromkeys(cluster.guarantees, 0)
        self._fair_shares: Mapping[str, float] = {}
        self._sum_held = dict.fromkeys(cluster.guarantees, 0)
        self._fair_share_sum = dict.fromkeys(cluster.guarantees, 0.0)
        self._unstarted = {job.number for job in week.jobs if job.is_new}

    @property
    def is_over(self) -> bool:
        """Whether the week is over and each of its jobs has started."""
        return self._now >= self._week.end_ms and not self._unstarted

    def pass_to(self, now: int) -> None:
        """Advance the time."""
        span = min(now, self._week.end_ms) - min(self._now, self._week.end_ms)
        self._now = now
        if span <= 0:
            return
        if not self._fair_shares:
            self._fair_shares = fair_shares(self._wanted, self._cluster.guarantees, self._cluster.gpus)
        for tenant, held in self._held.items():
            self._sum_held[tenant] += held * span
            self._fair_share_sum[tenant] += self._fair_shares[tenant] * span

    def arrived(self, job: Job) -> None:
        """A job was submitted."""
        self._jobs[job.number] = _JobState(self._now)
        self._change(job, wanted=job.total)

    def placed(self, job: Job, pods: int) -> bool:
        """Nodes were assigned to this many of its pods; return whether all its pods have one now."""
        state = self._jobs[job.number]
        state.idle += state.held * job.gpus * (self._now - state.changed)
        state.held += pods
        state.changed = self._now
        assert state.held <= job.pods, f"{job.name} has {state.held} pods"
        self._change(job, held=pods * job.gpus)
        if state.held < job.pods:
            return False
        state.whole_at = self._now
        state.waited += self._now - state.since
        self._lost += state.idle
        state.idle = 0
        self._unstarted.discard(job.number)
        return True

    def evicted(self) -> None:
        """A complete job is evicted."""
        self._evictions += 1

    def gone(self, job: Job) -> None:
        """The pods of an evicted job have ended: it waits again and starts from its beginning."""
        state = self._jobs[job.number]
        assert state.whole_at is not None
        self._lost += job.total * (self._now - state.whole_at)
        state.held, state.since, state.changed, state.whole_at = 0, self._now, self._now, None
        self._change(job, held=-job.total)

    def ended(self, job: Job) -> None:
        """A job has finished."""
        self._ended[job.number] = self._jobs.pop(job.number).waited
        self._change(job, wanted=-job.total, held=-job.total)

    def _change(self, job: Job, *, wanted: int = 0, held: int = 0) -> None:
        self._wanted[job.tenant] += wanted
        self._held[job.tenant] += held
        assert sum(self._held.values()) <= self._cluster.gpus, "more GPUs are held than exist"
        if wanted:
            self._fair_shares = {}

    def outcome(self, seconds: float) -> Outcome:
        """The figures; `seconds` is the time of all decisions."""
        for state in self._jobs.values():
            if state.whole_at is None:
                state.waited += self._now - state.since
        waited = self._ended | {number: state.waited for number, state in self._jobs.items()}
        shares = {
            tenant: round(held / self._fair_share_sum[tenant], 4)
            for tenant, held in self._sum_held.items()
            if self._fair_share_sum[tenant] > 0
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
        """GPU time held by incomplete gangs at the end."""
        return sum(
            state.idle + state.held * job.gpus * (self._now - state.changed)
            for job in self._week.jobs
            if (state := self._jobs.get(job.number)) is not None and state.whole_at is None
        )


def fair_shares(wanted: Mapping[str, int], guaranteed: Mapping[str, int], gpus: int) -> dict[str, float]:
    """The fair share of each tenant: its demand up to its guarantee, and the rest of all GPUs by guarantee.

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
    """Jain's fairness index: 1 when all values are equal, 1/n when one has everything; 1 without values."""
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
