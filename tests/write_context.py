"""What writers need in tests and benchmarks: a fence that is always open, and a whole write context."""

from typing import Any

from phalanx.clock import SystemClock, seeded_random
from phalanx.kube.client import Client
from phalanx.kube.writing import Fence, WriteContext
from phalanx.observe.ports import WriteReports
from phalanx.ports import Transport


class AlwaysLeading:
    """The fence of a writer that runs alone, without a Lease."""

    epoch = 0

    def may_write(self) -> bool:
        return True

    def remaining(self) -> float:
        return float("inf")


class NoTransport:
    """For writers whose requests a test replaces."""

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
