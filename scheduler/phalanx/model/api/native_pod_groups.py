"""PodGroup of `scheduling.k8s.io/v1beta1` (Kubernetes 1.37): API structs of what is read or refused.

Not decoded: `workloadRef`, which names the template of the PodGroup, and `priority`, which the API server
derives from the class.
"""

from phalanx.model.api.core import Present
from phalanx.model.api.meta import ApiStruct, Condition, Int32, ObjectMeta


class GangPolicy(ApiStruct, frozen=True):
    """All or nothing: so many pods start together."""

    min_count: Int32 = 0


class SchedulingPolicy(ApiStruct, frozen=True):
    """Exactly one of the two."""

    basic: Present | None = None
    """The pods start one by one."""

    gang: GangPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True):
    """All pods are on nodes with the same value of this label."""

    key: str = ""


class SchedulingConstraints(ApiStruct, frozen=True):
    """Constraints on the group as a whole; the API allows at most one of topology."""

    topology: tuple[TopologyConstraint, ...] = ()


class NativeDisruptionMode(ApiStruct, frozen=True):
    """Exactly one of the two; the API server sets `single` where a PodGroup has none."""

    single: Present | None = None
    """The pods may be evicted one by one."""

    all: Present | None = None
    """The pods are evicted together or not at all."""


class NativePodGroupSpec(ApiStruct, frozen=True):
    """Desired behaviour of a group of pods."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: NativeDisruptionMode | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    resource_claims: tuple[Present, ...] = ()
    parent_composite_pod_group_name: str | None = None


class NativePodGroupStatus(ApiStruct, frozen=True):
    """Observed state of a group of pods."""

    conditions: tuple[Condition, ...] = ()


class NativePodGroup(ApiStruct, frozen=True):
    """A group of pods, which name it in `spec.schedulingGroup.podGroupName`."""

    metadata: ObjectMeta
    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()
