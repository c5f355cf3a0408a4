"""Moves: gangs that are evicted and start again elsewhere, so that another one finds room."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from phalanx.model.gangs import MemberCount
from phalanx.model.names import GangId, NodeName, PodUid, QueueName, ShapeKey
from phalanx.model.queues import PastUsage
from phalanx.model.reasons import Verdict
from phalanx.model.resources import Resources


class Move(Struct, frozen=True):
    """A gang that is on its way: room is kept for it until it is there again, or until then (ms).

    `seats`: what it will use per node. `pods`: those that were evicted. A pod without a group comes back as
    another gang: the next one in its namespace that has the same `controller` (its UID) and `shape`; both are
    empty for a gang that comes back as itself.
    """

    queue: QueueName
    namespace: str
    seats: Mapping[NodeName, Resources]
    pods: tuple[PodUid, ...]
    until: int
    controller: str = ""
    shape: ShapeKey = ShapeKey("")


class MovedGang(Struct, frozen=True):
    """One gang of a plan: how many pods go to each node."""

    gang: GangId
    group: str
    pods: int
    nodes: Mapping[NodeName, int]


class MovePlan(Struct, frozen=True):
    """Which gangs are moved so that `gang` can start.

    No plan moves fewer pods than `pods_bound`; none that moves as few costs less than `cost_bound`.
    `is_executed` is False where the configuration only asks for a report.
    """

    gang: GangId
    group: str
    cycle: int
    moves: tuple[MovedGang, ...]
    pods: int
    pods_bound: int
    cost: int
    cost_bound: int
    is_executed: bool


class Refusal(Struct, frozen=True):
    """A negative result: not solved again while `fingerprint` stays the same. Rebuilt from the cluster.

    `due`: number of the cycle since which the verdict should tell the reason and does not, because each cycle
    had explained enough; None where it tells it.
    """

    fingerprint: str
    verdict: Verdict
    due: int | None = None

    @property
    def explained(self) -> bool:
        """Whether the verdict tells the reason."""
        return self.due is None


class LossKind(StrEnum):
    """How a started gang lost members. RESTART: it is being restarted, for whatever reason."""

    RESTART = "Restart"
    NODE_LOSS = "NodeLoss"
    MEMBER_FAILURE = "MemberFailure"


class FailedPod(Struct, frozen=True):
    """A failed pod. `youngest`: when (s) the last of the members was created that held nodes at first sight.

    `before_start`: it had failed before the scheduler started, so some of these may be younger than its
    failure.
    """

    youngest: int
    before_start: bool


class GangComposition(Struct, frozen=True):
    """What a started gang consists of when it is whole. `since`: when (ms) it was not any more, else 0.

    `room`: where room was kept last for members that do not exist.
    """

    parts: tuple[MemberCount, ...]
    since: int = 0
    room: Mapping[NodeName, tuple[MemberCount, ...]] = {}


class Avoided(Struct, frozen=True):
    """Until when (ms) a gang avoids a node, and how often it failed there in a row."""

    until: int
    failures: int


class Nomination(Struct, frozen=True):
    """Room that is being made for a gang by evicting others.

    `seats`: what the gang will hold per node, devices of shares and NUMA zones among it; `members`: which of
    its pods will be there. `victims`: the pods that were evicted for it. It was `decided` then (ms) and holds
    until then (ms); one without seats holds nothing, and only tells of the past. `attempts`: how often room
    was made for the gang since it waits. `causes`: why each gang that loses some may. `passed`: gangs whose
    promised starts it need not respect.
    """

    seats: Mapping[NodeName, Resources]
    victims: tuple[PodUid, ...]
    until: int
    attempts: int
    members: Mapping[NodeName, tuple[PodUid, ...]] = {}
    decided: int = 0
    causes: Mapping[GangId, str] = {}
    passed: tuple[GangId, ...] = ()


class CandidateQueues(Struct, frozen=True):
    """Other queues of which some gang might have been evicted, when that was last looked at (ms).

    `beyond`: per such queue, and those above it, what it used beyond its guarantee and its fair share then.
    """

    queues: tuple[QueueName, ...] = ()
    beyond: Mapping[QueueName, tuple[int, ...]] = {}
    at: int = 0


class NodeScore(Struct, frozen=True):
    """Thousandths of a failure at this time (ms); it decays from then on."""

    score: int
    at: int


class NodeRecord(Struct, frozen=True):
    """Whether a node is good, and since when (ms); 0 when it was so before anybody looked."""

    good: bool
    since: int


class ReservedStart(Struct, frozen=True):
    """When (ms) and where a gang that waits is to start: what `seats` says it then takes of each node.

    `given`: the number of the cycle that promised it first, and its place among those of that cycle: whoever
    was promised first comes first. `held_from`: the earliest start that it was ever promised.
    """

    given: tuple[int, int]
    start: int
    held_from: int
    seats: Mapping[NodeName, Resources]


class Memory(Struct, frozen=True):
    """`cycle`: number of the last cycle. `refusals`: negative results by gang.

    `partial_since`: when (ms) a gang that has not started was first seen with some but too few members bound;
    rebuilt from the cluster, the grace period then starts anew.

    `troubles`: since when (ms) a started gang lacks members in a way that its `recovery` answers; rebuilt
    from the cluster, the grace period then starts anew.

    `seated`: what started gangs consist of; of one that is not whole when the scheduler starts, members that
    are gone count as alike to those that are there, or are what its roles declare, the time of its claim
    begins anew, and so does the search for the room.

    `nominations`: for whom room is being made; lost, whoever is first in order takes what becomes free.
    `preempted`: gangs that were evicted, and for which one; until they are placed again they claim nothing.
    `prey`: for gangs that found no victims, whose they might have been; lost, they look once more.
    `postponed`: from when on (ms) a gang may look for victims again though nothing changed, or since when its
    turn to look has not come. Lost, a gang at
    worst claims room that it need not, or looks in vain.

    `moves`: gangs that are on their way, by the gang that was evicted; lost, anybody may take their room.
    `sought`: when (ms) moves may be looked for again for a gang. `proposed`: plans that are only told, while
    they are not looked for again. Lost, they are worked out anew.

    `avoided`: nodes that failed a gang; rebuilt from the failed pods that still exist. `failed`: the failed
    pods that were seen already; rebuilt from the cluster. `leaving`: members that are being deleted, and when
    (s) the youngest was created that held a node when that was seen first; rebuilt from the cluster.
    `scores`: failures of nodes; lost, they begin anew.
    `promised`: starts that were promised to gangs which wait; lost, they are worked out anew, from then on.
    `nodes`: since when nodes are good or bad; rebuilt from the cluster, as if none had ever changed.
    `past_usage`: what queues used on average; read again from their status, where it is written from time to
    time: `reported_usage` is what it says.
    """

    cycle: int = 0
    refusals: Mapping[GangId, Refusal] = {}
    partial_since: Mapping[GangId, int] = {}
    member_losses: Mapping[GangId, Mapping[LossKind, int]] = {}
    seated: Mapping[GangId, GangComposition] = {}
    avoided: Mapping[GangId, Mapping[NodeName, Avoided]] = {}
    nominations: Mapping[GangId, Nomination] = {}
    preempted: Mapping[GangId, GangId] = {}
    candidate_queues: Mapping[GangId, CandidateQueues] = {}
    postponed: Mapping[GangId, int] = {}
    moves: Mapping[GangId, Move] = {}
    next_move_search: Mapping[GangId, int] = {}
    proposed_plans: Mapping[GangId, MovePlan] = {}
    failed: Mapping[PodUid, FailedPod] = {}
    leaving: Mapping[PodUid, int] = {}
    scores: Mapping[NodeName, NodeScore] = {}
    reserved_starts: Mapping[GangId, ReservedStart] = {}
    nodes: Mapping[NodeName, NodeRecord] = {}
    past_usage: Mapping[QueueName, PastUsage] = {}
    reported_usage: Mapping[QueueName, PastUsage] = {}
