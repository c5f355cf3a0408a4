"""The trigger of the next cycle: at once, or after a short delay."""

import asyncio

from phalanx.framework.retry import VERDICT_DELAY_S


class CycleTrigger:
    """Set by events, awaited and cleared by the cycle loop."""

    def __init__(self) -> None:
        self._triggered = asyncio.Event()
        self._is_urgent = False

    def set(self) -> None:
        """Run a cycle at once: something that could not be placed before may fit now."""
        self._is_urgent = True
        self._triggered.set()

    def set_delayed(self) -> None:
        """Run a cycle soon: nothing more can be placed, but the verdicts of waiting gangs may change."""
        self._triggered.set()

    def is_set(self) -> bool:
        """Whether an event arrived that no cycle has seen."""
        return self._triggered.is_set()

    @property
    def is_urgent(self) -> bool:
        """Whether a cycle is to run at once."""
        return self._is_urgent

    def clear(self) -> None:
        """Forget the events so far, because a cycle starts that sees them."""
        self._is_urgent = False
        self._triggered.clear()

    async def wait(self) -> None:
        """Wait for an urgent event, or for VERDICT_DELAY_S after the first one that is not urgent."""
        await self._triggered.wait()
        if self._is_urgent:
            return
        try:
            async with asyncio.timeout(VERDICT_DELAY_S):
                while not self._is_urgent:
                    self._triggered.clear()
                    await self._triggered.wait()
        except TimeoutError:
            self._triggered.set()
