"""The jobs in the queue of the binder: gangs to start, pods to bind, pods whose claims are given back."""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum

import structlog

from phalanx.kube.binding import PodGroupRef
from phalanx.kube.errors import ApiError
from phalanx.kube.flow_control import Backoff
from phalanx.kube.preparation import Preparation
from phalanx.model.decisions import Bind, GiveBack, Placement

_log = structlog.get_logger("phalanx.kube.binder")


class Rank(IntEnum):
    """Order in the queue."""

    BIND = 0
    GANG = 1


Order = tuple[int, int, int]
"""A rank, the number of the gang, and a position in the gang."""


class GangJob:
    """The state of one submitted placement."""

    def __init__(
        self,
        placement: Placement,
        pod_group: PodGroupRef | None,
        number: int,
        backoff: Backoff,
    ) -> None:
        self.placement = placement
        self.preparations: tuple[Preparation, ...] = ()
        self.left: list[Preparation] = []
        """The preparations that are not done."""
        self.pod_group = pod_group
        self.number = number
        self.backoff = backoff
        self.attempts = 0
        self.reads_version = False
        """Whether to read the PodGroup's version, because a write with the cached one has failed."""
        self.placement_written = pod_group is None and placement.record is None
        """Whether the status of the PodGroup shows the placement, and the record of the gang is stored."""
        self.started = False
        """Whether a bind was sent."""
        self.log = _log.bind(gang=placement.group, cycle=placement.cycle, cause=placement.cause)


class PodJob:
    """The state of one bind."""

    def __init__(self, gang: GangJob, bind: Bind, index: int, backoff: Backoff) -> None:
        self.gang = gang
        self.bind = bind
        self.index = index
        self.backoff = backoff
        self.attempts = 0
        self.unknown = False
        """Whether a request may have been applied, and the pod has not been read since."""
        self.refusal: ApiError | None = None
        self.first_sent = 0.0

    @property
    def name(self) -> str:
        """Namespace and name, for logs."""
        return f"{self.bind.namespace}/{self.bind.name}"


class UnboundJob:
    """A pod that was not bound, and may hold what was written for it."""

    def __init__(
        self,
        pod: Bind | GiveBack,
        steps: Sequence[Callable[[], Awaitable[None]]],
        rank: Order,
        backoff: Backoff,
    ) -> None:
        """`steps` give it back. They may be repeated."""
        self.pod = pod
        self.steps = steps
        self.rank = rank
        self.backoff = backoff
        self.attempts = 0
