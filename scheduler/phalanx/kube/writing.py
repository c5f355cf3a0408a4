"""The shared part of all writers: client, write fence, clock, metrics, jitter."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from phalanx.clock import Clock
from phalanx.kube.client import Client
from phalanx.kube.flow_control import Backoff
from phalanx.limits import WRITE_TIMEOUT_S
from phalanx.observe.ports import WriteReports
from phalanx.ports import RequestNotSent


class Fence(Protocol):
    """Leadership as writers see it; it is checked right before every write."""

    @property
    def epoch(self) -> int:
        """The term of the leader; a later leader has a higher one."""
        ...

    def may_write(self) -> bool:
        """Whether a write may be sent now."""
        ...

    def remaining(self) -> float:
        """Seconds until writing must have ended; the timeout of a write is not longer."""
        ...


def write_timeout(fence: Fence) -> float:
    """Return the timeout in seconds of a write that is sent now, so that it ends before leadership does.

    Raises RequestNotSent where leadership has ended: the process may have been suspended for any time
    between two steps of one write.
    """
    if not fence.may_write():
        raise RequestNotSent("leadership has ended")
    return min(WRITE_TIMEOUT_S, fence.remaining())


class WriteContext(Struct, frozen=True):
    """What every writer to the API server needs."""

    client: Client
    fence: Fence
    clock: Clock
    reports: WriteReports
    jitter: Callable[[], float]
    """Random numbers in [0, 1)."""

    def timeout(self) -> float:
        """See `write_timeout`."""
        return write_timeout(self.fence)

    def backoff(self, *, first: float, longest: float) -> Backoff:
        """Return a new backoff with these delays in seconds."""
        return Backoff(first=first, longest=longest, jitter=self.jitter)
