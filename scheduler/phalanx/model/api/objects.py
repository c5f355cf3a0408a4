"""PodGroup, Queue and Topology as whole objects: metadata, spec and status."""

from phalanx.model.api.meta import ObjectMeta, Wire
from phalanx.model.api.phalanx import PodGroupSpec, PodGroupStatus, QueueSpec, QueueStatus, TopologySpec


class PodGroup(Wire, frozen=True):
    """A gang."""

    metadata: ObjectMeta
    spec: PodGroupSpec
    status: PodGroupStatus = PodGroupStatus()


class Queue(Wire, frozen=True):
    """Where a tenant's gangs wait."""

    metadata: ObjectMeta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class Topology(Wire, frozen=True):
    """A tree of the cluster."""

    metadata: ObjectMeta
    spec: TopologySpec
