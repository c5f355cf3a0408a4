"""Kinds of KAI: API structs of what is read, refused or written.

PodGroup of `scheduling.run.ai/v2alpha2`, Queue of `scheduling.run.ai/v2`, Topology of
`kai.scheduler/v1alpha1`.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import field

from phalanx.model.api.kind import Kind, pod_groups, queues
from phalanx.model.api.meta import ApiStruct, Int32, KubeObject


class KaiTopologyConstraint(ApiStruct, frozen=True):
    """Levels of a Topology of KAI, by their node labels."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class KaiSubGroup(ApiStruct, frozen=True):
    """A named part of a group."""

    name: str = ""
    min_member: Int32 | None = None
    """Of a subgroup that contains no others."""

    min_sub_group: Int32 | None = None
    """Of a subgroup that contains others: how many of them are needed. None: all."""

    parent: str | None = None
    topology_constraint: KaiTopologyConstraint | None = None


class KaiPodGroupSpec(ApiStruct, frozen=True):
    """Desired behaviour of a group of pods."""

    min_member: Int32 | None = None
    min_sub_group: Int32 | None = None
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: KaiTopologyConstraint = KaiTopologyConstraint()
    sub_groups: tuple[KaiSubGroup, ...] = ()
    mark_unschedulable: bool | None = None
    scheduling_backoff: Int32 | None = None
    preemption_delay: str | None = None
    staleness_grace_period: str | None = None


class KaiSchedulingCondition(ApiStruct, frozen=True):
    """Why a group waits on a node pool."""

    type: str = ""
    node_pool: str = ""
    reason: str = ""
    message: str = ""
    reasons: tuple[Mapping[str, Any], ...] = ()
    last_transition_time: str | None = None
    status: str = ""
    transition_id: str = field(name="transitionID", default="")


class KaiPodGroupStatus(ApiStruct, frozen=True):
    """Of the observed state, what the scheduler writes."""

    scheduling_conditions: tuple[KaiSchedulingCondition, ...] = ()


class KaiPodGroup(KubeObject, frozen=True):
    """A group of pods, which name it in the annotation `pod-group-name`."""

    spec: KaiPodGroupSpec = KaiPodGroupSpec()
    status: KaiPodGroupStatus = KaiPodGroupStatus()
    unknown_fields: tuple[str, ...] = ()
    """No field of the API: the paths of fields of the spec that the structs lack, set by the decoder."""


class KaiQueueResource(ApiStruct, frozen=True):
    """Quota of one resource: GPUs, thousandths of a core, or megabytes. -1 stands for no bound."""

    quota: float = 0
    over_quota_weight: float = 0
    limit: float = 0
    lending_limit: float | None = None


class KaiQueueResources(ApiStruct, frozen=True):
    """Quota of the three resources that have one. What is not written is 0."""

    gpu: KaiQueueResource = KaiQueueResource()
    cpu: KaiQueueResource = KaiQueueResource()
    memory: KaiQueueResource = KaiQueueResource()


class KaiQueueSpec(ApiStruct, frozen=True):
    """Quota and policies of a queue."""

    display_name: str = ""
    parent_queue: str = ""
    resources: KaiQueueResources | None = None
    priority: Int32 | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


class KaiQueue(KubeObject, frozen=True):
    spec: KaiQueueSpec = KaiQueueSpec()
    unknown_fields: tuple[str, ...] = ()
    """As of KaiPodGroup."""


class KaiLevel(ApiStruct, frozen=True):
    node_label: str = ""


class KaiTopologySpec(ApiStruct, frozen=True):
    """The levels of the cluster, the widest first."""

    levels: tuple[KaiLevel, ...] = ()


class KaiTopology(KubeObject, frozen=True):
    """A tree of the cluster."""

    spec: KaiTopologySpec = KaiTopologySpec()


KINDS: Final = (
    pod_groups(KaiPodGroup, "scheduling.run.ai/v2alpha2"),
    Kind(
        KaiTopology,
        "kai.scheduler/v1alpha1",
        "topologies",
        namespaced=False,
        optional=True,
        served_as="Topology",
    ),
    queues(KaiQueue, "scheduling.run.ai/v2"),
)
