"""A write context for writers in tests and benchmarks, with a fence that always allows writes."""

from typing import Any

from phalanx.clock import SystemClock, seeded_random
from phalanx.kube.client import Client
from phalanx.kube.writing import Fence, WriteContext
from phalanx.observe.ports import WriteReports
from phalanx.ports import Transport


class AlwaysLeading:
    """The fence of a single writer without a Lease."""

    epoch = 0

    def may_write(self) -> bool:
        return True

    def remaining(self) -> float:
        return float("inf")


class NoTransport:
    """A transport for writers whose requests a test replaces."""

    request: Any = None
    stream: Any = None
    close: Any = None


def write_context(transport: Transport, *, reports: WriteReports, fence: Fence | None = None) -> WriteContext:
    return WriteContext(
        client=Client(transport),
        fence=fence if fence is not None else AlwaysLeading(),
        clock=SystemClock(),
        reports=reports,
        jitter=seeded_random(1).random,
    )
