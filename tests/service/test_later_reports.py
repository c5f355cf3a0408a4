"""One timer for each gang that is reported again without a change."""

import asyncio
from collections.abc import Coroutine

from phalanx.clock import seeded_random
from phalanx.model.names import GangId
from phalanx.service.later_reports import LaterReports
from phalanx_simulator.hosts.event_loop import VirtualLoop

A, B = GangId("a"), GangId("b")


class LoopClock:
    """The time of the loop, less what the clock is behind."""

    behind = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() - self.behind

    def now_ms(self) -> int:
        return int(1000 * self.monotonic())


class Reports:
    """LaterReports in virtual time, and what was reported when."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.reported: list[tuple[GangId, float]] = []
        self.later = LaterReports(self.clock, self.note)

    def note(self, gang: GangId) -> None:
        self.reported.append((gang, asyncio.get_running_loop().time()))


def play(program: Coroutine[None, None, None]) -> None:
    loop = VirtualLoop(seeded_random(1))
    loop.run_until_complete(program)
    loop.close()


def reported(*plans: tuple[GangId, float], gone: GangId = B) -> list[tuple[GangId, float]]:
    """What is reported of these plans, and when, if one gang is gone at once."""
    reports = Reports()

    async def plan_all() -> None:
        for gang, at in plans:
            reports.later.plan(gang, at)
        reports.later.forget(gone)
        await asyncio.sleep(100)
        assert reports.later.gangs == frozenset()

    play(plan_all())
    return reports.reported


def test_a_gang_is_reported_once_at_the_earliest_time() -> None:
    assert reported((A, 30), (A, 10), (A, 20)) == [(A, 10)]


def test_a_time_that_has_passed_is_now() -> None:
    assert reported((A, -5)) == [(A, 0)]


def test_a_gang_that_is_gone_is_not_reported() -> None:
    assert reported((A, 10), (B, 5)) == [(A, 10)]


def test_a_report_is_planned_again_after_a_timer_that_was_early() -> None:
    reports = Reports()

    async def plan_twice() -> None:
        reports.later.plan(A, 10)
        reports.clock.behind = 1
        await asyncio.sleep(10.5)
        reports.later.plan(A, 10)
        await asyncio.sleep(10)

    play(plan_twice())
    assert reports.reported == [(A, 10), (A, 11)]
