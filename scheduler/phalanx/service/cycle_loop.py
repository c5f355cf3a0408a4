"""The cycle loop: when a cycle runs, and what is done with its result."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from phalanx.clock import Clock
from phalanx.deciders.port import Decider, RecordedCycle
from phalanx.framework.retry import cycle_pause_s
from phalanx.limits import CYCLE_STUCK_S, INCONCLUSIVE_KEPT_S
from phalanx.model.decisions import CycleResult
from phalanx.observe.ports import CycleReports
from phalanx.service.cycle_trigger import CycleTrigger

_SHOWN_ERRORS: Final = 8
"""Errors of the solver that one log line lists. The recorded cycle has all of them."""

_ERROR_KEPT_S: Final = 600.0
"""Seconds before another cycle with the same errors is recorded. Fetching one of a large cluster is slow."""

ADVICE_SHOWN_MS: Final = 1000
"""Milliseconds after a cycle until another one shows the advice that was found since."""

_log = structlog.get_logger(__name__)


class CycleLoop:
    """Runs a cycle when an event triggers one, or at the time that the last cycle asked for."""

    def __init__(
        self,
        *,
        trigger: CycleTrigger,
        decider: Decider,
        dispatch: Callable[[CycleResult], None],
        clock: Clock,
        reports: CycleReports,
    ) -> None:
        """`dispatch` starts to carry out the decisions of a cycle."""
        self._trigger = trigger
        self._decider = decider
        self._dispatch = dispatch
        self._clock = clock
        self._reports = reports
        self._wake_at_ms: int | None = None
        self._decided_at_ms = 0
        self._deciding_since: float | None = None
        self.breaker = ""
        """Why the breaker was open in the last cycle; empty while it is closed."""
        self.last_error: RecordedCycle | None = None
        """A recent cycle with a solver answer that failed validation, or an error of a plugin or of ours."""
        self._kept_errors: tuple[str, ...] = ()
        self._errors_kept_until = 0.0
        self.last_inconclusive: RecordedCycle | None = None
        """A recent cycle with an inconclusive solver run; at most one in INCONCLUSIVE_KEPT_S is kept."""
        self._inconclusive_kept_until = 0.0

    def liveness_error(self) -> str | None:
        """Return a sentence when the current cycle takes longer than any cycle should."""
        if self._deciding_since is None:
            return None
        seconds = self._clock.monotonic() - self._deciding_since
        return f"a cycle has been running for {seconds:.0f} s" if seconds > CYCLE_STUCK_S else None

    async def run(self) -> None:
        """Run cycles until cancelled, the first one at once.

        The loop pauses after a cycle for as long as the cycle took. Events of the meantime are decided
        together, and a decider in a thread leaves half of the interpreter's time to reading and binding.
        """
        self._trigger.set()
        while True:
            await self._wait_for_trigger()
            began = self._clock.monotonic()
            await self._run_cycle()
            took = self._clock.monotonic() - began
            await self._search_advice(cycle_pause_s(took))

    async def _search_advice(self, pause: float) -> None:
        """Search advice in the pause after a cycle, and then until another cycle is to run.

        What was found, another cycle shows.
        """
        pause_ends = self._clock.monotonic() + pause
        while (now := self._clock.monotonic()) < pause_ends or not self._is_time_to_decide():
            self._deciding_since = now
            advised = await self._decider.advise()
            self._deciding_since = None
            if advised is None:
                break
            if advised.is_new:
                shown_at_ms = self._decided_at_ms + ADVICE_SHOWN_MS
                self._wake_at_ms = min(self._wake_at_ms or shown_at_ms, shown_at_ms)
            if advised.errors:
                errors = advised.errors
                _log.error("error while searching advice", errors=errors[:_SHOWN_ERRORS], count=len(errors))
        await asyncio.sleep(max(0.0, pause_ends - self._clock.monotonic()))

    def _is_time_to_decide(self) -> bool:
        return self._trigger.is_urgent or self._seconds_until_wake() == 0

    async def _wait_for_trigger(self) -> None:
        try:
            async with asyncio.timeout(self._seconds_until_wake()):
                await self._trigger.wait()
        except TimeoutError:
            _log.debug("cycle triggered by time")

    def _seconds_until_wake(self) -> float | None:
        if self._wake_at_ms is None:
            return None
        return max(0.0, (self._wake_at_ms - self._clock.now_ms()) / 1000)

    async def _run_cycle(self) -> None:
        self._trigger.clear()
        began = self._deciding_since = self._clock.monotonic()
        self._decided_at_ms = self._clock.now_ms()
        result = await self._decider.decide(now_ms=self._decided_at_ms)
        self._deciding_since = None
        seconds = self._clock.monotonic() - began
        self._wake_at_ms = result.wake_at
        self._reports.cycle_finished(result, seconds=seconds)
        self._log_breaker(result.stats.breaker)
        if result.stats.errors:
            await self._keep_error(result)
        self._log_plans(result)
        self._dispatch(result)
        if result.stats.inconclusive and self._clock.monotonic() >= self._inconclusive_kept_until:
            await self._keep_inconclusive(result)

    async def _keep_error(self, result: CycleResult) -> None:
        """Keep the cycle for a bug report, but not each one with the same errors.

        Its decisions are valid, since the wrong answers were dropped.
        """
        errors, now = result.stats.errors, self._clock.monotonic()
        if errors != self._kept_errors or now >= self._errors_kept_until:
            self._kept_errors, self._errors_kept_until = errors, now + _ERROR_KEPT_S
            self.last_error = await self._decider.last()
        _log.error(
            "error of the solver, a plugin or the scheduler; `phalanx snapshot --error` saves the cycle",
            cycle=result.cycle,
            errors=result.stats.errors[:_SHOWN_ERRORS],
            count=len(result.stats.errors),
        )

    async def _keep_inconclusive(self, result: CycleResult) -> None:
        """Keep the cycle, but not every one: fetching a large cluster takes long, and the next is similar."""
        self._inconclusive_kept_until = self._clock.monotonic() + INCONCLUSIVE_KEPT_S
        self.last_inconclusive = await self._decider.last()
        _log.warning(
            "solver found neither placement nor proof; `phalanx snapshot --inconclusive` saves the cycle",
            cycle=result.cycle,
            count=result.stats.inconclusive,
        )

    def _log_plans(self, result: CycleResult) -> None:
        for plan in result.plans:
            _log.info(
                "defragmentation plan executed" if plan.is_executed else "defragmentation plan proposed",
                cycle=plan.cycle,
                for_gang=plan.group,
                moves={move.group: dict(move.nodes) for move in plan.moves},
                pods=plan.pods,
                pods_lower_bound=plan.pods_bound,
                cost=plan.cost,
            )

    def _log_breaker(self, open_reason: str) -> None:
        """Log once when the breaker opens and once when it closes."""
        if open_reason and not self.breaker:
            _log.warning(
                "breaker opened: evictions stopped, new pods on healthy nodes only", reason=open_reason
            )
        elif self.breaker and not open_reason:
            _log.warning("breaker closed")
        self.breaker = open_reason
