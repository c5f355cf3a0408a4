"""The context of one cycle: the session, and the results of its steps by name."""

from collections.abc import Mapping
from functools import cached_property

from phalanx.actions.backlog.backlog import Backlog
from phalanx.actions.consolidation.moves import Moves
from phalanx.actions.demands.demand_queue import DemandQueue
from phalanx.actions.explanations.explainer import Explainer
from phalanx.actions.member_losses import MemberLosses
from phalanx.actions.member_losses import find as find_member_losses
from phalanx.actions.node_failures import NodeFailures
from phalanx.actions.node_failures import find as find_node_failures
from phalanx.actions.nodes.node_classes import ClassTableCache
from phalanx.actions.outcome import Outcome
from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.reservations.capacity_holds import CapacityHolds
from phalanx.actions.reservations.capacity_holds import find as find_capacity_holds
from phalanx.framework.config import ActionName
from phalanx.framework.retry import Refusals, digest_of_key
from phalanx.framework.session import Session
from phalanx.model.decisions import Nominate
from phalanx.model.memory import Memory, MovePlan, Refusal, RetryKeys
from phalanx.model.names import GangId
from phalanx.model.reasons import Evidence
from phalanx.solver.answer_cache import AnswerCache

EvidenceByGang = Mapping[GangId, tuple[Evidence, ...]]


class Cycle:
    """One cycle in progress. Each step is a function `execute(cycle)`.

    The state that earlier cycles left is computed when a step first reads it: member losses, capacity holds,
    nominations, and moves.
    """

    def __init__(
        self,
        session: Session,
        backlog: Backlog,
        class_tables: ClassTableCache,
        answers: AnswerCache,
        *,
        defers_advice: bool = False,
    ) -> None:
        """`defers_advice`: verdicts are without advice, which is searched after the cycle."""
        self.session = session
        self.backlog = backlog
        self.class_tables = class_tables
        self.answers = answers
        self._defers_advice = defers_advice
        self.demand_queue = DemandQueue(session, ())
        """The demands in the order in which they are tried."""
        self.outcome = Outcome()
        """What was placed, and what was not."""
        self.nominated: tuple[Nominate, ...] = ()
        """The nodes that pods get once their victims have terminated."""
        self.plans: tuple[MovePlan, ...] = ()
        """Plans of moves to report."""
        self.protected: EvidenceByGang = {}
        """For gangs that found no victims, the limits without which there would be some."""
        self.refused: dict[GangId, Refusal] = {}
        """The refusals of the demands that failed."""
        self.notes: EvidenceByGang = {}
        """Evidence to add to the verdicts of this cycle; it is not remembered."""
        self.memory = Memory(cycle=session.cycle)
        """The memory for the next cycle. Each step replaces the fields that it is responsible for."""
        self.is_complete = True
        """Whether everything was tried and explained; otherwise the next cycle follows at once."""
        self._wake_times: list[int] = []

    @cached_property
    def node_failures(self) -> NodeFailures:
        """Failures of members, by node."""
        return find_node_failures(self.session)

    @cached_property
    def member_losses(self) -> MemberLosses:
        """Members that started gangs lost; empty if no action recovers from losses."""
        return find_member_losses(self.session) if ActionName.RECOVER in self.session.config.actions else {}

    @cached_property
    def capacity_holds(self) -> CapacityHolds:
        """Capacity that is held for members which do not exist yet."""
        return find_capacity_holds(self.session)

    @cached_property
    def nominations(self) -> Nominations:
        """Capacity that evictions of earlier cycles are freeing."""
        return Nominations(self.session)

    @cached_property
    def explainer(self) -> Explainer:
        """Explains refusals; to be used when nothing more is placed."""
        failed = [failure.demand for failure in self.outcome.failures.values()]
        return Explainer(self.session, self.answers, failed, defers_advice=self._defers_advice)

    @cached_property
    def moves(self) -> Moves:
        """Gangs that were evicted to be moved to other nodes."""
        return Moves(self.session, self.nominations)

    def retry_keys(self) -> RetryKeys:
        """Digests of what the answers of this cycle depend on besides capacity, gangs and queues."""
        session = self.session
        return RetryKeys(digest_of_key(session.hooks.retry_key), digest_of_key(session.retry_key))

    def refusals(self) -> Refusals:
        """The refusals of earlier cycles, compared with the current retry key."""
        backlog = self.backlog
        return Refusals(backlog.inputs, self.retry_keys(), backlog.snapshot.gangs, backlog.known)

    def wake_at(self, at: int | None) -> None:
        """Request that the next cycle runs at this time (ms) at the latest."""
        if at is not None:
            self._wake_times.append(at)

    @property
    def next_wake(self) -> int | None:
        """The first requested time; now if not everything was tried and explained."""
        if not self.is_complete:
            return self.session.snapshot.now
        return min(self._wake_times, default=None)
