"""What is done for a gang before its pods are bound: a supply that writes something has a preparer.

The binder asks the preparers in their order (`preparers.py`) and knows none by name.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, ClassVar

from phalanx.kube.binding import BinderCallbacks
from phalanx.kube.flow_control import RateLimiter
from phalanx.kube.writing import WriteContext
from phalanx.model.decisions import Bind, GiveBack, Placement
from phalanx.model.events import ApiEvent
from phalanx.model.names import PodUid


class Progress(Enum):
    """How far a preparation is after a step."""

    DONE = auto()
    AGAIN = auto()
    """The placement is to be checked again before the next step."""
    LATER = auto()
    """It waits for other programs, and resumes the gang when there is something to do."""


class Unprepared(Exception):
    """The gang cannot be bound as decided."""

    def __init__(self, message: str, *, bind: Bind | None = None, reason: str = "") -> None:
        """`bind`: the one that is the cause; it is refused for this reason. Without it all are aborted."""
        super().__init__(message)
        self.bind = bind
        self.reason = reason


class Preparation:
    """What one supply does for one placement."""

    precedes_record: ClassVar[bool]
    """Whether it comes before the record of the gang is stored. It is not checked again while it waits."""
    what: ClassVar[str]
    """What it writes, for messages."""

    async def advance(self, binds: Sequence[Bind]) -> Progress:
        """Take the next step for these binds of the placement. After an error of a write it is tried again.

        Raises Unprepared.
        """
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether it waits for other programs, which may take minutes."""
        return False

    @property
    def may_be_withdrawn(self) -> bool:
        """Whether a cycle may end the placement now."""
        return False

    @property
    def has_written(self) -> bool:
        """Whether there is something to release."""
        return False

    async def release(self) -> None:
        """Take back what was written for the gang as a whole, which is not bound."""

    def may_hold(self, pod: PodUid) -> bool:
        """Whether something may have been written for this pod."""
        return False

    async def give_back(self, bind: Bind) -> None:
        """Take back what was written for a pod that is not bound. It may be repeated after an error."""

    def end(self) -> None:
        """A bind of the placement has ended: nothing is waited for any more."""


class Preparer:
    """One supply. It follows the events of the API that end a wait."""

    def prepare(self, placement: Placement, resume: Callable[[], None], log: Any) -> Preparation | None:
        """The preparation of this placement; None if it needs none. `resume` starts the gang again."""
        raise NotImplementedError

    def notice(self, event: ApiEvent) -> None:
        """An event of the API."""

    def resume_all(self) -> None:
        """The scheduler stops: resume all gangs that wait."""

    async def give_back(self, held: GiveBack) -> None:
        """Take back what an earlier leader wrote for a pod without a bind. It may be repeated."""


PreparerType = Callable[[WriteContext, BinderCallbacks, RateLimiter], Preparer]
