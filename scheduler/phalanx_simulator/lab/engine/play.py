"""Plays jobs with a scheduler in virtual time: submissions, decisions, run times. No API."""

import heapq
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from msgspec import Struct

from phalanx_simulator.lab.engine.accounting import Accounting
from phalanx_simulator.lab.engine.cluster import Tenancy
from phalanx_simulator.lab.engine.jobs import Job, Window
from phalanx_simulator.lab.engine.outcome import Outcome

GRACE_MS: Final = 30_000
"""How long evicted pods still hold their nodes: the default grace period of Kubernetes, used in full."""

PATIENCE: Final = 5
"""The run ends after this multiple of the days; jobs without a start count as never started."""


class Decided(Struct, frozen=True):
    """Placed pods by job, evicted jobs, and the latest time of the next decision."""

    placed: tuple[tuple[Job, int], ...] = ()
    evicted: tuple[Job, ...] = ()
    wake_at: int | None = None


class Scheduler(Protocol):
    """Decides after events; `now` in milliseconds since the start of the window."""

    def arrived(self, job: Job) -> None:
        """A job was submitted."""
        ...

    def ended(self, job: Job) -> None:
        """A job has finished and released its nodes."""
        ...

    def gone(self, job: Job) -> None:
        """The evicted pods of a job have released their nodes, and it waits again."""
        ...

    def decide(self, now: int) -> Decided:
        """Decide on placements and evictions."""
        ...


class _What(IntEnum):
    """Kinds of events; at equal times they are processed in this order."""

    ENDED = 0
    GONE = 1
    ARRIVED = 2


class _Play:
    """The state of a run. `decide_at`: the time of the next decision, None while no event requires one."""

    def __init__(self, window: Window, tenancy: Tenancy, scheduler: Scheduler, period_ms: int) -> None:
        self._scheduler = scheduler
        self._period = period_ms
        self._jobs = window.jobs
        self._accounting = Accounting(window, tenancy)
        self._events = [(job.submit_ms, _What.ARRIVED, job.number, 0) for job in window.jobs]
        heapq.heapify(self._events)
        self._run = [0] * len(window.jobs)
        """The number of the current run of each job, so that the end event of an evicted run is ignored."""
        self._decided_at = -period_ms
        self._decide_at: int | None = None

    def until(self, end_ms: int, report_progress: Callable[[int], None]) -> Outcome:
        while not self._accounting.is_over:
            now = self._next()
            if now is None or now > end_ms:
                break
            self._accounting.pass_to(now)
            report_progress(now)
            if self._events and self._events[0][0] <= now:
                self._process(*heapq.heappop(self._events)[1:])
                self._decide_by(now)
            else:
                self._decided_at = now
                self._apply(self._scheduler.decide(now), now)
        return self._accounting.outcome()

    def _next(self) -> int | None:
        times = [self._events[0][0]] if self._events else []
        return min(times if self._decide_at is None else [*times, self._decide_at], default=None)

    def _decide_by(self, wanted: int | None) -> None:
        """Decide at the latest at that time, but not earlier than one period after the last decision."""
        if wanted is not None:
            at = max(wanted, self._decided_at + self._period)
            self._decide_at = at if self._decide_at is None else min(at, self._decide_at)

    def _process(self, what: _What, number: int, run: int) -> None:
        job = self._jobs[number]
        if what is _What.ARRIVED:
            self._accounting.arrived(job)
            self._scheduler.arrived(job)
        elif what is _What.GONE:
            self._accounting.gone(job)
            self._scheduler.gone(job)
        elif run == self._run[number]:
            self._accounting.ended(job)
            self._scheduler.ended(job)

    def _apply(self, decided: Decided, now: int) -> None:
        for job, pods in decided.placed:
            if self._accounting.placed(job, pods):
                heapq.heappush(
                    self._events, (now + job.run_ms, _What.ENDED, job.number, self._run[job.number])
                )
        for job in decided.evicted:
            self._accounting.evicted()
            self._run[job.number] += 1
            heapq.heappush(self._events, (now + GRACE_MS, _What.GONE, job.number, 0))
        self._decide_at = None
        self._decide_by(decided.wake_at)


def play(
    window: Window,
    tenancy: Tenancy,
    scheduler: Scheduler,
    *,
    period_ms: int,
    report_progress: Callable[[int], None] = lambda _now: None,
) -> Outcome:
    """Play the days and go on until all jobs have started; `report_progress` is called with each time.

    The scheduler decides at most once in `period_ms`; events in between are decided on together.
    """
    return _Play(window, tenancy, scheduler, period_ms).until(PATIENCE * window.end_ms, report_progress)
