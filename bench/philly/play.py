"""Jobs come, are decided on, run as long as they do, and end: events in virtual time, without any API."""

import heapq
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from msgspec import Struct

from bench.philly.book import Book, Outcome
from bench.philly.week import Cluster, Job, Week

GRACE_MS: Final = 30_000
"""How long pods that are evicted still hold their nodes: Kubernetes' usual grace period, used up."""

PATIENCE: Final = 5
"""So many times the days in all, until those that have not started never will have."""


class Decided(Struct, frozen=True):
    """Pods that got nodes, by job; jobs whose pods are being deleted; when to decide again at the latest."""

    placed: tuple[tuple[Job, int], ...] = ()
    evicted: tuple[Job, ...] = ()
    wake_at: int | None = None


class Scheduler(Protocol):
    """Decides after something happened; `now` in milliseconds since the week began."""

    def arrived(self, job: Job) -> None:
        """It is to be placed."""
        ...

    def ended(self, job: Job) -> None:
        """It gives back what it held."""
        ...

    def gone(self, job: Job) -> None:
        """Its evicted pods have given back what they held, and it waits again."""
        ...

    def decide(self, now: int) -> Decided:
        """What to do now."""
        ...


class _What(IntEnum):
    """What happens in one moment, in this order."""

    ENDED = 0
    GONE = 1
    ARRIVED = 2


class _Play:
    """One run under way. `due_at`: when to decide next, None while there is no reason to."""

    def __init__(self, week: Week, cluster: Cluster, scheduler: Scheduler, period_ms: int) -> None:
        self._scheduler = scheduler
        self._period = period_ms
        self._jobs = week.jobs
        self._book = Book(week, cluster)
        self._events = [(job.submit_ms, _What.ARRIVED, job.number, 0) for job in week.jobs]
        heapq.heapify(self._events)
        self._run = [0] * len(week.jobs)
        """The number of each job's run: the end of one that was cut short is none."""
        self._decided_at = -period_ms
        self._due_at: int | None = None

    def until(self, end_ms: int, told: Callable[[int], None]) -> Outcome:
        began = time.process_time()
        while not self._book.is_over:
            now = self._next()
            if now is None or now > end_ms:
                break
            self._book.pass_to(now)
            told(now)
            if self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events)[1:])
                self._be_due(now)
            else:
                self._decided_at = now
                self._carry_out(self._scheduler.decide(now), now)
        return self._book.outcome(time.process_time() - began)

    def _next(self) -> int | None:
        times = [self._events[0][0]] if self._events else []
        return min(times if self._due_at is None else [*times, self._due_at], default=None)

    def _be_due(self, wanted: int | None) -> None:
        """Decide then, or before if that time has come, but not too soon after the last time."""
        if wanted is not None:
            at = max(wanted, self._decided_at + self._period)
            self._due_at = at if self._due_at is None else min(at, self._due_at)

    def _happen(self, what: _What, number: int, run: int) -> None:
        job = self._jobs[number]
        if what is _What.ARRIVED:
            self._book.arrived(job)
            self._scheduler.arrived(job)
        elif what is _What.GONE:
            self._book.gone(job)
            self._scheduler.gone(job)
        elif run == self._run[number]:
            self._book.ended(job)
            self._scheduler.ended(job)

    def _carry_out(self, decided: Decided, now: int) -> None:
        for job, pods in decided.placed:
            if self._book.placed(job, pods):
                heapq.heappush(
                    self._events, (now + job.run_ms, _What.ENDED, job.number, self._run[job.number])
                )
        for job in decided.evicted:
            self._book.evicted()
            self._run[job.number] += 1
            heapq.heappush(self._events, (now + GRACE_MS, _What.GONE, job.number, 0))
        self._due_at = None
        self._be_due(decided.wake_at)


def play(
    week: Week,
    cluster: Cluster,
    scheduler: Scheduler,
    *,
    period_ms: int,
    told: Callable[[int], None] = lambda _now: None,
) -> Outcome:
    """Play the days, and on until all jobs have started; `told` hears each moment.

    Decisions are taken at most once in `period_ms`: what happens meanwhile is decided on together.
    """
    return _Play(week, cluster, scheduler, period_ms).until(PATIENCE * week.end_ms, told)
