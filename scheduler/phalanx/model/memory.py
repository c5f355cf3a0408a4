"""State that one cycle passes to the next, and how it survives a restart of the scheduler.

Times are in milliseconds since the epoch unless a field says otherwise.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from phalanx.model.gangs import Gang, MemberCount, QueuePlace
from phalanx.model.names import NO_QUEUE, GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.pods import AffinityTerms
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Evidence, Verdict
from phalanx.model.records import GangRecord, RecordKind
from phalanx.model.resources import NONE, Resources
from phalanx.model.supplies.devices.uses import DeviceUse


class ExpectedPod(Struct, frozen=True):
    """What anti-affinity needs to know of a pod that does not exist yet."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    per_pod_labels: tuple[tuple[str, str], ...]
    anti_affinity: AffinityTerms


class Move(Struct, frozen=True):
    """A gang that was evicted and starts again on other nodes; capacity is held for it there."""

    queue: QueueName
    namespace: str
    usage: Mapping[NodeName, Resources]
    """Held capacity per node."""

    pods: tuple[PodUid, ...]
    """The evicted pods."""

    until: int
    """When the capacity is released at the latest."""

    controller: str = ""
    """For a pod without a group: the UID of its controller. Its next pod of this shape continues the move."""

    shape: ShapeKey = ShapeKey("")
    """For a pod without a group."""

    apart: Mapping[NodeName, tuple[ExpectedPod, ...]] = {}
    """Per node, one pod of each kind. Anti-affinity keeps others away from them already."""

    devices: Mapping[NodeName, tuple[DeviceUse, ...]] = {}
    """Per node, devices that are held for claims of its pods."""


class MovedGang(Struct, frozen=True):
    """One gang of a move plan: the number of pods per target node."""

    gang: GangId
    group: str
    pods: int
    nodes: Mapping[NodeName, int]


class MovePlan(Struct, frozen=True):
    """Moves that let a gang start."""

    gang: GangId
    """The gang that can start after the moves."""

    group: str
    cycle: int
    moves: tuple[MovedGang, ...]
    pods: int
    pods_bound: int
    """Lower bound: no plan moves fewer pods."""

    cost: int
    cost_bound: int
    """Lower bound: no plan that moves as few pods costs less."""

    is_executed: bool
    """False in a dry run."""


class HelpedBy(StrEnum):
    """The changes after which a refused gang is looked at again, besides those of itself and its queues."""

    CAPACITY = "Capacity"
    """Capacity that becomes free, and all changes below."""
    CLUSTER = "Cluster"
    """Nodes, queues, topologies, namespaces and volumes: the gang does not fit the empty cluster."""
    NODE_SIZE = "NodeSize"
    """A node with more of a resource: no node has as much as one of its pods requests."""


class CandidateQueues(Struct, frozen=True):
    """What might have been evicted from other queues for a gang, at the last search for victims."""

    evictable: Mapping[QueueName, str] = {}
    """For each queue with gangs that might have been evicted, a digest that says which and whether whole."""

    limits: Mapping[QueueName, Mapping[str, Resources]] = {}
    """For these queues and their ancestors, the most that could be evicted, by what counts for the limit."""

    least: Resources = NONE
    """The amounts that had to be evicted, from its own queue too."""

    at: int = 0


class Refusal(Struct, frozen=True):
    """A negative result. The gang is not tried again while `basis` and `fingerprint` stay the same."""

    fingerprint: str
    """Of the gang; empty if only the verdict is remembered."""

    verdict: Verdict
    unexplained_since: int | None = None
    """The cycle since which the explanation is missing because earlier ones had used up the budget."""

    basis: str = ""
    """Of its queues and of everything else that could help it."""

    queue_basis: str = ""
    """The part of it that is of its queues."""

    helped_by: HelpedBy = HelpedBy.CAPACITY
    resource: str = ""
    """The resource of which every node has too little, for NODE_SIZE; else the supply whose counted changes
    can help too (`Snapshot.supply_versions`)."""

    is_objection: bool = False
    """Whether a plugin objected, or members are missing, so that the gang was not tried."""

    until: int | None = None
    """When it is looked at again without a change."""

    advice_pending_since: int | None = None
    """The cycle since which the search for advice is pending; the verdict has none yet, or that of before the
    last change of the cluster."""

    advised_at: int | None = None
    """When the advice of the verdict was searched, if it is remembered."""

    protection: tuple[Evidence, ...] = ()
    """While advice is pending, the limits that protect victims: evidence that its verdict is to keep."""

    searched: CandidateQueues | None = None
    """What might have been evicted at its last search for victims, if not every cycle looks at the gang."""

    search_at: int | None = None
    """When (ms) it may search for victims again, of such a gang."""

    @property
    def explained(self) -> bool:
        """Whether the verdict explains the reason."""
        return self.unexplained_since is None

    @property
    def is_untried(self) -> bool:
        """Whether the gang was to be tried, but the cycle reached a limit before."""
        return not self.fingerprint and not self.explained


class RetryKeys(Struct, frozen=True):
    """Digests of what the answers of the last cycle depended on besides capacity, gangs and queues."""

    plugins: str = ""
    """The retry keys of plugins."""
    all: str = ""
    """Also reserved cells, held capacity, nominations, moves and the breaker."""


class LossKind(StrEnum):
    """How a started gang lost members."""

    RESTART = "Restart"
    """The gang is being restarted, for any reason."""

    NODE_LOSS = "NodeLoss"
    MEMBER_FAILURE = "MemberFailure"

    UNREPAIRED = "Unrepaired"
    """Members that were lost in some other way, or are created again, find no node in the required domain."""


class FailedPod(Struct, frozen=True):
    """A failed pod, as it was when the scheduler first saw the failure."""

    newest_member: int
    """Creation (s) of the newest member that held a node then."""

    before_start: bool
    """Whether it failed before the scheduler started; newer members may then be replacements."""


class GangComposition(Struct, frozen=True):
    """Members of a complete started gang, by kind. It shows later which members are missing."""

    members: tuple[MemberCount, ...]
    since: int = 0
    """Since when the gang is incomplete, 0 while it is complete."""

    held: Mapping[NodeName, tuple[MemberCount, ...]] = {}
    """Where capacity was last held for missing members."""


class SeenMembers(Struct, frozen=True):
    """What this leader saw of the members of a gang that has a record."""

    placed: tuple[tuple[RecordKind, tuple[PodUid, ...]], ...] = ()
    """The members that were on nodes, or were placed by the last cycle, by kind."""
    evicted: tuple[PodUid, ...] = ()
    """Those of which it has decided the eviction for another gang, or the release."""
    dropped: tuple[PodUid, ...] = ()
    """Pods that still exist and that the record does not count any more."""
    awaited: tuple[tuple[RecordKind, tuple[int, ...]], ...] = ()
    """For lost members that no waiting pod replaces, since when."""
    absent_since: int = 0
    """Since when the gang has no pods at all, 0 if it has some."""


class Avoided(Struct, frozen=True):
    """A node that a gang avoids."""

    until: int
    failures: int
    """Failures of the gang there in a row."""


class Nomination(Struct, frozen=True):
    """Capacity that is being freed for a gang by evictions."""

    usage: Mapping[NodeName, Resources]
    """Usage of the gang per node, including devices and NUMA zones. Empty for a record of past attempts."""

    victims: tuple[PodUid, ...]
    until: int
    attempts: int
    """How often capacity was freed for the gang while it waited."""

    members: Mapping[NodeName, tuple[PodUid, ...]] = {}
    """Pods that will run on each node."""

    devices: Mapping[NodeName, tuple[DeviceUse, ...]] = {}
    """Per node, devices that are held for claims of its pods. Only moves hold some."""

    decided: int = 0
    causes: Mapping[GangId, str] = {}
    """Why each gang with victims may be evicted."""

    passed: tuple[GangId, ...] = ()
    """Gangs whose reserved starts it may delay."""

    queue: QueueName = NO_QUEUE
    """The queue that is charged. A gang that then names another queue loses the capacity."""


class NodeScore(Struct, frozen=True):
    """Failure score of a node, in thousandths of a failure; it decays."""

    score: int
    at: int
    counted: Mapping[str, int] = {}
    """When (ms) a failure of each namespace and workload last counted, during the last half-life."""


class NodeRecord(Struct, frozen=True):
    """Health of a node."""

    good: bool
    since: int
    """0 if it was so when the scheduler first saw the node."""


class ReservedStart(Struct, frozen=True):
    """The planned start of a waiting gang, as in EASY backfill."""

    reserved_in: tuple[int, int]
    """Number of the cycle that reserved it first, and its position there. Earlier reservations go first."""

    start: int
    held_from: int
    """The earliest start that was ever reserved for the gang; its capacity is held from then on."""

    usage: Mapping[NodeName, Resources]
    """Usage of the gang per node."""

    has_moved: bool = False
    """Whether it is held from a later time because it was late."""


class LetIn(Struct, frozen=True):
    """A gang that was placed before reserved starts because it ends in time by its `runtime.max`."""

    ends: int
    """When it ends by that, counted from its placement."""

    before: tuple[GangId, ...]
    """The gangs with the reserved starts that still wait."""

    is_start: bool = True
    """Whether the whole gang was placed, not only surplus members of it."""

    noticed: int = 0
    """Since when its status says that it runs longer; 0 if it does not."""


class Memory(Struct, frozen=True):
    """State that one cycle passes to the next. Unless stated otherwise it is lost at a restart.

    "Rebuilt" means: from the cluster, in the first cycle after a restart.
    """

    cycle: int = 0
    """Number of the last cycle."""

    refusals: Mapping[GangId, Refusal] = {}
    """Negative results. Rebuilt."""

    refused_starts: Mapping[QueueName, Mapping[GangId, Refusal]] = {}
    """By queue, the same for gangs of which no pod has had a node. Rebuilt."""

    turns: Mapping[QueueName, QueuePlace] = {}
    """For crowded queues, the last gang that was looked at in turn. Lost: the turn starts again."""

    resting_turns: Mapping[QueueName, QueuePlace] = {}
    """For queues of which gangs rest, the last of these that was looked at. Lost: the turn starts again."""

    retry_keys: RetryKeys = RetryKeys()
    """Rebuilt: all refused gangs are tried again."""

    partial_since: Mapping[GangId, int] = {}
    """Since when a gang that has not started is partially bound. Rebuilt; its grace period starts again."""

    member_losses: Mapping[GangId, Mapping[LossKind, int]] = {}
    """Since when a started gang lacks members and wants recovery. Rebuilt; its grace period starts again."""

    compositions: Mapping[GangId, GangComposition] = {}
    """Composition of started gangs. Rebuilt; missing members of an incomplete gang are assumed to be like its
    other members, or as its roles declare, and their capacity hold starts again."""

    records: Mapping[GangId, GangRecord] = {}
    """Records of gangs, as far as this leader knows them. Read from the cluster, where they are written; what
    is written may be older."""

    seen_members: Mapping[GangId, SeenMembers] = {}
    """What is known of members beside the records. Lost: a member whose bind has failed then counts as
    lost; and lost members are awaited from then on."""

    avoided: Mapping[GangId, Mapping[NodeName, Avoided]] = {}
    """Nodes on which a gang failed. Rebuilt from failed pods that still exist."""

    nominations: Mapping[GangId, Nomination] = {}
    """Capacity that is being freed. Lost: the first gang in the order takes what becomes free."""

    preempted: Mapping[GangId, GangId] = {}
    """Evicted gangs, and the gang that benefits. No capacity is held for them until they are placed again."""

    candidate_queues: Mapping[GangId, CandidateQueues] = {}
    """For gangs without victims. Lost: they search once more."""

    preemption_retry_at: Mapping[GangId, int] = {}
    """When a gang may search for victims again without a change, or since when it may search."""

    moves: Mapping[GangId, Move] = {}
    """Moves in progress, by the evicted gang. Lost: other gangs may take the capacity."""

    next_move_search: Mapping[GangId, int] = {}
    """When moves may be searched again for a gang."""

    proposed_plans: Mapping[GangId, MovePlan] = {}
    """Plans of a dry run, until the next search."""

    failed: Mapping[PodUid, FailedPod] = {}
    """Failed pods that were seen. Rebuilt."""

    deleting_members: Mapping[PodUid, int] = {}
    """Terminating members, and the creation (s) of the newest member that held a node when that was first
    seen. Rebuilt."""

    scores: Mapping[NodeName, NodeScore] = {}
    """Failure scores of nodes."""

    reserved_starts: Mapping[GangId, ReservedStart] = {}
    """Reserved starts of waiting gangs. Lost: they are computed again and count from then on."""

    let_in: Mapping[GangId, LetIn] = {}
    """Gangs that run before a reserved start because of their `runtime.max`. Read again from the records; a
    notice is given again."""

    nodes: Mapping[NodeName, NodeRecord] = {}
    """Health of nodes. Rebuilt as if no node had ever changed."""

    past_usage: Mapping[QueueName, PastUsage] = {}
    """Average usage of queues. Read again from the status of the queues."""

    reported_usage: Mapping[QueueName, PastUsage] = {}
    """Average usage that the status of the queues shows."""

    def refusal_of(self, gang: Gang) -> Refusal | None:
        """The last refusal of a gang, in the queue that it is in."""
        starts = self.refused_starts.get(gang.queue, {})
        return starts.get(gang.id) or self.refusals.get(gang.id)
