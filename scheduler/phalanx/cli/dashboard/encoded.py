"""Pages as JSON, each made once for a reading, however many ask for it at the same time."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from phalanx.cli.dashboard.facts import Facts
from phalanx.cli.dashboard.limits import PAGES_KEPT


class EncodedPages:
    """The pages of the last reading.

    A browser asks twice for the page that it opens: at once, and when its stream begins.
    """

    def __init__(self) -> None:
        self._number = -1
        self._made: OrderedDict[tuple[Facts, str], asyncio.Task[bytes | None]] = OrderedDict()

    async def get(
        self, number: int, facts: Facts, path: str, make: Callable[[], bytes | None]
    ) -> bytes | None:
        """The page of this path and query. `number`: that of the reading."""
        if number != self._number:
            self._made.clear()
            self._number = number
        key = (facts, path)
        task = self._made.get(key)
        if task is None:
            # In a thread: large pages take longer than the loop should wait.
            task = self._made[key] = asyncio.create_task(asyncio.to_thread(make))
            while len(self._made) > PAGES_KEPT:
                self._made.popitem(last=False)
        return await asyncio.shield(task)  # others may wait for it too
