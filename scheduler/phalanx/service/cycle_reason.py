"""Why the next cycle should run: at once, or soon."""

import asyncio

from phalanx.framework.retry import VERDICT_DELAY_S


class CycleTrigger:
    """Set by whoever hears of something, awaited and cleared by whoever runs cycles."""

    def __init__(self) -> None:
        self._heard = asyncio.Event()
        self._is_urgent = False

    def set(self) -> None:
        """Something may be placed that could not be before."""
        self._is_urgent = True
        self._heard.set()

    def hint(self) -> None:
        """Nothing more can be placed, but something else is to be said of what waits."""
        self._heard.set()

    def is_set(self) -> bool:
        """Whether anything was heard of that no cycle knows yet."""
        return self._heard.is_set()

    def clear(self) -> None:
        """A cycle begins that knows of all this."""
        self._is_urgent = False
        self._heard.clear()

    async def wait(self) -> None:
        """Until something may be placed, or VERDICT_DELAY_S after the first hint."""
        await self._heard.wait()
        if self._is_urgent:
            return
        try:
            async with asyncio.timeout(VERDICT_DELAY_S):
                while not self._is_urgent:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            self._heard.set()
