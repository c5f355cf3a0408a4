"""A pod as the scheduler sees it, and the shape that makes pods interchangeable."""

from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from phalanx.model.names import NodeName, PodUid, ShapeKey
from phalanx.model.reasons import Objection
from phalanx.model.resources import Resources


class PodPhase(StrEnum):
    """Kubernetes' pod phases."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PodFailure(StrEnum):
    """Why a pod failed. Rejected: its kubelet did not take it. NodeLost: its node was lost, or shut down."""

    REJECTED = "Rejected"
    NODE_LOST = "NodeLost"
    INIT_CONTAINER = "InitContainerFailed"
    CONTAINER = "ContainerFailed"

    @property
    def is_of_infrastructure(self) -> bool:
        """Whether the node is to blame, not the work. A preflight check is an init container."""
        return self is not PodFailure.CONTAINER


class Requirement(Struct, frozen=True, gc=False):
    """One label or field requirement of a node selector term. Operators are Kubernetes' own."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    on_field: bool = False


class Term(Struct, frozen=True, gc=False):
    """A node selector term: all its requirements hold. An empty term matches no node."""

    requirements: tuple[Requirement, ...] = ()


class WeightedTerm(Struct, frozen=True, gc=False):
    """A preferred node affinity term with its weight, 1 to 100."""

    weight: int
    term: Term


class AffinityTerm(Struct, frozen=True, gc=False):
    """One required term of pod affinity or anti-affinity: which pods it is about, and what is near them.

    Near a pod are the nodes that have the same value of the label `topology_key` as its own node. `selector`
    None matches no pod, one without requirements every pod. `namespaces` are the pods' own where the term
    names none; `namespace_selector` adds those whose labels match, one without requirements all.
    """

    topology_key: str
    selector: Term | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Term | None = None


AffinityTerms = tuple[AffinityTerm, ...]
"""Pods that match all of these. The terms of anti-affinity stand alone, those of affinity together."""


class PodLabels(Struct, frozen=True, weakref=True, cache_hash=True):
    """The labels of a pod as (key, value), sorted; one object for pods with the same."""

    pairs: tuple[tuple[str, str], ...] = ()


NO_LABELS: Final = PodLabels()

GROUP_INDEX_STRIDE: Final = 10**9
"""Indices in one part of a workload, such as a leader with its workers: more than a label can say."""


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
    is_in_gang: bool = False
    """Whether `affinity` selects waiting members of the gang that have another affinity."""
    can_start: bool = False
    """Whether `affinity` selects waiting members of the gang that have the same affinity."""


class Toleration(Struct, frozen=True, gc=False):
    """One toleration; an empty key with Exists tolerates everything, an empty effect means every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Device(Struct, frozen=True, gc=False):
    """A GPU of a node, by its index from 0, and how much of it a pod takes, in thousandths, 1 to 1000."""

    index: int
    taken: int


class DeclaredFields(Struct, frozen=True, gc=False):
    """Fields of a pod beyond its shape that enabled plugins read, as they declare it."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()


class PodShape(Struct, frozen=True, weakref=True):
    """What the scheduler must know to choose a node for a pod. Pods of equal `key` are interchangeable.

    `requests` counts init containers, sidecars and overhead as Kubernetes does and holds `pods: 1`.
    `required_affinity` terms are alternatives; empty means no requirement. `claims` are PVC names in the
    pod's namespace, which is part of the key when there are any. `unsupported` names the fields that this
    scheduler does not honour yet, as paths such as `spec.resourceClaims`; `invalid` says which fields make no
    sense, as "path: what is wrong". Either refuses a waiting pod; an unreadable amount counts as the largest
    there is. `affinity` and `anti_affinity` are the required terms about other pods. `affinity_state` is
    there only within a session, for pods that such a term of theirs, or of others, is about. `numa` names
    what of the pod a kubelet may insist to find in one NUMA zone, as `phalanx.model.numa` reads it; empty for
    nothing.
    """

    key: ShapeKey
    requests: Resources
    node_selector: tuple[tuple[str, str], ...] = ()
    required_affinity: tuple[Term, ...] = ()
    preferred_affinity: tuple[WeightedTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    claims: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    affinity: AffinityTerms = ()
    anti_affinity: AffinityTerms = ()
    affinity_state: AffinityState | None = None
    numa: str = ""
    declared: DeclaredFields | None = None
    """Set within a session where a plugin declares that it reads such fields; then it is part of the key."""


def without_affinity_state(shape: PodShape) -> PodShape:
    """The shape as it is outside a session; itself where it has no affinity state."""
    if shape.affinity_state is None:
        return shape
    return structs.replace(shape, key=shape.affinity_state.base_key, affinity_state=None)


class Controller(Struct, frozen=True, gc=False):
    """The owner reference marked as controller."""

    kind: str
    name: str
    uid: str


class Scheduled(Struct, frozen=True, gc=False):
    """The PodScheduled condition as last seen in the API, so that an equal one is not written again."""

    status: str
    reason: str = ""
    message: str = ""


class BindBackoff(Struct, frozen=True, gc=False):
    """A bind of the pod failed: it is left alone until `until` (ms). `failures` counts those in a row."""

    until: int
    failures: int
    why: str


class Pod(Struct, frozen=True, gc=False):
    """One pod. `node` is set once it is bound in the API or assumed by us (`assumed` tells which).

    `created` is in seconds since the epoch. `min_member` is the label's value, None without the label.
    `owners` are the UIDs of all owner references. `problems` are those of its labels and metadata. `ended` is
    when it failed or began to be deleted, and `running_since` when a running one was taken by its kubelet, in
    seconds since the epoch, 0 when nobody tells. `grace`: seconds that it then has to end, if it is deleted.
    `is_placeholder`: it does not exist; room is kept for one like it. `ran` is when one that has succeeded
    began
    and ended, in seconds too, None when nobody tells. `disruption` is the reason of its condition
    DisruptionTarget where that is true: it is to be deleted; `disrupted` is when it became so, in seconds
    too, 0 when nobody tells. `device` is where its share of a GPU is, on its node; None while it has
    neither, or when nobody tells. `labels` are those that it may share with the others of its workload,
    `per_pod_labels` those that tell it from them. `checkpointed` is when its work was last saved,
    in seconds too, 0 when nobody tells. `ignored` says what is wrong with a hint that counts for nothing.
    `restarts_always`: its
    kubelet restarts it whenever it ends.
    """

    uid: PodUid
    namespace: str
    name: str
    shape: PodShape
    scheduler_name: str
    created: int
    node: NodeName | None = None
    assumed: bool = False
    phase: PodPhase = PodPhase.PENDING
    deleting: bool = False
    gated: bool = False
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    group: str | None = None
    role: str = ""
    subgroup: str = ""
    min_member: int | None = None
    queue: str | None = None
    controller: Controller | None = None
    owners: tuple[str, ...] = ()
    index: int | None = None
    scheduled: Scheduled | None = None
    bind_backoff: BindBackoff | None = None
    failure: PodFailure | None = None
    disruption: str = ""
    disrupted: int = 0
    ended: int = 0
    grace: int = 0
    running_since: int = 0
    ran: tuple[int, int] | None = None
    device: Device | None = None
    problems: tuple[Objection, ...] = ()
    labels: PodLabels = NO_LABELS
    per_pod_labels: PodLabels = NO_LABELS
    annotations: tuple[tuple[str, str], ...] = ()
    """Those that an enabled plugin reads, as (key, value), sorted."""

    checkpointed: int = 0
    ignored: str = ""
    restarts_always: bool = False
    is_placeholder: bool = False

    @property
    def all_labels(self) -> tuple[tuple[str, str], ...]:
        """Every label of the pod."""
        return (*self.labels.pairs, *self.per_pod_labels.pairs)

    @property
    def is_finished(self) -> bool:
        """Whether it has ended and holds nothing any more."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def holds_node(self) -> bool:
        """Whether it takes room on its node: bound or assumed, and not finished. Deleting pods still do."""
        return self.node is not None and not self.is_finished

    @property
    def is_waiting(self) -> bool:
        """Whether it still needs a node."""
        return self.node is None and not self.deleting and not self.is_finished

    @property
    def is_stable(self) -> bool:
        """Whether it is bound in the API, has not ended, and is not told to go."""
        return self.holds_node and not self.assumed and not self.deleting and not self.disruption

    @property
    def part(self) -> int | None:
        """The number of the part of its workload in which it is; None without an index."""
        return None if self.index is None else self.index // GROUP_INDEX_STRIDE

    @property
    def counts_for_gang(self) -> bool:
        """Whether it counts towards minMember: assumed, bound, running, succeeded; not failed or deleting."""
        if self.phase is PodPhase.SUCCEEDED:
            return True
        return self.node is not None and not self.deleting and self.phase is not PodPhase.FAILED

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
