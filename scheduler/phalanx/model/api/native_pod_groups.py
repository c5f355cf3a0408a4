"""PodGroup of `scheduling.k8s.io/v1beta1` and CompositePodGroup of `v1alpha3` (Kubernetes 1.37).

API structs of their whole specs.

A field that is missing here is refused by name.
"""

from typing import Final

from phalanx.model.api.core import Present
from phalanx.model.api.kind import Kind, pod_groups
from phalanx.model.api.meta import ApiStruct, Condition, Int32, KubeObject

COMPOSITE_DEPTH_MAX = 4
"""Levels of groups in a tree of composite groups, PodGroups included, as the API says."""


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


class WorkloadReference(ApiStruct, frozen=True):
    """The template from which a group was made."""

    workload_name: str = ""
    template_name: str = ""


class _GroupSpec(ApiStruct, frozen=True):
    """What specs of groups of pods and of groups of groups have in common."""

    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: NativeDisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    """Not read: the API server derives it from the class."""

    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None
    """The CompositePodGroup that contains it."""

    workload_ref: WorkloadReference | None = None
    """Not read."""


class NativePodGroupSpec(_GroupSpec, frozen=True):
    """Desired behaviour of a group of pods."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    resource_claims: tuple[Present, ...] = ()


class NativePodGroupStatus(ApiStruct, frozen=True):
    """Observed state of a group of pods."""

    conditions: tuple[Condition, ...] = ()


class NativePodGroup(KubeObject, frozen=True):
    """A group of pods, which name it in `spec.schedulingGroup.podGroupName`."""

    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()
    unknown_fields: tuple[str, ...] = ()
    """No field of the API: the paths of fields of the spec that the structs lack, set by the decoder."""


class CompositeGangPolicy(ApiStruct, frozen=True):
    """All or nothing: so many groups start together."""

    min_group_count: Int32 = 0


class CompositeSchedulingPolicy(ApiStruct, frozen=True):
    """Exactly one of the two."""

    basic: Present | None = None
    """The groups start one by one."""

    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(_GroupSpec, frozen=True):
    """Desired behaviour of a group of groups."""

    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()


class CompositePodGroup(KubeObject, frozen=True):
    """A group of PodGroups and other CompositePodGroups, which name it as their parent.

    Its status is not read.
    """

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    unknown_fields: tuple[str, ...] = ()
    """See NativePodGroup."""


KINDS: Final = (
    pod_groups(NativePodGroup, "scheduling.k8s.io/v1beta1"),
    Kind(
        CompositePodGroup,
        "scheduling.k8s.io/v1alpha3",
        "compositepodgroups",
        namespaced=True,
        optional=True,
    ),
)
