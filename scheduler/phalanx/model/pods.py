"""Pods, and the shape that makes pods interchangeable."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field, structs

from phalanx.model.names import API_GROUP, NodeName, PodUid, ShapeKey
from phalanx.model.pod_failures import FailedContainer, PodFailure
from phalanx.model.reasons import Objection
from phalanx.model.resources import Resources
from phalanx.model.supplies.devices.extended_resources import ExtendedRequests


class PodPhase(StrEnum):
    """Pod phases of Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


_FINISHED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class Requirement(Struct, frozen=True, gc=False):
    """A requirement on a label or field, with the operators of Kubernetes."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    on_field: bool = False


class Term(Struct, frozen=True, gc=False):
    """Requirements that all hold. As a node selector term, an empty one matches no node."""

    requirements: tuple[Requirement, ...] = ()


class WeightedTerm(Struct, frozen=True, gc=False):
    """A preferred node affinity term."""

    weight: int
    """1 to 100."""
    term: Term


class AffinityTerm(Struct, frozen=True, gc=False):
    """A term of pod affinity or anti-affinity.

    Two nodes are near each other if they have the same value of the label `topology_key`.
    """

    topology_key: str
    selector: Term | None = None
    """Labels of the pods it matches. None matches no pod; without requirements it matches all."""
    namespaces: tuple[str, ...] = ()
    """Namespaces of these pods; the namespace of the pod itself if it names none."""
    namespace_selector: Term | None = None
    """Adds namespaces by label; without requirements it adds all."""
    for_spread: bool = False
    """Whether a spread constraint counts by it: terminating pods do not count then."""


class SpreadConstraint(Struct, frozen=True, gc=False):
    """A topology spread constraint, one that must hold or one that is preferred."""

    term: AffinityTerm
    """The key, and the pods that are counted. A selector of None counts none."""
    max_skew: int
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether only nodes count that the node affinity of the pod allows."""
    honors_taints: bool = False
    """Whether only nodes count whose taints the pod tolerates."""


class WeightedPodTerm(Struct, frozen=True, gc=False):
    """A preferred term of pod affinity, with a negative weight one of pod anti-affinity."""

    weight: int
    """1 to 100, or -1 to -100; 0 for required affinity of a placed pod, whose weight is configured."""
    term: AffinityTerm


AffinityTerms = tuple[AffinityTerm, ...]
"""Terms of affinity that apply together, or a single term of anti-affinity."""


class PodLabels(Struct, frozen=True, weakref=True, cache_hash=True):
    """Labels of a pod as sorted (key, value) pairs; pods with equal labels share the object."""

    pairs: tuple[tuple[str, str], ...] = ()


NO_LABELS: Final = PodLabels()

GROUP_INDEX_STRIDE: Final = 10**9
"""Rank numbers reserved for one group of pods of a workload; no label has a larger index."""


class AffinityState(Struct, frozen=True, gc=False):
    """How the pods of a shape relate to the affinity terms of a snapshot, by index. Set within a session."""

    base_key: ShapeKey
    """The key of the shape without this state."""
    affinity: int | None = None
    """The pod's own affinity."""
    anti_affinity: tuple[int, ...] = ()
    """The pod's own anti-affinity."""
    matched_by: tuple[int, ...] = ()
    """The terms that select the pod."""
    spread: tuple[int, ...] = ()
    """The terms by which the pod's own spread constraints count."""
    is_in_gang: bool = False
    """Whether `affinity` selects waiting members of the gang that have another affinity."""
    can_start: bool = False
    """Whether `affinity` selects waiting members of the gang that have the same affinity."""
    preferred: tuple[tuple[int, int], ...] = ()
    """The pod's own preferred terms, each with its weight. Preferred terms have indices of their own."""
    preferred_by: tuple[int, ...] = ()
    """The preferred terms that select the pod."""
    preferred_spread: tuple[int, ...] = ()
    """The terms by which the pod's own preferred spread constraints count."""

    @property
    def is_required(self) -> bool:
        """Whether required terms concern the pod, and not only preferred ones."""
        return self.affinity is not None or bool(self.anti_affinity or self.matched_by or self.spread)


class MountedClaim(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim that a pod mounts."""

    key: str
    """Namespace and name, as "namespace/name"."""
    ephemeral: str = ""
    """Name of the generic ephemeral volume for which the claim is created; empty for other volumes."""


class Provisioning(Struct, frozen=True, gc=False):
    """A volume that is provisioned for a claim once the node of its pod is known (WaitForFirstConsumer)."""

    storage_class: str
    selected_node: str = ""
    """The node for which a provisioner was asked for the volume; empty for none yet."""
    needs_space: int | None = None
    """Bytes of the volume, if the driver publishes how much space it has left; None if it does not."""


class WantedVolume(Struct, frozen=True, gc=False):
    """What a claim needs of a volume that exists already. Claims with equal ones are interchangeable."""

    storage_class: str
    size: int = 0
    modes: tuple[str, ...] = ()
    volume_mode: str = ""
    attributes_class: str = ""
    selector: Term | None = None
    """Of labels of volumes; None for all."""


class VolumeClaim(Struct, frozen=True):
    """A PersistentVolumeClaim: whether a volume is bound to it, and which nodes can mount that volume.

    `node_affinity`: alternative terms; empty means every node. `why_unusable` is set if a pod with this claim
    cannot be placed yet; it is shown to users.
    """

    name: str = ""
    node_affinity: tuple[Term, ...] = ()
    why_unusable: str = ""
    for_one_pod: bool = False
    """Whether only one pod at a time may use it (ReadWriteOncePod)."""
    owner: str = ""
    """UID of the object that controls it."""
    provisioning: Provisioning | None = None
    """Set for a claim without a volume; `node_affinity` then says for which nodes one can be provisioned."""
    wanted: WantedVolume | None = None
    """Set for a claim that takes a volume which exists already, if one fits, when its pod is placed."""
    failed_on: tuple[NodeName, ...] = ()
    """Nodes for which provisioning has failed lately. Set within a session."""
    driver: str = ""
    """The CSI driver of its volume, or the one that will provision it."""
    handle: str = ""
    """What distinguishes its volume from others of the driver; empty for a volume that has no driver."""
    needs_driver: bool = False
    """Whether the driver must be installed on the node (preventPodSchedulingIfMissing)."""


class PodClaim(Struct, frozen=True, gc=False):
    """One entry of `spec.resourceClaims`: a claim to devices.

    `claim` is empty as long as no claim was made of its template.

    `is_own`: the claim was made for this pod. `is_renewed`: the next pod gets another one like it, without
    devices, which does not exist yet. `is_needless`: the controller says that no claim is needed.
    `state`: a digest of the claim as it is now, of a pod that waits; empty for none.
    `is_for_extended`: it is no entry of the pod, but the claim that a scheduler makes for extended resources.
    `is_sole`: it was made for no pod, has no devices yet, and no other pod of the cluster state names it.
    """

    name: str
    claim: str
    is_own: bool = False
    is_needless: bool = False
    state: str = ""
    is_for_extended: bool = False
    is_renewed: bool = False
    is_sole: bool = False


class ClaimCharge(Struct, frozen=True, gc=False):
    """Devices of claims that the queue of a pod is charged for, by resource name, sorted.

    They are no requests: which nodes have devices is decided otherwise. `claim`: "namespace/name" of a claim
    that several pods may use, which is charged once for all of them; empty for what only this pod uses.
    """

    amounts: tuple[tuple[str, int], ...]
    claim: str = ""


class Toleration(Struct, frozen=True, gc=False):
    """One toleration. An empty key with Exists matches all taints, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Device(Struct, frozen=True, gc=False):
    """A GPU of a node, and the part of it that a pod has."""

    index: int
    """From 0."""
    taken: int
    """Thousandths, 1 to 1000."""


PlainValue = str | int | bool | None
"""Value of a field of a PodGroup that is neither an object nor a list."""


class DeclaredFields(Struct, frozen=True, gc=False):
    """Fields of a pod beyond its shape that enabled plugins read, as they declare it."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    pod_group: tuple[tuple[str, PlainValue], ...] = ()


class PodShape(Struct, frozen=True, weakref=True):
    """The fields of a pod that matter for its placement. Pods with equal keys are interchangeable."""

    key: ShapeKey
    requests: Resources
    """As Kubernetes counts them, with init containers, sidecars, overhead, and `pods: 1`."""
    node_selector: tuple[tuple[str, str], ...] = ()
    required_affinity: tuple[Term, ...] = ()
    """Alternatives; empty for no requirement."""
    preferred_affinity: tuple[WeightedTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unsupported: tuple[str, ...] = ()
    """Paths of fields that are not supported, such as `spec.resourceClaims`. They refuse a waiting pod."""
    invalid: tuple[str, ...] = ()
    """Errors as "path: error". They refuse a waiting pod; an invalid amount counts as the largest one."""
    affinity: AffinityTerms = ()
    anti_affinity: AffinityTerms = ()
    spread: tuple[SpreadConstraint, ...] = ()
    preferred_spread: tuple[SpreadConstraint, ...] = ()
    """Constraints with ScheduleAnyway."""
    preferred_pod_terms: tuple[WeightedPodTerm, ...] = ()
    """Preferred pod affinity and anti-affinity. A term that is written twice counts twice."""
    affinity_state: AffinityState | None = None
    numa: str = ""
    """Resource name for what a kubelet may align to a NUMA zone (`supplies/numa`); empty for nothing."""
    supplied: tuple[tuple[str, int], ...] = field(default=(), name="host_ports")
    """What the pod uses of supplies (`phalanx.model.supplies`), by resource. Within a session also what it
    uses of volumes."""
    device_slot: str = ""
    """Resource name for the devices of its claims (`phalanx.model.supplies.devices.session.needs`); empty for
    none. Set within a session; then it is part of the key."""
    node_features: tuple[str, ...] = ()
    """Features that the kubelet of its node must declare, sorted."""
    images: tuple[str, ...] = ()
    """Images of its containers and volumes, sorted, if images have a price."""
    volumes: tuple[VolumeClaim, ...] | None = None
    """States of the claims, sorted. Set within a session; then they are part of the key, without what
    distinguishes equal ones: the names are those of the claims of one of the pods."""
    volume_sets: tuple[tuple[str, tuple[WantedVolume, ...]], ...] = ()
    """Within a session: the resources of `supplied` that count volumes which exist already, each with the
    kinds of claims that it counts, and those that count space for new ones
    (`phalanx.model.supplies.volumes.published`)."""
    declared: DeclaredFields | None = None
    """Set within a session where a plugin declares that it reads such fields; then it is part of the key."""


def without_affinity_state(shape: PodShape) -> PodShape:
    """The shape as it is outside a session; itself where it has no affinity state."""
    if shape.affinity_state is None:
        return shape
    return structs.replace(shape, key=shape.affinity_state.base_key, affinity_state=None)


class Controller(Struct, frozen=True, gc=False):
    """The owner reference that is marked as controller."""

    kind: str
    name: str
    uid: str
    workload: str = ""
    """The name of its `WorkloadKind`; empty for other kinds, whose objects are not read."""


class Scheduled(Struct, frozen=True, gc=False):
    """The PodScheduled condition in the API. An equal one is not written again."""

    status: str
    reason: str = ""
    message: str = ""


class BindBackoff(Struct, frozen=True, gc=False):
    """A bind of the pod failed: its gang is not tried again before a time."""

    until: int
    """Milliseconds since the epoch."""
    failures: int
    """Failed binds in a row."""
    why: str
    failed_on: tuple[NodeName, ...] = ()
    """Nodes for which no volume of the pod could be provisioned, the last one last."""


class Pod(Struct, frozen=True, gc=False):
    """A pod. Times are in seconds since the epoch, 0 if unknown."""

    uid: PodUid
    namespace: str
    name: str
    shape: PodShape
    scheduler_name: str
    created: int
    node: NodeName | None = None
    """Set once it is bound in the API or assumed."""
    assumed: bool = False
    """Whether the scheduler has decided the bind and the API does not show it yet."""
    awaits_devices: bool = False
    """Whether its bind waits until drivers have prepared devices of its gang: no bind of the gang is sent."""
    phase: PodPhase = PodPhase.PENDING
    deleting: bool = False
    gated: bool = False
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    group: str | None = None
    """Name of its PodGroup."""
    dialect: str = API_GROUP
    """API group of this PodGroup."""
    other_groups: tuple[tuple[str, str], ...] = ()
    """Dialect and name of PodGroups that it names as well. They must not be gangs."""
    group_marks: tuple[tuple[str, str], ...] = ()
    """Keys and values that count only if its PodGroup has them too, in other dialects."""
    role: str = ""
    subgroup: str = ""
    min_member: int | None = None
    """Value of the label; None without the label."""
    queue: str | None = None
    """Value of the label."""
    charged_queue: str | None = None
    """The queue for which it was bound or assumed; None without a node, and if unknown."""
    controller: Controller | None = None
    owners: tuple[str, ...] = ()
    """UIDs of all owner references."""
    claims: tuple[MountedClaim, ...] = ()
    """PersistentVolumeClaims that it mounts, sorted by key."""
    device_claims: tuple[PodClaim, ...] = ()
    """Its claims to devices, as written. While it waits, also one for extended resources if devices may
    satisfy them."""
    charges: tuple[ClaimCharge, ...] = ()
    """What its queue is charged for beside its requests: devices of claims. Of a claim that several pods use,
    only one of them has the charge while they have nodes. For pods that wait it is set within a session."""
    extended: ExtendedRequests | None = None
    """What its containers request of extended resources; None for nothing."""
    volumes: tuple[tuple[str, str], ...] = ()
    """With an assumed node: claims by key, and the PersistentVolumes that were decided for them."""
    index: int | None = None
    """Rank in its workload."""
    scheduled: Scheduled | None = None
    bind_backoff: BindBackoff | None = None
    nominated: NodeName | None = None
    """The node that its scheduler expects it to get."""
    failure: PodFailure | None = None
    failed: FailedContainer | None = None
    """The container that failed, if the pod failed and its kubelet says which."""
    disruption: str = ""
    """Reason of a true DisruptionTarget condition: the pod is to be deleted."""
    disrupted: int = 0
    """When that condition became true."""
    ended: int = 0
    """When it failed or its deletion started."""
    grace: int = 0
    """Grace period of its deletion, in seconds."""
    bound_since: int = 0
    """When it got its node."""
    running_since: int = 0
    """When the kubelet started a running pod."""
    ran: tuple[int, int] | None = None
    """Start and end of a succeeded pod; None if unknown."""
    device: Device | None = None
    """Device of its GPU share on its node; None without a share, without a node, or if unknown."""
    problems: tuple[Objection, ...] = ()
    """Errors of its labels and metadata."""
    labels: PodLabels = NO_LABELS
    """Labels without the per-pod ones."""
    per_pod_labels: PodLabels = NO_LABELS
    """Labels that distinguish the pods of a workload."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Those that an enabled plugin reads, as (key, value), sorted."""

    checkpointed: int = 0
    """When its work was last saved."""
    ignored: str = ""
    """Error of a hint that is ignored."""
    restarts_always: bool = False
    """Its kubelet restarts it whenever it ends."""
    is_placeholder: bool = False
    """Whether it stands for a missing member, for which capacity is held."""

    @property
    def all_labels(self) -> tuple[tuple[str, str], ...]:
        return (*self.labels.pairs, *self.per_pod_labels.pairs)

    @property
    def is_finished(self) -> bool:
        """Whether it has ended and holds no capacity."""
        return self.phase in _FINISHED

    @property
    def holds_node(self) -> bool:
        """Whether it holds capacity on its node: bound or assumed, and not finished. Terminating pods do."""
        return self.node is not None and not self.is_finished

    @property
    def is_waiting(self) -> bool:
        """Whether it needs a node."""
        return self.node is None and not self.deleting and not self.is_finished

    @property
    def is_stable(self) -> bool:
        """Whether it is bound in the API and neither finished, terminating nor disrupted."""
        return self.holds_node and not self.assumed and not self.deleting and not self.disruption

    @property
    def group_index(self) -> int | None:
        """Index of its group inside the workload; None without a rank."""
        return None if self.index is None else self.index // GROUP_INDEX_STRIDE

    @property
    def counts_for_gang(self) -> bool:
        """Whether it counts towards minMember: assumed, bound, running or succeeded, and not terminating."""
        if self.phase is PodPhase.SUCCEEDED:
            return True
        return self.node is not None and not self.deleting and self.phase is not PodPhase.FAILED

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


Assignments = Sequence[tuple[NodeName, Sequence[Pod]]]
"""Pods by the node that they are assigned to."""
