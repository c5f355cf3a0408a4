"""Accounts for the jobs of a run: waits, GPU time held and lost, and the fair share of each tenant."""

from collections.abc import Mapping
from typing import Final

from phalanx_simulator.lab.engine.cluster import Tenancy
from phalanx_simulator.lab.engine.fairness import fair_shares, jain
from phalanx_simulator.lab.engine.jobs import Job, Window
from phalanx_simulator.lab.engine.outcome import Outcome, TenantOutcome, quantiles, waits_by_size, waits_of
from phalanx_simulator.lab.engine.timeline import TimelineSums

_HOUR_MS: Final = 3_600_000


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
    """Records events in the order of time; `now` in milliseconds since the start of the window."""

    def __init__(self, window: Window, tenancy: Tenancy) -> None:
        self._window = window
        self._tenancy = tenancy
        self._now = 0
        self._jobs: dict[int, _JobState] = {}
        self._ended: dict[int, int] = {}
        self._evictions = 0
        self._lost = 0
        self._held_in_all = 0
        self._wanted = dict.fromkeys(tenancy.guarantees, 0)
        self._held = dict.fromkeys(tenancy.guarantees, 0)
        self._fair_shares: Mapping[str, float] = {}
        self._sum_held = dict.fromkeys(tenancy.guarantees, 0)
        self._fair_share_sum = dict.fromkeys(tenancy.guarantees, 0.0)
        self._timeline = TimelineSums(window.end_ms)
        self._unstarted = {job.number for job in window.jobs if job.is_new}

    @property
    def is_over(self) -> bool:
        """Whether the window is over and each of its jobs has started."""
        return self._now >= self._window.end_ms and not self._unstarted

    def pass_to(self, now: int) -> None:
        """Advance the time."""
        before, self._now = self._now, now
        if now == before:
            return
        held = sum(self._held.values())
        self._held_in_all += held * (now - before)
        span = min(now, self._window.end_ms) - min(before, self._window.end_ms)
        if span <= 0:
            return
        self._timeline.add(before, now, held=held, waiting=sum(self._wanted.values()) - held)
        if not self._fair_shares:
            self._fair_shares = fair_shares(self._wanted, self._tenancy)
        for tenant, amount in self._held.items():
            self._sum_held[tenant] += amount * span
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
        assert sum(self._held.values()) <= self._tenancy.gpus, "more GPUs are held than exist"
        if wanted:
            self._fair_shares = {}

    def outcome(self) -> Outcome:
        """The figures."""
        waited = [(job, ms) for job, ms in self._waited() if job.is_new]
        all_ms = [ms for _, ms in waited]
        shares = {
            tenant: round(held / self._fair_share_sum[tenant], 4)
            for tenant, held in self._sum_held.items()
            if self._fair_share_sum[tenant] > 0
        }
        lost = self._lost + self._idle()
        capacity = self._tenancy.gpus * self._window.end_ms
        return Outcome(
            gangs=len(self._window.jobs),
            never_started=len(self._unstarted),
            waits=waits_by_size(waited),
            all_waits=waits_of(all_ms),
            utilisation=round(sum(self._sum_held.values()) / capacity, 4) if capacity else 0.0,
            goodput=round(1 - lost / self._held_in_all, 4) if self._held_in_all else None,
            jain=round(jain(shares.values()), 4),
            shares=shares,
            evictions=self._evictions,
            evictions_per_thousand=round(1000 * self._evictions / max(1, len(self._window.jobs)), 2),
            lost_gpu_hours=round(lost / _HOUR_MS, 1),
            tenants={
                tenant: TenantOutcome(
                    waits_of([ms for job, ms in waited if job.tenant == tenant]),
                    round(self._sum_held[tenant] / _HOUR_MS, 1),
                    shares.get(tenant),
                )
                for tenant in sorted(self._sum_held)
            },
            wait_quantiles=quantiles(all_ms),
            timeline=self._timeline.timeline(),
        )

    def _waited(self) -> list[tuple[Job, int]]:
        """How long each job waited until now, in milliseconds; jobs that have not arrived are left out."""
        for state in self._jobs.values():
            if state.whole_at is None:
                state.waited += self._now - state.since
        waited = self._ended | {number: state.waited for number, state in self._jobs.items()}
        return [(job, waited[job.number]) for job in self._window.jobs if job.number in waited]

    def _idle(self) -> int:
        """GPU time held by incomplete gangs at the end."""
        return sum(
            state.idle + state.held * job.gpus * (self._now - state.changed)
            for job in self._window.jobs
            if (state := self._jobs.get(job.number)) is not None and state.whole_at is None
        )
