"""Displacement: start gangs that failed in place of other starts of the same cycle.

Nothing of a start has been sent yet, so it is given up before anything that runs is evicted. For each gang
that failed, in their order, the starts that it may displace (`preemption/displaceable_starts.py`) are taken
back. If it fits then, it starts, and the others are decided again in their order, where they were if that is
possible. Those that do not fit any more wait. If that is not enough, or if it may displace none but gangs
that run might be evicted for it, all starts of the cycle are taken back. It then starts only if all those
start again, on any nodes, that it may not displace.

This ends: a gang displaces others at most once in a cycle, and then only gangs of its own queue and of higher
rank displace it. In each cycle that displaces, the last gang that displaced others has started. So with
constant demand no gang is displaced more often than gangs wait.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from msgspec.structs import replace

from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import (
    Demand,
    Stage,
    batches_of,
    beneficiary_of,
    part_to_evict_for,
    remaining_demand,
    whole_demand,
)
from phalanx.actions.demands.demand_queue import rank_of
from phalanx.actions.demands.member_choice import Start
from phalanx.actions.limits import DISPLACEABLE_STARTS_MAX, DISPLACEMENTS_TRIED_MAX
from phalanx.actions.outcome import Failure
from phalanx.actions.preemption.displaceable_starts import (
    DisplaceableStarts,
    has_plain_usage,
    is_start,
)
from phalanx.actions.preemption.victims import VictimPool
from phalanx.actions.problems.placement import DemandPlacement, may_be_repeated, take_back
from phalanx.framework.config import ActionName
from phalanx.framework.statement import Statement
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.reasons import Evidence


class Placer(Protocol):
    """The part of allocation that places demands in the session as it is now."""

    def key(self, demand: Demand) -> Hashable:
        """Equal for demands that differ only in the names of their pods."""

    def find(self, demand: Demand) -> Start | None:
        """A placement of the demand, perhaps with other members; nothing is changed."""

    def apply(self, start: Start) -> Demand | None:
        """Place it, and return what is left of the demand."""

    def repeat(self, placement: DemandPlacement) -> None:
        """Place it as before."""

    def taken_back(self, gang: Gang) -> None:
        """Note that a placement of the gang was taken back for good."""

    def give_up(self, failure: Failure) -> None:
        """Record the failure of a demand that was placed before."""

    def capacity_changed(self) -> None:
        """Forget what follows from the placements so far."""


def starts_of(cycle: Cycle, without: Sequence[DemandPlacement] = ()) -> list[DemandPlacement]:
    """The last starts of this cycle that may be taken back, but these."""
    steps = [placement for placement, _ in cycle.outcome.steps if is_start(placement)]
    free = [
        each
        for each in steps
        if each.demand.gang.id not in cycle.moves.open and not any(each is other for other in without)
    ]
    return free[-DISPLACEABLE_STARTS_MAX:]


def starts_to_displace(
    cycle: Cycle, demand: Demand, without: Sequence[DemandPlacement] = ()
) -> list[DemandPlacement]:
    """The starts of this cycle, but these, that a demand for which gangs are evicted may displace.

    Starts with shares of GPUs or NUMA zones are left out.
    """
    starts = starts_of(cycle, without)
    known = DisplaceableStarts(cycle.session, starts, cycle.outcome.displacing)
    found = known.displaceable_by(demand, lambda: True) if starts else []
    return [each for each in found if has_plain_usage(each, cycle.session)]


def give_up_starts(cycle: Cycle, demand: Demand, starts: Sequence[DemandPlacement]) -> None:
    """Take these starts back for a demand for which gangs are evicted; their gangs wait."""
    outcome, beneficiary = cycle.outcome, beneficiary_of(demand)
    for start in reversed(starts):
        gang = start.demand.gang
        cause = cycle.session.hooks.explain_eviction(gang, beneficiary)
        take_back(cycle.session, start)
        outcome.steps = [step for step in outcome.steps if step[0] is not start]
        outcome.failures[gang.id] = Failure(start.demand)
        outcome.displaced[gang.id] = _evidence(gang, demand.gang, cause)


def _evidence(gang: Gang, instead: Gang, cause: str) -> Evidence:
    finding = f"{instead} starts instead" + (f": {cause}" if cause else "")
    return Evidence(f"gang {gang}", finding)


class Displacement:
    """The displacements of one cycle."""

    def __init__(self, cycle: Cycle, placer: Placer) -> None:
        self._cycle = cycle
        self._session = cycle.session
        self._outcome = cycle.outcome
        self._moves = cycle.moves
        self._placer = placer
        self._tried = 0
        self._starts: list[DemandPlacement] = []
        self._known = DisplaceableStarts(cycle.session, (), ())
        self._evicting: dict[Hashable, bool] = {}
        self._impossible: set[Hashable] = set()

    def improve(self) -> bool:
        """Start failed gangs in place of others that this cycle started; return whether there are any.

        Nothing is displaced in a cycle that may not evict for gangs that do not fit.
        """
        if ActionName.PREEMPT not in self._session.config.actions or not self._session.may_evict:
            return False
        found = False
        self._forget_starts()
        for demand in list(self._candidates()):
            if self._tried < DISPLACEMENTS_TRIED_MAX and not self._outcome.is_exhausted:
                found |= self._starts_instead(demand)
        return found

    def _candidates(self) -> Iterator[Demand]:
        """The failed demands that may evict, for which no capacity is being freed."""
        known = self._outcome.displacing | self._cycle.nominations.open.keys()
        for gang_id, failure in self._outcome.failures.items():
            is_served = gang_id in known or self._moves.is_served(gang_id)
            if failure.is_new and not is_served and failure.demand.gang.may_preempt:
                yield part_to_evict_for(failure.demand)

    def _starts_instead(self, demand: Demand) -> bool:
        """Whether the gang starts in place of others."""
        starts = self._starts
        if not starts:
            return False
        self._tried += 1
        found = self._known.displaceable_by(demand, lambda: self._might_evict(demand))
        others = [each for each in starts if not any(each is other for other in found)]
        causes = self._causes(demand, found)
        if found and self._exchange(demand, found, (), causes):
            return True
        has_rights = bool(found) or (bool(others) and self._might_evict(demand))
        return bool(others) and has_rights and self._exchange(demand, starts, others, causes)

    def _forget_starts(self) -> None:
        """Other gangs are started now."""
        self._impossible.clear()
        self._starts = starts_of(self._cycle)
        self._known = DisplaceableStarts(self._session, self._starts, self._outcome.displacing)

    @cached_property
    def _pool(self) -> VictimPool:
        return VictimPool(self._session)

    def _might_evict(self, demand: Demand) -> bool:
        """Whether some gang that runs might be evicted for it; equal requests of one queue are asked once."""
        gang, beneficiary = demand.gang, beneficiary_of(demand)
        kinds = tuple(pod.shape.key for pod in beneficiary.pod_kinds)
        key = (gang.queue, gang.priority, tuple(sorted(beneficiary.requested.items())), kinds)
        if key not in self._evicting:
            self._evicting[key] = bool(self._pool.victims_for(beneficiary).victims)
        return self._evicting[key]

    def _causes(self, demand: Demand, starts: Sequence[DemandPlacement]) -> dict[GangId, str]:
        """Why the gang goes before the gang of each start."""
        beneficiary, explain = beneficiary_of(demand), self._session.hooks.explain_eviction
        return {each.demand.gang.id: explain(each.demand.gang, beneficiary) for each in starts}

    # --- an exchange --------------------------------------------------------------------------------------

    def _exchange(
        self,
        demand: Demand,
        starts: Sequence[DemandPlacement],
        required: Sequence[DemandPlacement],
        causes: Mapping[GangId, str],
    ) -> bool:
        """Take these starts back, start the gang, and decide the starts again, the `required` ones whole.

        If that is not possible, nothing is changed. What was not possible once is not tried for equal gangs.
        """
        key = (self._placer.key(demand), rank_of(demand.gang, self._session), tuple(map(id, starts)))
        if key in self._impossible:
            return False
        before, with_others = list(self._outcome.steps), set(self._outcome.with_other_members)
        taken = [take_back(self._session, each) for each in reversed(starts)]
        self._outcome.steps = [step for step in before if not any(step[0] is each for each in starts)]
        kept = len(self._outcome.steps)
        self._placer.capacity_changed()
        lost = self._decided_again(starts, required) if self._place(whole_demand(demand)) is None else None
        if lost is None:
            self._roll_back([*taken, *(statement for _, statement in self._outcome.steps[kept:])])
            self._outcome.steps, self._outcome.with_other_members = before, with_others
            self._placer.taken_back(demand.gang)
            self._placer.capacity_changed()
            self._impossible.add(key)
            return False
        self._record(demand, lost, causes)
        return True

    def _place(self, demand: Demand) -> Demand | None:
        """Place as much of the demand as fits, and return the rest."""
        found = self._placer.find(demand)
        if found is None:
            return demand
        if found[0] is not demand:
            self._outcome.with_other_members.add(demand.gang.id)
        return self._placer.apply(found)

    def _decided_again(
        self, starts: Sequence[DemandPlacement], required: Sequence[DemandPlacement]
    ) -> list[Demand] | None:
        """Decide the starts again, and return what does not fit; None if it is a part of a required one."""
        lost: list[Demand] = []
        moved: set[GangId] = set()
        for start in starts:
            rest = self._decide_again(start, moved)
            if rest is not None and any(start is each for each in required):
                return None
            lost += [] if rest is None else [rest]
        return lost

    def _decide_again(self, start: DemandPlacement, moved: set[GangId]) -> Demand | None:
        """Place it where it was, else anywhere; return what does not fit.

        The surplus of a gang whose minimum is in another place or waits is not placed where it was.
        """
        gang = start.demand.gang.id
        if gang not in moved and may_be_repeated(self._session, start):
            self._placer.repeat(start)
            return None
        demand, is_moved = _placed_part(start), gang in moved
        moved.add(gang)
        if is_moved and demand.stage is Stage.SURPLUS and not self._has_start(gang):
            return demand
        return self._place(demand)

    def _has_start(self, gang: GangId) -> bool:
        """Whether the gang has members with nodes, so that surplus may join them."""
        known = self._session.gangs[gang]
        return bool(known.active) or bool(self._session.assigned_nodes(known))

    def _record(self, demand: Demand, lost: Sequence[Demand], causes: Mapping[GangId, str]) -> None:
        outcome, gang = self._outcome, demand.gang
        self._forget_starts()
        placed = [pod for batch in demand.batches for pod in batch.pods]
        rest = remaining_demand(outcome.failures.pop(gang.id).demand, placed)
        if rest.batches:
            outcome.failures[gang.id] = Failure(rest)
        outcome.displacing.add(gang.id)
        for each in lost:
            self._placer.give_up(Failure(each))
            outcome.displaced[each.gang.id] = _evidence(each.gang, gang, causes[each.gang.id])

    def _roll_back(self, statements: Sequence[Statement]) -> None:
        for statement in reversed(statements):
            statement.roll_back()


def _placed_part(placement: DemandPlacement) -> Demand:
    """The demand; if only a part of it was placed, a demand for the same pods."""
    demand = placement.demand
    if demand.is_whole:
        return demand
    pods = [pod for _, some in placement.assignments for pod in some]
    return replace(demand, batches=batches_of(pods, whole=False))
