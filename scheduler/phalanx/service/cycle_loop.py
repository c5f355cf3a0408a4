"""When a cycle runs, and what becomes of its result."""

import asyncio
from collections.abc import Callable

import structlog

from phalanx.clock import Clock
from phalanx.deciders.port import Decider
from phalanx.framework.retry import cycle_pause_s
from phalanx.limits import (
    CYCLE_STUCK_S,
    INCONCLUSIVE_KEPT_S,
    SHOWN_ERRORS,
)
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.observe.ports import CycleReports
from phalanx.service.cluster_state import ClusterState

_log = structlog.get_logger(__name__)

CarryOut = Callable[[CycleResult], None]


class CycleLoop:
    """Runs a cycle when something changed that could help, or when the last one asked to be woken.

    `defect` is what the last cycle in which an answer of the solver failed its check saw and decided,
    `unsettled` that of one in which the solver found neither a place nor a proof that there is none, at
    most one in ten minutes, and `breaker` why the breaker was open in the last one, empty while it is closed.
    """

    def __init__(
        self, *, view: ClusterState, decider: Decider, dispatch: CarryOut, clock: Clock, reports: CycleReports
    ) -> None:
        self._view = view
        self._decider = decider
        self._carry_out = dispatch
        self._clock = clock
        self._reports = reports
        self._wake_at_ms: int | None = None
        self._deciding_since: float | None = None
        self.breaker = ""
        self.defect: tuple[Snapshot, CycleResult] | None = None
        self.unsettled: tuple[Snapshot, CycleResult] | None = None
        self._keeps_unsettled_from = 0.0

    def why_stuck(self) -> str | None:
        """A plain sentence when the present cycle takes longer than any cycle should."""
        if self._deciding_since is None:
            return None
        seconds = self._clock.monotonic() - self._deciding_since
        return f"a cycle has been deciding for {seconds:.0f} s" if seconds > CYCLE_STUCK_S else None

    async def run(self) -> None:
        """Until cancelled. The first cycle runs at once.

        Each rests as long as it took: what comes meanwhile is decided together, and who thinks in a thread of
        this process leaves half of it to reading and binding.
        """
        self._view.reason.set()
        while True:
            await self._wait_for_a_reason()
            began = self._clock.monotonic()
            await self._one()
            took = self._clock.monotonic() - began
            await asyncio.sleep(cycle_pause_s(took))

    async def _wait_for_a_reason(self) -> None:
        try:
            async with asyncio.timeout(self._seconds_until_wake()):
                await self._view.reason.wait()
        except TimeoutError:
            _log.debug("cycle woken by time")

    def _seconds_until_wake(self) -> float | None:
        if self._wake_at_ms is None:
            return None
        return max(0.0, (self._wake_at_ms - self._clock.now_ms()) / 1000)

    async def _one(self) -> None:
        self._view.reason.clear()
        began = self._deciding_since = self._clock.monotonic()
        result = await self._decider.decide(now_ms=self._clock.now_ms())
        self._deciding_since = None
        seconds = self._clock.monotonic() - began
        self._wake_at_ms = result.wake_at
        self._reports.cycle_finished(result, seconds=seconds)
        self._tell_breaker(result.stats.breaker)
        if result.stats.errors:
            await self._keep_defect(result)
        self._tell_plans(result)
        _log.info(
            "cycle",
            cycle=result.cycle,
            placed=len(result.placements),
            pods=sum(len(placement.binds) for placement in result.placements),
            evicted=len(result.evictions),
            waiting=len(result.verdicts),
            seconds=round(seconds, 3),
        )
        self._carry_out(result)
        if result.stats.inconclusive and self._clock.monotonic() >= self._keeps_unsettled_from:
            await self._keep_unsettled(result)

    async def _keep_defect(self, result: CycleResult) -> None:
        """The wrong answer was dropped and another one found; the bug is still to be mended."""
        self.defect = await self._decider.last()
        _log.error(
            "a wrong answer of the solver was dropped; please report it with `phalanx snapshot --defect`",
            cycle=result.cycle,
            wrong=result.stats.errors[:SHOWN_ERRORS],
            count=len(result.stats.errors),
        )

    async def _keep_unsettled(self, result: CycleResult) -> None:
        """Not with every such cycle: fetching one of a large cluster takes long, and the next is like it."""
        self._keeps_unsettled_from = self._clock.monotonic() + INCONCLUSIVE_KEPT_S
        self.unsettled = await self._decider.last()
        _log.warning(
            "the solver found neither a place nor a proof; `phalanx snapshot --unsettled` saves the cycle",
            cycle=result.cycle,
            count=result.stats.inconclusive,
        )

    def _tell_plans(self, result: CycleResult) -> None:
        for plan in result.plans:
            _log.info(
                "gangs are moved" if plan.is_executed else "gangs could be moved; this is a dry run",
                cycle=plan.cycle,
                so_that=plan.group,
                moves={each.group: dict(each.nodes) for each in plan.moves},
                pods=plan.pods,
                pods_at_least=plan.pods_bound,
                cost=plan.cost,
            )

    def _tell_breaker(self, open_reason: str) -> None:
        """Once when it opens, once when it closes."""
        if open_reason and not self.breaker:
            _log.warning(
                "breaker opened: nothing is evicted, only well-known nodes are used", why=open_reason
            )
        elif self.breaker and not open_reason:
            _log.warning("breaker closed")
        self.breaker = open_reason
