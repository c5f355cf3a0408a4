"""What became of each bind. Exactly one of these is reported for every bind that the binder took."""

from msgspec import Struct

from phalanx.model.api.core import Pod
from phalanx.model.decisions import Bind


class Bound(Struct, frozen=True):
    """The API says that the pod is bound to the node that was decided."""

    bind: Bind


class BindRefused(Struct, frozen=True):
    """Certainly not bound by us. `pod` is its state as read after the refusal, where it was read.

    `reason` is the API's own word (Conflict, NotFound, Forbidden, ...) or one of ours: AlreadyBound,
    Recreated, Deleting, GaveUp.
    """

    bind: Bind
    reason: str
    message: str
    pod: Pod | None = None


class BindAborted(Struct, frozen=True):
    """Never sent, or certainly not applied, and not tried any more: the plan does not hold, or we stop."""

    bind: Bind
    why: str


class LeadershipLost(Struct, frozen=True):
    """We may not write any more. With `sent`, the bind may have been applied or may still land."""

    bind: Bind
    sent: bool


BindOutcome = Bound | BindRefused | BindAborted | LeadershipLost
