"""Reports that tests read."""

import asyncio
from collections import Counter


class Reports:
    """Counts everything; `changed` is set at each report, for tests that wait."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lateness: list[float] = []
        self.depths: dict[str, int] = {}
        self.changed = asyncio.Event()

    def _note(self, *words: str) -> None:
        self.counts[" ".join(words)] += 1
        self.changed.set()

    async def until(self, key: str, times: int = 1) -> None:
        """Wait for `times` reports of this kind."""
        async with asyncio.timeout(30):
            while self.counts[key] < times:
                self.changed.clear()
                await self.changed.wait()

    def limit_hit(self, limit: str) -> None:
        self._note("limit", limit)

    def watch_event_received(self, kind: str) -> None:
        self._note("heard", kind)

    def watch_failed(self, kind: str, *, error: str) -> None:
        self._note("failed", error)

    def relisted(self, kind: str, *, objects: int) -> None:
        self._note("relisted", kind)

    def object_unreadable(self, kind: str) -> None:
        self._note("unreadable", kind)

    def bind_finished(self, outcome: str, *, seconds: float) -> None:
        self._note("bind", outcome)

    def bind_retried(self, error: str) -> None:
        self._note("retried", error)

    def write_finished(self, write_type: str, outcome: str) -> None:
        self._note(write_type, outcome)

    def writes_pending(self, write_type: str, count: int) -> None:
        self.depths[write_type] = count

    def lease_renewed(self, *, delay_s: float) -> None:
        self.lateness.append(delay_s)
        self._note("renewed")

    def leadership_changed(self, *, leading: bool) -> None:
        self._note("leading" if leading else "not leading")
