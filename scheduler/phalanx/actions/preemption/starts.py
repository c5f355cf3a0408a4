"""Find the starts of this cycle that are given up for a demand, in which units, and what each unit holds.

Nothing of a start has been sent yet, so it costs nothing. A demand may have those given up that it may evict
if they ran; only run times do not protect them. Surplus members are units as if they ran, a surplus subgroup
is one unit. The minimum of a gang is one unit, and is given up together with all surplus of the gang.
`docs/preemption.md` has the rule for users.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import groupby
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.outcome import Outcome
from phalanx.actions.preemption.victim_search import SearchResult
from phalanx.actions.preemption.victims import Victim, in_parts, is_allowed, not_taken, usage_of_pods
from phalanx.actions.problems.capacity_holders import total_of
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.framework.changes import CapacityHold
from phalanx.framework.evictions import Beneficiary, QueueEvictionLimit
from phalanx.framework.plugin import NEVER
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.queues import Ordering
from phalanx.model.resources import NONE, Resources, add

STARTS_GIVEN_UP_MAX: Final = 500
"""Starts of one cycle that may be given up, the last ones; each surplus member is one. All together they cost
less than one eviction."""


class Decided(Struct, frozen=True):
    """What the cycle has placed in one queue."""

    queue: QueueName
    pods: tuple[Pod, ...]
    used: Usage
    booked: Usage


class StartPool:
    """The starts of one session, in the units in which they are given up."""

    def __init__(self, session: Session, outcome: Outcome, *, moved: Container[GangId]) -> None:
        """`moved`: gangs that are moved. Their starts are not given up."""
        self._session = session
        by_gang: dict[GangId, list[DemandPlacement]] = {}
        for placement, _ in outcome.steps:
            demand = placement.demand
            is_start = placement.certificate is not None and demand.stage is not Stage.REPAIR
            if is_start and demand.gang.id not in moved:
                by_gang.setdefault(demand.gang.id, []).append(placement)
        needed = _needed_by_others([placement.demand for placement, _ in outcome.steps])
        self._units: dict[GangId, list[Victim]] = {}
        left = STARTS_GIVEN_UP_MAX
        self._staying: dict[GangId, list[DemandPlacement]] = {}
        for gang_id, placements in reversed(by_gang.items()):
            if left < 0 or gang_id in needed:
                self._staying[gang_id] = placements
                continue
            units = self._units_of(session.gangs_after_starts[gang_id], placements)
            left -= len(units)
            if left < 0:
                self._staying[gang_id] = placements
            else:
                self._units[gang_id] = units

    def decided(self, taken: Container[PodUid]) -> list[Decided]:
        """What the cycle has started, also what is never given up; without the units with these pods."""
        units = [unit for units in self._units.values() for unit in units]
        return [
            *self._decided_to_stay,
            *(Decided(unit.queue, unit.pods, unit.used, unit.booked) for unit in not_taken(units, taken)),
        ]

    @cached_property
    def _decided_to_stay(self) -> list[Decided]:
        """The starts that are never given up, by queue: there may be many."""
        by_queue: dict[QueueName, list[Pod]] = {}
        for gang_id, placements in self._staying.items():
            gang = self._session.gangs_after_starts[gang_id]
            placed = {pod.uid: pod for pod in gang.members}
            pods = (placed[pod.uid] for each in placements for part in _parts_of(each) for pod in part)
            by_queue.setdefault(gang.queue, []).extend(pods)
        return [
            Decided(queue, tuple(pods), *usage_of_pods(pods, self._session))
            for queue, pods in by_queue.items()
        ]

    def starts_for(self, beneficiary: Beneficiary) -> list[Victim]:
        """The units that are given up for this gang; units of one gang are adjacent, a `whole` one last."""
        session, found = self._session, list[Victim]()
        for units in self._units.values():
            gang = units[0].gang
            if not is_allowed(gang, beneficiary, session):
                continue
            if session.hooks.protected_until(gang, beneficiary.gang) < NEVER:
                protected = session.hooks.protected_pods(gang, beneficiary)
                unprotected = (unit for unit in units if protected.isdisjoint(_lost_with(unit)))
                found += [self._with_holds(unit) if unit.whole else unit for unit in unprotected]
        return found

    def _units_of(self, gang: Gang, placements: Sequence[DemandPlacement]) -> list[Victim]:
        placed = {pod.uid: pod for pod in gang.members}
        units: list[Victim] = []
        for placement in sorted(placements, key=lambda each: each.demand.stage, reverse=True):
            whole = placement.demand.stage is Stage.START
            parts = ([placed[pod.uid] for pod in part] for part in _parts_of(placement))
            units += [self._unit(gang, part, whole=whole) for part in parts]
        return units

    def _unit(self, gang: Gang, pods: Sequence[Pod], *, whole: bool) -> Victim:
        used, booked = usage_of_pods(pods, self._session)
        return Victim(
            gang=gang,
            pods=tuple(pods),
            whole=whole,
            lost=0,
            used=used,
            booked=booked,
            total=total_of(booked),
            holders=frozenset(pod.uid for pod in gang.members if pod.holds_node),
            is_start=True,
            runs=False,
        )

    def _with_holds(self, start: Victim) -> Victim:
        """The start with what is still held for members of the gang that do not exist yet."""
        used, booked = start.used, start.booked
        for held in [hold for hold in self._session.capacity_holds if hold.gang.id == start.gang.id]:
            more, more_booked = _usage_of_hold(held, self._session)
            used, booked = _sum(used, more), _sum(booked, more_booked)
        return replace(start, used=used, booked=booked, total=total_of(booked))


def search_in_turn(
    find: Callable[[Sequence[Victim]], SearchResult],
    starts: Sequence[Victim],
    victims_of: Callable[[], Sequence[Victim]],
    is_ahead: Callable[[Victim], bool],
) -> SearchResult:
    """Find a plan that gives starts up before it evicts.

    A start that goes before the gang in the order of their queue is given up only instead of evictions.
    `victims_of` is asked only if other starts are not enough.
    """
    behind = [start for start in starts if not is_ahead(start)]
    result = find(behind) if behind else SearchResult()
    victims = victims_of() if result.plan is None else ()
    if victims:
        result = find([*behind, *victims])
    if result.plan is None or not result.plan.evicted or len(behind) == len(starts):
        return result
    for some in (starts, [*starts, *victims]):
        instead = find(some)
        if instead.plan is not None:
            return instead
    return result


class Evictable(Struct, frozen=True):
    """What may be evicted for one demand."""

    victims: Sequence[Victim]
    queue_limits: Sequence[QueueEvictionLimit]
    next_at: int | None = None
    """The next time (ms) at which other gangs may be evicted, if any."""
    is_restricted: bool = False
    """Whether more may be evicted when the starts of this cycle run."""


def evictable_without(
    starts: Sequence[Decided], evictable: Evictable, beneficiary: Beneficiary, session: Session
) -> Evictable:
    """What may be evicted also if these starts had not been decided.

    No running gang becomes a victim because its queue has just started another gang. Starts matter to the
    victims below the same child of the lowest common ancestor with the beneficiary.
    """
    mine = {queue.name for queue in session.queues.path(beneficiary.gang.queue)}
    queues = {each.queue for each in starts}
    beside = {queue.name for name in queues for queue in session.queues.path(name)} - mine
    with session.statement() as trial:
        for each in starts:
            trial.assume_ended(queue=each.queue, used=each.used, booked=each.booked, gone=each.pods)
        # Plugins keep what they have computed for one beneficiary.
        again = replace(beneficiary)
        left = list(_evictable_beside(beside, evictable.victims, again, session))
        limits = session.hooks.queue_eviction_limits(again)
        trial.roll_back()
    if left == evictable.victims and limits == evictable.queue_limits:
        return evictable
    of_running = [replace(limit, counts_starts=False) for limit in limits]
    return replace(
        evictable, victims=left, queue_limits=[*evictable.queue_limits, *of_running], is_restricted=True
    )


def _evictable_beside(
    beside: Set[QueueName], victims: Sequence[Victim], beneficiary: Beneficiary, session: Session
) -> Iterator[Victim]:
    """The victims that may be evicted; those of queues that are not below one of `beside` may."""
    for gang, units in groupby(victims, key=lambda unit: unit.gang):
        if beside.isdisjoint(queue.name for queue in session.queues.path(gang.queue)):
            yield from units
        elif is_allowed(gang, beneficiary, session):
            protected = session.hooks.protected_pods(gang, beneficiary)
            yield from (unit for unit in units if protected.isdisjoint(pod.uid for pod in unit.pods))


def goes_before(start: Gang, gang: Gang, session: Session) -> bool:
    """Whether the order of their queue puts the start first, though its priority is lower."""
    queue = session.queues.get(gang.queue)
    if start.queue != gang.queue or queue is None:
        return False
    is_by_rank = queue.ordering is Ordering.PRIORITY_FIFO
    return not is_by_rank or rank_of(start, session) <= rank_of(gang, session)


def _needed_by_others(demands: Sequence[Demand]) -> set[GangId]:
    """The gangs of these demands with pods that the required affinity of another one may need."""
    requiring: dict[int, set[GangId]] = {}
    states = [
        (demand.gang.id, state)
        for demand in demands
        for batch in demand.batches
        if (state := batch.pods[0].shape.affinity_state) is not None
    ]
    for gang, state in states:
        if state.affinity is not None:
            requiring.setdefault(state.affinity, set()).add(gang)
    return {
        gang for gang, state in states for term in state.matched_by if requiring.get(term, set()) - {gang}
    }


def _lost_with(unit: Victim) -> Collection[PodUid]:
    """The pods that are given up if the unit is."""
    return unit.holders if unit.whole else [pod.uid for pod in unit.pods]


def _parts_of(placement: DemandPlacement) -> Iterator[Sequence[Pod]]:
    """The placed pods that are given up together; of surplus members the last ones first."""
    pods = [pod for _, some in placement.assignments for pod in some if not pod.is_placeholder]
    demand = placement.demand
    if demand.stage is Stage.SURPLUS and not (demand.outer_subgroup or demand.is_whole):
        yield from in_parts(pods[::-1])
    else:
        yield pods


def _usage_of_hold(hold: CapacityHold, session: Session) -> tuple[Usage, Usage]:
    """What is held for members that do not exist yet."""
    pods = [
        replace(pod, node=node, device=hold.parts.get(pod.uid))
        for node, held in hold.assignments
        for pod in held
    ]
    return usage_of_pods(pods, session)


def _sum(usage: Usage, more: Usage) -> Mapping[NodeName, Resources]:
    return {node: add(usage.get(node, NONE), more.get(node, NONE)) for node in (*usage, *more)}
