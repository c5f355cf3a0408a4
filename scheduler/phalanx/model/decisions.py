"""Decisions of a cycle: binds, evictions, nominations, verdicts, and their certificates.

Every decision carries the cycle that took it and its cause.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct, structs

from phalanx.model.memory import Memory, MovePlan
from phalanx.model.names import ANNOTATION_CHARGED_QUEUE, NO_QUEUE, GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Device
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Objection, Verdict
from phalanx.model.records import GangRecord
from phalanx.model.supplies.devices.claims import ClaimGrant
from phalanx.model.supplies.gpu_shares.devices import device_annotations


class Certificate(Struct, frozen=True):
    """Quality of a placement: a lexicographic objective and its proven lower bound; smaller is better."""

    terms: tuple[str, ...]
    """Names of the terms, the most important first."""

    objective: tuple[int, ...]
    bound: tuple[int, ...]
    proven: bool
    """Whether the objective of the checked placement equals the bound."""

    by: str
    """The backend that proved the bound."""

    fingerprint: str = ""
    """Identifies the problem that was solved."""


class Bind(Struct, frozen=True, gc=False):
    """Bind a pod, by UID, to a node."""

    pod: PodUid
    namespace: str
    name: str
    node: NodeName
    device: Device | None = None
    """For a pod with a GPU share: its device on the node."""
    volumes: tuple[tuple[str, str], ...] = ()
    """Claims by "namespace/name", and the PersistentVolumes that exist already and are for them."""

    grants: tuple[ClaimGrant, ...] = ()
    """The claims of the pod, with what was decided for them. They are written before the bind."""


class GiveBack(Struct, frozen=True, gc=False):
    """Give back claims that are held for a pod which is not bound."""

    pod: PodUid
    namespace: str
    name: str
    grants: tuple[ClaimGrant, ...]


class Placement(Struct, frozen=True):
    """Complete placement of a gang, or of its missing members. Its binds are sent together or not at all."""

    gang: GangId
    group: str
    cycle: int
    cause: str
    """Why now: "start", "replace" or "surplus"."""

    binds: tuple[Bind, ...]
    certificate: Certificate
    level: str = ""
    """Level of `domain`."""

    domain: str = ""
    """The narrowest domain that holds the whole gang; empty without a topology."""

    domain_labels: Mapping[str, str] = {}
    """Labels of the required domain. A node without them is not allowed."""

    node_labels: Mapping[NodeName, Mapping[str, str]] = {}
    """The same per node, for levels that subgroups require."""

    queue: QueueName = NO_QUEUE
    """The queue that is charged."""

    annotations: Mapping[str, str] = {}
    """Annotations of plugins, which the pods get together with their nodes."""

    record: GangRecord | None = None
    """The record of the gang with these members. It is written before the first bind."""

    def without(self, pods: Collection[PodUid]) -> "Placement | None":
        """The placement without these pods; None if nothing is left of it."""
        binds = tuple(bind for bind in self.binds if bind.pod not in pods)
        if len(binds) == len(self.binds):
            return self
        return structs.replace(self, binds=binds) if binds else None


def bind_annotations(placement: Placement, bind: Bind) -> Mapping[str, str]:
    """Annotations that are written on a pod together with its node: those of plugins, its device, and the
    charged queue."""
    written = {**placement.annotations, **device_annotations(bind.device)}
    if placement.queue:
        written[ANNOTATION_CHARGED_QUEUE] = placement.queue
    return written


class EvictionReason(StrEnum):
    """Why a pod is evicted; the reason of its DisruptionTarget condition."""

    GANG_INCOMPLETE = "GangIncomplete"
    """Its gang never started and does not become complete."""
    GANG_RESTARTED = "GangRestarted"
    """Its gang lost members and is restarted as a whole."""
    MEMBER_REPLACED = "MemberReplaced"
    """It is on a lost node; its controller creates another pod."""
    PREEMPTED = "Preempted"
    """Another gang needs the capacity."""
    CONSOLIDATED = "Consolidated"
    """Its gang is moved to other nodes, where capacity is held for it."""


class Evict(Struct, frozen=True):
    """Delete a pod, by UID."""

    pod: PodUid
    namespace: str
    name: str
    gang: GangId
    cycle: int
    reason: EvictionReason
    message: str
    beneficiary: str = ""
    """Name of the gang that needs the capacity; may be empty."""

    succeeded: int = 0
    """Members of the gang that had succeeded. If there are more later, the gang is finishing: no eviction."""

    marked: str = ""
    """The message with the names marked that the scheduler put into it."""


class Nominate(Struct, frozen=True):
    """Nominate a node for a pod: it is bound there once the victims have released the capacity."""

    pod: PodUid
    namespace: str
    name: str
    node: NodeName
    cycle: int


class QueueReport(Struct, frozen=True):
    """State of one queue in a cycle, for the status of the Queue and the metrics."""

    allocated: Mapping[str, int]
    pending_gangs: int
    pending_pods: int
    problems: tuple[Objection, ...] = ()
    guarantee: Mapping[str, int] = {}
    """As far as it can be met."""

    fair_share: Mapping[str, int] = {}
    """At the start of the cycle."""

    unmet_guarantees: tuple[Objection, ...] = ()
    """Guarantees that cannot be met. They block nothing."""

    past: PastUsage | None = None
    """Average usage; updated from time to time."""

    @property
    def borrowed(self) -> dict[str, int]:
        """Allocated beyond the guarantee, by resource."""
        return {name: max(0, used - self.guarantee.get(name, 0)) for name, used in self.allocated.items()}


class CycleStats(Struct, frozen=True):
    """Counts of one cycle, for logs and metrics."""

    gangs_tried: int = 0
    """Gangs of which some demand was solved, each once."""
    gangs_placed: int = 0
    pods_placed: int = 0
    solves: Mapping[str, int] = {}
    """Number of solves by backend."""

    errors: tuple[str, ...] = ()
    """Results of backends that failed the check and were dropped, and errors of plugins and of the scheduler
    that were isolated. They are bugs: logged and recorded."""

    inconclusive: int = 0
    """Solves that found neither a placement nor a proof that there is none."""

    breaker: str = ""
    """Why the circuit breaker is open; empty while it is closed."""

    faulty_nodes: int = 0
    """Nodes with a fault."""

    failure_scores: Mapping[NodeName, int] = {}
    """Thousandths of a failure, for nodes that have any."""


class CycleResult(Struct, frozen=True):
    """All decisions of one cycle. Logs, events, conditions, metrics and pages are derived from it."""

    cycle: int
    placements: tuple[Placement, ...] = ()
    evictions: tuple[Evict, ...] = ()
    withdrawn: tuple[Evict, ...] = ()
    """Assumed pods of gangs that wait for devices: their placements end, and the pods wait again. Nothing is
    deleted."""
    nominations: tuple[Nominate, ...] = ()
    plans: tuple[MovePlan, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    """Verdicts on the gangs that were tried, in this order, then on the other waiting gangs."""

    queues: Mapping[str, QueueReport] = {}
    memory: Memory = Memory()
    wake_at: int | None = None
    """Milliseconds since the epoch: when time alone can change a decision or a verdict."""

    stats: CycleStats = CycleStats()


class Advised(Struct, frozen=True):
    """What a search for advice after a cycle led to."""

    memory: Memory
    """The memory for the next cycle, which shows the advice."""
    is_new: bool
    """Whether a verdict differs from the one that the last cycle showed."""
    errors: tuple[str, ...] = ()
    """Errors of plugins and of the scheduler that were isolated. They are bugs."""
