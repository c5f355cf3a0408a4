"""Kinds of Kubernetes itself, reduced to the fields that the scheduler reads or writes.

Every field but the name may be missing, as in a manifest that no API server has defaulted yet. Amounts stay
as written (`Quantity`); `phalanx.model.resources` converts them to integers.
"""

from collections.abc import Mapping

from msgspec import field

from phalanx.model.api.disks import AwsElasticBlockStore, GcePersistentDisk, IscsiVolume, RbdVolume
from phalanx.model.api.meta import ApiStruct, Int32, Int64, KubeObject, LabelSelector, Time

Quantity = Int64 | float | str
"""An amount as it was written. The API server always sends strings; YAML makes numbers of 8 and 0.5."""

# --- Pod ----------------------------------------------------------------------------------------------------


class Present(ApiStruct, frozen=True):
    """A field of which only the presence matters."""


class ResourceRequirements(ApiStruct, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}


class ContainerPort(ApiStruct, frozen=True):
    """A port that a container opens, on the node when `host_port` is not 0."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = ""


class VolumeMount(ApiStruct, frozen=True):
    """Where a container mounts a volume."""

    bind_mount_options: tuple[str, ...] = ()


class ContainerRestartRule(ApiStruct, frozen=True):
    """What happens when a container exits."""

    action: str = ""


class Container(ApiStruct, frozen=True):
    """A container or init container; `restart_policy` Always makes a sidecar of an init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """One expression over a node's labels or fields: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True):
    """Expressions that all hold. A term without expressions matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True):
    """Terms of which at least one holds."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    """A preferred term with its weight, 1 to 100."""

    weight: Int32
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True):
    """Required and preferred node affinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True):
    """A selector of pods, and the node label that defines which nodes are near each other."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    """A preferred term with its weight, 1 to 100."""

    weight: Int32
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiStruct, frozen=True):
    """One toleration; an empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SchedulingGate(ApiStruct, frozen=True):
    """A gate that keeps the pod from being scheduled until its owner removes it."""

    name: str = ""


class ClaimSource(ApiStruct, frozen=True):
    """The PersistentVolumeClaim that a volume mounts."""

    claim_name: str = ""


class ImageSource(ApiStruct, frozen=True):
    """An image that is mounted as a volume."""

    reference: str = ""


class Volume(ApiStruct, frozen=True):
    """A volume. Sources other than these do not affect placement and are not decoded."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    image: ImageSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None


class PodResourceClaim(ApiStruct, frozen=True):
    """A claim to devices: an object, or a template of which a controller makes an object for the pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(ApiStruct, frozen=True):
    """The PodGroup of scheduling.k8s.io to which the pod belongs."""

    pod_group_name: str = ""
    """Required; it is empty if a later release names something else here."""


class TopologySpreadConstraint(ApiStruct, frozen=True):
    """How evenly the selected pods must be spread over the values of a node label."""

    topology_key: str = ""
    when_unsatisfiable: str = ""
    max_skew: Int32 = 0
    min_domains: Int32 | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class PodSpec(ApiStruct, frozen=True):
    """The desired state of a pod."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Mapping[str, Quantity] = {}
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: Present | None = None
    """The group of the pod in Kubernetes 1.35; later releases have `schedulingGroup` instead."""
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""


class PodCondition(ApiStruct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class Terminated(ApiStruct, frozen=True):
    """How a container ended."""

    exit_code: Int32 = 0
    reason: str = ""
    finished_at: Time | None = None


class ContainerState(ApiStruct, frozen=True):
    """Set for a container that has ended."""

    terminated: Terminated | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """Resources that the kubelet has allocated to a container. They differ from the spec during a resize."""

    name: str = ""
    state: ContainerState | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Mapping[str, Quantity] | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True):
    """The claim that was made of a template for the pod; without a name, none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(ApiStruct, frozen=True):
    """The claim that a scheduler made for the extended resources of the pod."""

    resource_claim_name: str = ""


class PodStatus(ApiStruct, frozen=True):
    """The observed state of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Mapping[str, Quantity] | None = None


class Pod(KubeObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- Node ---------------------------------------------------------------------------------------------------


class Taint(ApiStruct, frozen=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(ApiStruct, frozen=True):
    """Cordon and taints of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(ApiStruct, frozen=True):
    """One condition of a node, without what its heartbeats change."""

    type: str
    status: str = ""
    last_transition_time: Time | None = None


class ContainerImage(ApiStruct, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(ApiStruct, frozen=True):
    """Amounts that pods may use. Kubelets report `allocatable`; a manifest may have only `capacity`."""

    allocatable: Mapping[str, Quantity] = {}
    capacity: Mapping[str, Quantity] = {}
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()
    images: tuple[ContainerImage, ...] = ()


class Node(KubeObject, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- other kinds --------------------------------------------------------------------------------------------


class Namespace(KubeObject, frozen=True):
    """A namespace, for its labels."""


class PriorityClass(KubeObject, frozen=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """The pods that a budget protects, and how many of them must remain."""

    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    """How many evictions the budget allows now, and the generation of the spec that this refers to."""

    disruptions_allowed: Int32 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(KubeObject, frozen=True):
    """A budget for voluntary evictions."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """The volume and the class that a claim names."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class Phase(ApiStruct, frozen=True):
    """A status of which only the phase matters."""

    phase: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: Phase = Phase()


class VolumeNodeAffinity(ApiStruct, frozen=True):
    """The nodes that can mount a volume."""

    required: NodeSelector | None = None


class ClaimReference(ApiStruct, frozen=True):
    """The claim that a volume is bound to, or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSIVolumeSource(ApiStruct, frozen=True):
    """The driver of a volume, and its name for the volume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """The fields of a volume that say which nodes can mount it, and for which claim it is."""

    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    csi: CSIVolumeSource | None = None
    capacity: Mapping[str, Quantity] = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolume(KubeObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()


class TopologyRequirement(ApiStruct, frozen=True):
    """A label of nodes, and the values of which one is required."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct, frozen=True):
    """Requirements that all hold."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(KubeObject, frozen=True):
    """How volumes of a class are bound, Immediate or WaitForFirstConsumer, and where they are provisioned."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class LeaseSpec(ApiStruct, frozen=True):
    """The holder of a lease. Times are RFC 3339 with exactly six digits of a second, as Go's MicroTime
    requires."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(KubeObject, frozen=True):
    """A Lease of coordination.k8s.io/v1, read and written."""

    spec: LeaseSpec = LeaseSpec()
