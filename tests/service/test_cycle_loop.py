"""When cycles run, and how a stuck cycle is noticed."""

import asyncio
from collections.abc import Callable

from phalanx.cache.cache import Cache
from phalanx.deciders.inline import InlineDecider
from phalanx.deciders.port import RecordedCycle
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.retry import CYCLE_PAUSE_MAX_S, VERDICT_DELAY_S
from phalanx.limits import CYCLE_STUCK_S, INCONCLUSIVE_KEPT_S
from phalanx.model.decisions import Advised, CycleResult, CycleStats
from phalanx.model.memory import Memory
from phalanx.model.snapshot import Snapshot
from phalanx.observe.metrics import Metrics
from phalanx.service.cluster_state import ClusterState
from phalanx.service.cycle_loop import CycleLoop
from phalanx.service.cycle_trigger import CycleTrigger

from tests.manual_clock import ManualClock


class SlowDecider(InlineDecider):
    """Decides when the test sets `go`."""

    def __init__(self) -> None:
        super().__init__(cache=Cache(scheduler_name="phalanx"), config=SchedulerConfig())
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.wake_at: int | None = None
        self.errors: tuple[str, ...] = ()
        self.inconclusive = 0

    async def decide(self, *, now_ms: int) -> CycleResult:
        self.asked.set()
        await self.go.wait()
        self.inconclusive += bool(self.inconclusive)
        stats = CycleStats(errors=self.errors, inconclusive=self.inconclusive)
        self.result = CycleResult(cycle=1, wake_at=self.wake_at, stats=stats)
        return self.result

    async def last(self) -> RecordedCycle:
        return SchedulerConfig(), Snapshot(now=0, seed=0), self.result


def cycles_of(
    decider: SlowDecider, clock: ManualClock, results: list[CycleResult]
) -> tuple[CycleLoop, ClusterState]:
    state = ClusterState(cache=Cache(scheduler_name="phalanx"), decider=decider)
    cycles = CycleLoop(
        trigger=state.trigger, decider=decider, dispatch=results.append, clock=clock, reports=Metrics()
    )
    return cycles, state


async def test_a_cycle_that_takes_too_long_is_reported() -> None:
    decider, clock = SlowDecider(), ManualClock()
    cycles, _ = cycles_of(decider, clock, [])
    assert cycles.liveness_error() is None
    task = asyncio.create_task(cycles.run())
    await decider.asked.wait()
    assert cycles.liveness_error() is None
    clock.seconds = CYCLE_STUCK_S + 1
    assert cycles.liveness_error() == "a cycle has been running for 121 s"
    decider.go.set()
    await asyncio.sleep(0.001)
    assert cycles.liveness_error() is None
    task.cancel()


async def test_the_next_cycle_runs_on_a_trigger_or_at_its_wake_time() -> None:
    results: list[CycleResult] = []
    decider, clock = SlowDecider(), ManualClock()
    cycles, state = cycles_of(decider, clock, results)
    decider.go.set()
    task = asyncio.create_task(cycles.run())
    async with asyncio.timeout(10):
        while len(results) < 1:
            await asyncio.sleep(0.001)
        decider.asked.clear()
        await asyncio.sleep(0.05)
        assert not decider.asked.is_set(), "a cycle without a reason"
        decider.wake_at = 0
        state.trigger.set()
        while len(results) < 4:
            await asyncio.sleep(0.001)
    task.cancel()


async def test_a_hint_is_batched_and_a_trigger_is_not() -> None:
    reason, loop = CycleTrigger(), asyncio.get_running_loop()
    async with asyncio.timeout(10):
        reason.set_delayed()
        began = loop.time()
        await reason.wait()
        assert loop.time() - began >= VERDICT_DELAY_S
        await reason.wait()
        reason.clear()
        waits = asyncio.create_task(reason.wait())
        reason.set_delayed()
        await asyncio.sleep(0)
        reason.set_delayed()
        await asyncio.sleep(0)
        assert not waits.done()
        began = loop.time()
        reason.set()
        await waits
        assert loop.time() - began < VERDICT_DELAY_S


async def test_a_cycle_is_followed_by_a_pause_of_the_same_length() -> None:
    decider, clock = SlowDecider(), ManualClock()
    cycles, state = cycles_of(decider, clock, [])
    task = asyncio.create_task(cycles.run())
    async with asyncio.timeout(10):
        await decider.asked.wait()
        clock.seconds = CYCLE_PAUSE_MAX_S / 2
        decider.asked.clear()
        state.trigger.set()
        began = asyncio.get_running_loop().time()
        decider.go.set()
        await decider.asked.wait()
    assert asyncio.get_running_loop().time() - began >= CYCLE_PAUSE_MAX_S / 2
    task.cancel()


async def test_a_cycle_with_errors_is_kept_when_later_cycles_succeed() -> None:
    results: list[CycleResult] = []
    decider = SlowDecider()
    cycles, state = cycles_of(decider, ManualClock(), results)
    decider.go.set()
    decider.errors = ("cp-sat: 9 cpu on n1, where 8 is free",)
    task = asyncio.create_task(cycles.run())
    async with asyncio.timeout(10):
        while len(results) < 1:
            await asyncio.sleep(0.001)
        decider.errors = ()
        state.trigger.set()
        while len(results) < 2:
            await asyncio.sleep(0.001)
    task.cancel()
    assert cycles.last_error == (SchedulerConfig(), Snapshot(now=0, seed=0), results[0])


async def test_an_inconclusive_cycle_is_kept_for_a_limited_time() -> None:
    results: list[CycleResult] = []
    decider, clock = SlowDecider(), ManualClock()
    cycles, state = cycles_of(decider, clock, results)
    decider.go.set()
    decider.inconclusive = 1
    task = asyncio.create_task(cycles.run())
    kept = []
    async with asyncio.timeout(10):
        for seconds in (INCONCLUSIVE_KEPT_S - 1, INCONCLUSIVE_KEPT_S, 0.0):
            while len(results) <= len(kept):
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)
            kept.append(cycles.last_inconclusive)
            clock.seconds = seconds
            state.trigger.set()
    task.cancel()
    assert kept == [(SchedulerConfig(), Snapshot(now=0, seed=0), results[at]) for at in (0, 0, 2)]


class AdvisingDecider(SlowDecider):
    """Some refusals lack advice after the first cycle; a search takes 1/16 s."""

    def __init__(self, clock: ManualClock, due: int) -> None:
        super().__init__()
        self.go.set()
        self._clock, self._due = clock, due
        self.searched = 0
        self.searched_before: list[int] = []
        """The number of searches before each cycle."""
        self.is_new = True
        self.on_search: Callable[[], None] = lambda: None

    async def decide(self, *, now_ms: int) -> CycleResult:
        self.searched_before.append(self.searched)
        return await super().decide(now_ms=now_ms)

    async def advise(self) -> Advised | None:
        await asyncio.sleep(0)
        if self.searched == self._due:
            return None
        self.searched += 1
        self._clock.seconds += 1 / 16
        self.on_search()
        return Advised(Memory(), self.is_new)

    async def run(self, cycles: CycleLoop, count: int) -> list[int]:
        """Run so many cycles; the numbers of searches before them."""
        task = asyncio.create_task(cycles.run())
        async with asyncio.timeout(10):
            while len(self.searched_before) < count:
                await asyncio.sleep(0.001)
        task.cancel()
        return self.searched_before[:count]


async def test_a_cycle_shows_the_advice_when_all_is_found() -> None:
    decider = AdvisingDecider(clock := ManualClock(), due=3)
    cycles, _ = cycles_of(decider, clock, [])
    assert await decider.run(cycles, 2) == [0, 3]
    assert cycles.liveness_error() is None


async def test_of_much_advice_a_cycle_shows_what_is_found_in_a_second() -> None:
    decider = AdvisingDecider(clock := ManualClock(), due=100)
    cycles, _ = cycles_of(decider, clock, [])
    assert await decider.run(cycles, 3) == [0, 16, 32]


async def test_no_cycle_runs_for_advice_that_is_shown_already() -> None:
    decider = AdvisingDecider(clock := ManualClock(), due=3)
    decider.is_new = False
    results: list[CycleResult] = []
    cycles, _ = cycles_of(decider, clock, results)
    task = asyncio.create_task(cycles.run())
    async with asyncio.timeout(10):
        while decider.searched < 3:
            await asyncio.sleep(0.001)
    clock.seconds += 10
    await asyncio.sleep(0.05)
    assert len(results) == 1
    task.cancel()


async def test_a_cycle_waits_for_no_more_than_one_search() -> None:
    decider = AdvisingDecider(clock := ManualClock(), due=100)
    cycles, state = cycles_of(decider, clock, [])
    decider.on_search = state.trigger.set
    assert await decider.run(cycles, 3) == [0, 1, 2]


async def test_a_search_that_takes_too_long_is_reported() -> None:
    decider = AdvisingDecider(clock := ManualClock(), due=1)
    cycles, _ = cycles_of(decider, clock, [])
    reported: list[str | None] = []

    def hang() -> None:
        clock.seconds += CYCLE_STUCK_S
        reported.append(cycles.liveness_error())

    decider.on_search = hang
    await decider.run(cycles, 2)
    assert reported == ["a cycle has been running for 120 s"]
