"""Find the starts of this cycle that a demand which does not fit may displace.

Nothing of them has been sent, so they cost nothing, whatever would protect them while they run. A gang goes
before

- starts of lower rank and priority in its own queue; with an ordering other than PriorityFIFO, only if gangs
  that run might be evicted instead; for surplus members, only surplus members;
- starts of other queues that guarantees cover less than it. For each queue the starts are counted after all
  that runs, in the order of the cycle: one that fits into the rest of the guarantee is covered;
- starts without coverage of queues from which a fair share allows it to evict as much.

Lost members and moved gangs are no starts: gangs that ran before wait for them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage, beneficiary_of
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.problems.capacity_holders import total_of
from phalanx.actions.problems.placement import DemandPlacement, fits_where_it_was
from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.queues.guarantees import Coverage, Sides
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage, total_requests
from phalanx.model.gpu_shares import requests_share
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.queues import Ordering
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
        self._coverages: dict[tuple[QueueName, frozenset[str]], dict[int, Coverage]] = {}

    def displaceable_by(self, demand: Demand, might_evict: Callable[[], bool]) -> list[DemandPlacement]:
        """The starts that the demand may displace, in their order, as if they were taken back from the end.

        `might_evict`: whether gangs that run might be evicted for it. If the minimum of a gang is displaced,
        its surplus is too.
        """
        session, starts = self._session, self._starts
        coverages = _Coverages(session, beneficiary_of(demand), self)
        candidates = [
            index
            for index in range(len(starts))
            if self._is_candidate(demand, index) and self._is_behind(demand, index, coverages, might_evict)
        ]
        found: set[int] = set()
        with session.statement() as trial:
            for index in reversed(candidates):
                if self._may_take(demand, index, coverages):
                    found.add(index)
                    self._take_back(index, trial)
            trial.roll_back()
        begun = {starts[index].demand.gang.id for index in found if starts[index].demand.stage is Stage.START}
        return [each for index, each in enumerate(starts) if index in found or each.demand.gang.id in begun]

    def _is_candidate(self, demand: Demand, index: int) -> bool:
        gang, other = demand.gang, self._starts[index].demand.gang
        is_own_evictor = self._session.preempted.get(gang.id) == other.id
        is_fixed = other.id in self._displacing and other.queue != gang.queue
        return other.id != gang.id and not is_own_evictor and not is_fixed

    def _is_behind(
        self, demand: Demand, index: int, coverages: "_Coverages", might_evict: Callable[[], bool]
    ) -> bool:
        """Whether the start comes after the demand by its rank, or by its coverage."""
        session, start, gang = self._session, self._starts[index].demand, demand.gang
        if start.gang.queue != gang.queue:
            return coverages.of_start(index) < max(coverages.of_demand(index), Coverage.PARTIAL)
        if demand.stage is Stage.SURPLUS and start.stage is not Stage.SURPLUS:
            return False
        queue = session.queues.get(gang.queue)
        is_by_rank = queue is not None and queue.ordering is Ordering.PRIORITY_FIFO
        return rank_of(gang, session) < rank_of(start.gang, session) and (is_by_rank or might_evict())

    def _may_take(self, demand: Demand, index: int, coverages: "_Coverages") -> bool:
        """Whether plugins would allow to evict it; without coverage, within the limits of fair shares."""
        session, gang = self._session, self._starts[index].demand.gang
        beneficiary = beneficiary_of(demand)
        if not session.hooks.may_evict(gang, beneficiary):
            return False
        if gang.queue == demand.gang.queue or coverages.of_demand(index):
            return True
        path = {queue.name for queue in session.queues.path(gang.queue)}
        limits = session.hooks.queue_eviction_limits(beneficiary)
        return all(
            _is_within(limit, self._booked[index])
            for limit in limits
            if limit.queue in path and limit.is_hard and not limit.except_largest
        )

    def _take_back(self, index: int, trial: Statement) -> None:
        trial.assume_ended(queue=self._queue(index), used={}, booked=self._booked[index])

    def coverage_of(self, index: int, side: QueueName, short: frozenset[str]) -> Coverage:
        """The coverage of a start by this queue on its path."""
        key = (side, short)
        if key not in self._coverages:
            self._coverages[key] = self._cover(side, short)
        return self._coverages[key][index]

    def _cover(self, side: QueueName, short: frozenset[str]) -> dict[int, Coverage]:
        """The coverage of each start below the queue, in their order; those without take nothing."""
        session, found = self._session, dict[int, Coverage]()
        paths = [session.queues.path(self._queue(index)) for index in range(len(self._starts))]
        mine = [index for index, path in enumerate(paths) if any(queue.name == side for queue in path)]
        with session.statement() as trial:
            for index in mine:
                self._take_back(index, trial)
            for index in mine:
                found[index] = session.guarantees.coverage_after_start(self._request(index), side, short)
                if found[index]:
                    trial.nominate(queue=self._queue(index), usage={}, booked=self._booked[index])
            trial.roll_back()
        return found

    def queue_of(self, index: int) -> QueueName:
        """The queue of a start."""
        return self._queue(index)

    def _queue(self, index: int) -> QueueName:
        return self._starts[index].demand.gang.queue

    def _request(self, index: int) -> Beneficiary:
        demand = self._starts[index].demand
        kinds = tuple(batch.pods[0] for batch in demand.batches)
        return Beneficiary(demand.gang, total_of(self._booked[index]), kinds)


class _Coverages:
    """The coverages of one demand, and of starts compared with it."""

    def __init__(self, session: Session, beneficiary: Beneficiary, starts: DisplaceableStarts) -> None:
        self._session = session
        self._beneficiary = beneficiary
        self._starts = starts
        self._known: dict[QueueName, tuple[Sides | None, Coverage]] = {}

    def of_demand(self, index: int) -> Coverage:
        """The coverage of the demand, compared with the queue of this start."""
        return self._against(self._starts.queue_of(index))[1]

    def of_start(self, index: int) -> Coverage:
        """The coverage of this start; FULL if its queue and that of the demand have no two sides."""
        sides, _ = self._against(self._starts.queue_of(index))
        return Coverage.FULL if sides is None else self._starts.coverage_of(index, sides.theirs, sides.short)

    def _against(self, queue: QueueName) -> tuple[Sides | None, Coverage]:
        if queue not in self._known:
            guarantees = self._session.guarantees
            sides = guarantees.sides(self._beneficiary, queue)
            mine = Coverage.NONE
            if sides is not None:
                mine = guarantees.coverage_after_start(self._beneficiary, sides.mine, sides.short)
            self._known[queue] = sides, mine
        return self._known[queue]


def _is_within(limit: QueueEvictionLimit, booked: Usage) -> bool:
    counted = {
        node: amounts for node, amounts in booked.items() if limit.nodes is None or node in limit.nodes
    }
    total = total_of(counted)
    return all(total.get(name, 0) <= most for name, most in limit.amounts.items())
