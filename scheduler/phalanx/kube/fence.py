"""Who may write, and for how long: asked right before every write."""

from typing import Protocol

from phalanx.limits import WRITE_TIMEOUT_S
from phalanx.ports import RequestNotSent


class Fence(Protocol):
    """Leadership as writers see it."""

    @property
    def epoch(self) -> int:
        """The leader's term; a later leader has a higher one."""
        ...

    def may_write(self) -> bool:
        """Whether a write may be sent now."""
        ...

    def remaining(self) -> float:
        """Seconds until writing must have ended; a write's timeout is no longer."""
        ...


class Unfenced:
    """A scheduler that runs alone, without a Lease."""

    epoch = 0

    def may_write(self) -> bool:
        """Always."""
        return True

    def remaining(self) -> float:
        """For ever."""
        return float("inf")


def write_timeout(fence: Fence) -> float:
    """Seconds for one write, asked when it is sent: it ends before leadership does.

    Raises RequestNotSent where leadership is over by now: between the parts of one piece of work the process
    may have stood still for any time.
    """
    if not fence.may_write():
        raise RequestNotSent("not leading any more")
    return min(WRITE_TIMEOUT_S, fence.remaining())
