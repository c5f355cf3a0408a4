"""The jobs in the queue of the binder: gangs to start, pods to bind, pods whose claims are given back."""

from enum import IntEnum

import structlog

from phalanx.kube.binding import PodGroupRef
from phalanx.kube.devices.gang_claims import GangClaims, LeftoverClaims
from phalanx.kube.errors import ApiError
from phalanx.kube.flow_control import Backoff
from phalanx.kube.volume_binder import VolumeProgress
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
        claims: GangClaims,
    ) -> None:
        self.placement = placement
        self.claims = claims
        self.pod_group = pod_group
        self.number = number
        self.backoff = backoff
        self.attempts = 0
        self.reads_version = False
        """Whether to read the PodGroup's version, because a write with the cached one has failed."""
        self.placement_written = pod_group is None and placement.record is None
        """Whether the status of the PodGroup shows the placement, and the record of the gang is stored."""
        self.volumes = VolumeProgress()
        self.awaits_devices_since: float | None = None
        """When its devices were first found not to be ready (monotonic seconds)."""
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
    """A pod that was not bound, and may hold claims."""

    def __init__(
        self, claims: GangClaims | LeftoverClaims, bind: Bind | GiveBack, rank: Order, backoff: Backoff
    ) -> None:
        self.claims = claims
        self.bind = bind
        self.rank = rank
        self.backoff = backoff
        self.attempts = 0
