"""Kinds of Volcano 1.14: API structs of what is read or refused.

PodGroup and Queue of `scheduling.volcano.sh/v1beta1`, Job of `batch.volcano.sh/v1alpha1`, HyperNode of
`topology.volcano.sh/v1alpha1`.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import field

from phalanx.model.api.core import Quantity
from phalanx.model.api.kind import Kind, Watched, pod_groups, queues
from phalanx.model.api.meta import ApiStruct, Int32, KubeObject, LabelSelector


class NetworkTopology(ApiStruct, frozen=True):
    """A tier of HyperNodes."""

    mode: str = ""
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ApiStruct, frozen=True):
    """Subgroups: pods with equal values of some labels."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int32 | None = None
    min_sub_groups: Int32 | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class VolcanoPodGroupSpec(ApiStruct, frozen=True):
    """Desired behaviour of a group of pods."""

    min_member: Int32 = 0
    min_task_member: Mapping[str, Int32] = {}
    """Minimum per task, which is what pods name in `volcano.sh/task-spec`."""

    queue: str = ""
    priority_class_name: str = ""
    min_resources: Mapping[str, Quantity] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class VolcanoCondition(ApiStruct, frozen=True):
    """One condition; Volcano leaves out empty fields."""

    type: str = ""
    status: str = ""
    transition_id: str = field(name="transitionID", default="")
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class VolcanoPodGroupStatus(ApiStruct, frozen=True):
    """Observed state of a group of pods."""

    phase: str = ""
    """Pending, Inqueue, Running, Unknown or Completed."""

    conditions: tuple[VolcanoCondition, ...] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class VolcanoPodGroup(KubeObject, frozen=True):
    """A group of pods, which name it in the annotation `scheduling.k8s.io/group-name`."""

    spec: VolcanoPodGroupSpec = VolcanoPodGroupSpec()
    status: VolcanoPodGroupStatus = VolcanoPodGroupStatus()
    unknown_fields: tuple[str, ...] = ()
    """No field of the API: the paths of fields of the spec that the structs lack, set by the decoder."""


class QueueGuarantee(ApiStruct, frozen=True):
    """What is kept free for a queue."""

    resource: Mapping[str, Quantity] = {}


class VolcanoQueueSpec(ApiStruct, frozen=True):
    """Quota of a queue."""

    weight: Int32 | None = None
    capability: Mapping[str, Quantity] = {}
    deserved: Mapping[str, Quantity] = {}
    guarantee: QueueGuarantee | None = None
    parent: str = ""
    priority: Int32 | None = None
    reclaimable: bool | None = None
    dequeue_strategy: str = ""
    """fifo or traverse."""

    affinity: Any = None
    extend_clusters: Any = None
    type: str = ""


class VolcanoQueueStatus(ApiStruct, frozen=True):
    """Of the observed state, what closes a queue: Open, Closed, Closing or Unknown."""

    state: str = ""


class VolcanoQueue(KubeObject, frozen=True):
    spec: VolcanoQueueSpec = VolcanoQueueSpec()
    status: VolcanoQueueStatus = VolcanoQueueStatus()
    unknown_fields: tuple[str, ...] = ()
    """As of VolcanoPodGroup."""


class VolcanoJobSpec(ApiStruct, frozen=True):
    """Of a Job, only who schedules its pods."""

    scheduler_name: str = ""


class VolcanoJob(KubeObject, frozen=True):
    """A Job of Volcano. Its controller creates the pods once the phase of the PodGroup is Inqueue."""

    spec: VolcanoJobSpec = VolcanoJobSpec()


class ExactMatch(ApiStruct, frozen=True):
    """One node or HyperNode."""

    name: str = ""


class RegexMatch(ApiStruct, frozen=True):
    """Nodes in whose names the pattern occurs."""

    pattern: str = ""


class MemberSelector(ApiStruct, frozen=True):
    """Members by name, pattern or labels; all that any of them selects."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(ApiStruct, frozen=True):
    """Members of one type: Node or HyperNode."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ApiStruct, frozen=True):
    """The members of a HyperNode, and how far apart they are: the higher the tier, the farther."""

    tier: Int32 = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(KubeObject, frozen=True):
    """A domain of the network."""

    spec: HyperNodeSpec = HyperNodeSpec()


KINDS: Final = (
    pod_groups(VolcanoPodGroup, "scheduling.volcano.sh/v1beta1"),
    Kind(HyperNode, "topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False, optional=True),
    Kind(
        VolcanoJob,
        "batch.volcano.sh/v1alpha1",
        "jobs",
        namespaced=True,
        optional=True,
        served_as="Job",
        watched=Watched.FOR_STATUSES,
    ),
    queues(VolcanoQueue, "scheduling.volcano.sh/v1beta1"),
)
