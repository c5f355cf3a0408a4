"""Queue and Topology: API structs of their spec and status, with every field that `crds/` declares."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.api.kind import Kind
from phalanx.model.api.meta import (
    ApiStruct,
    Condition,
    Int32,
    KubeObject,
    LabelSelector,
    WrittenQuantity,
)
from phalanx.model.names import API_VERSION


class FlavorSpec(ApiStruct, frozen=True):
    """Nodes, selected by labels, that have their own guarantee and limit."""

    name: str
    node_selector: Mapping[str, str]
    guarantee: Mapping[str, WrittenQuantity] = {}
    limit: Mapping[str, WrittenQuantity] = {}


class Cell(ApiStruct, frozen=True):
    """Guaranteed whole domains: `count` domains of a level."""

    level: str
    count: Int32
    topology: str | None = None
    """None: the default topology of the cluster."""


class Reclaim(ApiStruct, frozen=True):
    """Protection against other queues that reclaim borrowed capacity."""

    min_runtime: str | None = None


class QueueDisruption(ApiStruct, frozen=True):
    """What PodGroups of the queue may ask for in their own `disruption`."""

    max_min_runtime: str | None = None
    allow_non_preemptible: bool | None = None


class QueueSpec(ApiStruct, frozen=True):
    """Quota and policies of a queue."""

    parent: str | None = None
    namespace_selector: LabelSelector | None = None
    weight: Int32 | None = None
    guarantee: Mapping[str, WrittenQuantity] = {}
    limit: Mapping[str, WrittenQuantity] = {}
    priority: Int32 | None = None
    flavors: tuple[FlavorSpec, ...] = ()
    cells: tuple[Cell, ...] = ()
    ordering: str | None = None
    backfill: str | None = None
    objective: str | None = None
    admission: str | None = None
    user_label: str | None = None
    state: str | None = None
    reclaim: Reclaim | None = None
    preemption_delay: str | None = None
    disruption: QueueDisruption | None = None
    max_pod_group_priority: Int32 | None = None
    allow_start_by: bool | None = None
    preflight_containers: tuple[str, ...] | None = None


class QueueStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Observed state of a queue. The amounts include its descendants."""

    allocated: Mapping[str, WrittenQuantity] = {}
    guarantee: Mapping[str, WrittenQuantity] = {}
    fair_share: Mapping[str, WrittenQuantity] = {}
    borrowed: Mapping[str, WrittenQuantity] = {}
    average_use: Mapping[str, WrittenQuantity] = {}
    average_use_at: str | None = None
    pending_gangs: Int32 | None = None
    pending_pods: Int32 | None = None
    conditions: tuple[Condition, ...] = ()


class Queue(KubeObject, frozen=True):
    """The waiting gangs of a tenant, and its quota."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class LevelSpec(ApiStruct, frozen=True):
    name: str
    node_label: str
    """The label whose value names the domain of a node."""


class TopologySpec(ApiStruct, frozen=True):
    """The levels of the cluster, the widest first."""

    levels: tuple[LevelSpec, ...]


class Topology(KubeObject, frozen=True):
    """A tree of the cluster."""

    spec: TopologySpec


KINDS: Final = (
    Kind(Queue, API_VERSION, "queues", namespaced=False),
    Kind(Topology, API_VERSION, "topologies", namespaced=False),
)
