"""How good a placement is: the objective reached, the bound proven, and who proved it."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from phalanx.model.memory import Memory, MovePlan
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pods import Device
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Objection, Verdict


class Certificate(Struct, frozen=True):
    """Objective and bound per term of a lexicographic objective, in the order of `terms`; smaller is better.

    `proven` only when the objective of the placement that was split onto nodes and checked equals the bound.
    `by` names the backend that gave the bound; `fingerprint` identifies the problem that was solved.
    """

    terms: tuple[str, ...]
    objective: tuple[int, ...]
    bound: tuple[int, ...]
    proven: bool
    by: str
    fingerprint: str = ""


class Bind(Struct, frozen=True, gc=False):
    """Bind this pod, by UID, to this node, and its share of a GPU, if it has one, to this device there."""

    pod: PodUid
    namespace: str
    name: str
    node: NodeName
    device: Device | None = None


class Placement(Struct, frozen=True):
    """The complete placement of (the missing part of) one gang: all of its binds, or none, are to be sent.

    `cause` says why now: "start", "replace" or "surplus". `level` and `domain` name the tightest domain that
    holds all of the gang, empty without a topology. `within`: the labels, with their values, that nodes of
    the required domain have; a node that lacks one is no place for this gang. `homes`: the same for single
    nodes, where subgroups require a level.
    """

    gang: GangId
    group: str
    cycle: int
    cause: str
    binds: tuple[Bind, ...]
    certificate: Certificate
    level: str = ""
    domain: str = ""
    within: Mapping[str, str] = {}
    homes: Mapping[NodeName, Mapping[str, str]] = {}


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
    """Delete this pod, by UID, for this reason, in favour of `beneficiary` (a gang's name, may be empty)."""

    pod: PodUid
    namespace: str
    name: str
    gang: GangId
    cycle: int
    reason: EvictionReason
    message: str
    beneficiary: str = ""


class Nominate(Struct, frozen=True):
    """A pod that will go to this node once the room that was made for it is free."""

    pod: PodUid
    namespace: str
    name: str
    node: NodeName
    cycle: int


class QueueReport(Struct, frozen=True):
    """What a cycle saw of one queue: for the Queue's status and the metrics.

    `guarantee`: as far as it can be kept; `unkept` says what cannot, and stops nobody. `fair_share`: what the
    queue was due when the cycle began. `past`: what it used lately on average, renewed only from time
    to time.
    """

    allocated: Mapping[str, int]
    pending_gangs: int
    pending_pods: int
    problems: tuple[Objection, ...] = ()
    guarantee: Mapping[str, int] = {}
    fair_share: Mapping[str, int] = {}
    unmet_guarantees: tuple[Objection, ...] = ()
    past: PastUsage | None = None

    @property
    def borrowed(self) -> dict[str, int]:
        """What is allocated beyond the guarantee, by resource."""
        return {name: max(0, used - self.guarantee.get(name, 0)) for name, used in self.allocated.items()}


class CycleStats(Struct, frozen=True):
    """Counts of one cycle, for logs and metrics.

    `solves` counts by backend. `defects` are answers of backends that failed the check and were dropped:
    bugs, to be logged and kept with their snapshot. `inconclusive`: questions to which the solver found
    neither a placement nor a proof that there is none. `breaker` says why the breaker is open, empty while
    it is closed. `failure_scores` are in thousandths of a failure, of nodes that have any.
    """

    gangs_tried: int = 0
    gangs_placed: int = 0
    pods_placed: int = 0
    solves: Mapping[str, int] = {}
    errors: tuple[str, ...] = ()
    inconclusive: int = 0
    breaker: str = ""
    failure_scores: Mapping[NodeName, int] = {}


class CycleResult(Struct, frozen=True):
    """Everything one cycle decided. Logs, events, conditions, metrics and pages are derived from it.

    `verdicts`: of what was tried, in the order in which it was, then of the other gangs that wait.
    `wake_at` is in milliseconds since the epoch: the next moment when time alone could change a decision or a
    verdict.
    """

    cycle: int
    placements: tuple[Placement, ...] = ()
    evictions: tuple[Evict, ...] = ()
    nominations: tuple[Nominate, ...] = ()
    plans: tuple[MovePlan, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    queues: Mapping[str, QueueReport] = {}
    memory: Memory = Memory()
    wake_at: int | None = None
    stats: CycleStats = CycleStats()
