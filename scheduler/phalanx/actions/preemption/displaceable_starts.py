"""Find the starts of this cycle that a gang which does not fit may displace.

Nothing of them has been sent, so they cost nothing, whatever would protect them while they run. A gang goes
before

- starts of lower rank and priority in its own queue; with an ordering other than PriorityFIFO, only
  if gangs that run might be evicted instead;
- starts of other queues that it might evict if they ran, except those that stay inside a guarantee. For each
  queue the starts are counted after all that runs, in the order of the cycle: one that fits into the rest of
  the guarantee stays inside it. The guarantee of any queue below the common ancestor protects.

Lost members and moved gangs are no starts: gangs that ran before wait for them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.problems.capacity_holders import total_of
from phalanx.actions.problems.placement import DemandPlacement, fits_where_it_was
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.guarantees import are_within_guarantees, below_common_ancestor
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage, total_requests
from phalanx.model.gpu_shares import requests_share
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.queues import Ordering, Queue
from phalanx.model.resources import NONE, Resources, add


def is_start(placement: DemandPlacement) -> bool:
    """Whether it is a start or surplus that could be decided later as well."""
    return placement.certificate is not None and placement.demand.stage is not Stage.REPAIR


def booked_by(placement: DemandPlacement) -> Usage:
    """What the placement is charged to its queue, by node."""
    booked: dict[NodeName, Resources] = {}
    for node, pods in placement.assignments:
        booked[node] = add(booked.get(node, NONE), total_requests(pods))
    return booked


def has_plain_usage(placement: DemandPlacement, session: Session) -> bool:
    """Whether its pods use what they request: no shares of GPUs and no NUMA zones."""
    shapes = [batch.pods[0].shape for batch in placement.demand.batches]
    has_zones = bool(session.facts.numa_layouts) and any(shape.numa for shape in shapes)
    return not has_zones and not any(requests_share(shape.requests) for shape in shapes)


def assume_taken_back(placement: DemandPlacement, trial: Statement) -> None:
    """Assume that the placement, which has plain usage, is taken back."""
    booked = booked_by(placement)
    gone = [replace(pod, node=node) for node, pods in placement.assignments for pod in pods]
    trial.assume_ended(queue=placement.demand.gang.queue, used=booked, booked=booked, gone=gone)


def given_up_of(
    starts: Sequence[DemandPlacement], session: Session, trial: Statement
) -> Iterator[DemandPlacement]:
    """Let starts that were assumed to be taken back stay in order if they fit; yield the others.

    Of a gang that loses a start, later ones do not stay.
    """
    losing: set[GangId] = set()
    for start in starts:
        gang = start.demand.gang
        if gang.id in losing or not _still_fits(start, session):
            losing.add(gang.id)
            yield start
        else:
            booked, expected = booked_by(start), start.assignments
            trial.nominate(queue=gang.queue, usage=booked, booked=booked, expected=expected)


def _still_fits(start: DemandPlacement, session: Session) -> bool:
    pods = [(pod, node) for node, some in start.assignments for pod in some]
    are_allowed = all(node not in session.eligibility(pod).rejected for pod, node in pods)
    return are_allowed and fits_where_it_was(session, start)


class DisplaceableStarts:
    """The starts of a cycle. They must not change while the object is used."""

    def __init__(
        self, session: Session, starts: Sequence[DemandPlacement], displacing: Collection[GangId]
    ) -> None:
        """`starts`: in their order. Gangs in `displacing` displaced others: only their own queue does so."""
        self._session = session
        self._starts = starts
        self._displacing = displacing
        self._booked = [booked_by(each) for each in starts]
        self._inside: dict[QueueName, frozenset[int]] = {}

    def displaceable_by(self, demand: Demand, might_evict: Callable[[], bool]) -> list[DemandPlacement]:
        """The starts that the demand may displace, in their order, as if they were taken back from the end.

        `might_evict`: whether gangs that run might be evicted for it. If the minimum of a gang is displaced,
        its surplus is too.
        """
        session, starts = self._session, self._starts
        queue = session.queues.get(demand.gang.queue)
        is_by_rank = queue is not None and queue.ordering is Ordering.PRIORITY_FIFO
        candidates = [
            index
            for index, start in enumerate(starts)
            if self._is_candidate(demand, index)
            and (is_by_rank or start.demand.gang.queue != demand.gang.queue or might_evict())
        ]
        found: set[int] = set()
        with session.statement() as trial:
            for index in reversed(candidates):
                other = starts[index].demand.gang
                if session.hooks.may_evict(other, beneficiary_of(demand)):
                    found.add(index)
                    trial.assume_ended(queue=other.queue, used={}, booked=self._booked[index])
            trial.roll_back()
        begun = {starts[index].demand.gang.id for index in found if starts[index].demand.stage is Stage.START}
        return [each for index, each in enumerate(starts) if index in found or each.demand.gang.id in begun]

    def _is_candidate(self, demand: Demand, index: int) -> bool:
        """Whether it may be displaced if it might be evicted while it ran."""
        session, gang, other = self._session, demand.gang, self._starts[index].demand.gang
        if other.id == gang.id or session.preempted.get(gang.id) == other.id:
            return False
        if other.queue == gang.queue:
            return rank_of(gang, session) < rank_of(other, session)
        if other.id in self._displacing:
            return False
        theirs = below_common_ancestor(other.queue, gang.queue, session)
        return not any(index in self._inside_guarantee(queue) for queue in theirs)

    def _inside_guarantee(self, queue: Queue) -> frozenset[int]:
        """The starts that stay inside the guarantee of this queue, by their number."""
        if queue.name not in self._inside:
            self._inside[queue.name] = frozenset(self._count_inside(queue))
        return self._inside[queue.name]

    def _count_inside(self, queue: Queue) -> Collection[int]:
        session, found = self._session, list[int]()
        paths = [session.queues.path(each.demand.gang.queue) for each in self._starts]
        mine = [index for index, path in enumerate(paths) if queue in path]
        with session.statement() as trial:
            for index in mine:
                trial.assume_ended(queue=self._queue(index), used={}, booked=self._booked[index])
            for index in mine:
                if are_within_guarantees((queue,), self._request(index), session):
                    found.append(index)
                    trial.nominate(queue=self._queue(index), usage={}, booked=self._booked[index])
            trial.roll_back()
        return found

    def _queue(self, index: int) -> QueueName:
        return self._starts[index].demand.gang.queue

    def _request(self, index: int) -> Beneficiary:
        demand = self._starts[index].demand
        kinds = tuple(batch.pods[0] for batch in demand.batches)
        return Beneficiary(demand.gang, total_of(self._booked[index]), kinds)
