"""Check the evictions that earlier cycles decided: which go on, and which are not allowed any more."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.preemption.victims import (
    TerminatingPods,
    Victim,
    may_still_be_evicted,
    terminating_pods,
    victim_of,
)
from phalanx.actions.problems.capacity_holders import charged, total_of
from phalanx.actions.problems.held_devices import are_in_use
from phalanx.framework.evictable_pods import candidate
from phalanx.framework.evictions import Beneficiary, is_marked_for_eviction
from phalanx.framework.queues.guarantees import Coverage
from phalanx.framework.queues.protected_gangs import start_time
from phalanx.framework.retry import EVICTION_CHECK_MS
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.gangs import Gang
from phalanx.model.memory import Nomination
from phalanx.model.names import GangId
from phalanx.model.pods import Pod

CLOCK_STEP_MS: Final = 1000
"""Milliseconds: starts of gangs are known in seconds."""


class EvictionsInProgress:
    """The evictions for the valid nominations of earlier cycles."""

    def __init__(
        self, session: Session, nominations: Nominations, is_moving: Callable[[GangId], bool]
    ) -> None:
        """`is_moving`: whether a gang is evicted to be moved."""
        self._session = session
        self._known = nominations
        self._is_moving = is_moving
        self.withdrawn = frozenset(
            gang for gang in nominations.open if self.is_to_be_checked(gang) and not self._may_evict_all(gang)
        )
        """Gangs whose nomination has a victim that has no condition yet and may not be evicted any more."""

    def is_to_be_checked(self, gang_id: GangId) -> bool:
        """Whether the evictions for this gang should have happened by now."""
        return checked_at(self._known.open[gang_id]) <= self._session.snapshot.now

    def is_being_freed(self, gang_id: GangId) -> bool:
        """Whether victims of this gang are still to terminate, or other pods on its nominated nodes are, or
        whether claims of victims still have its devices."""
        if self._known.victims_left(gang_id):
            return gang_id not in self.withdrawn
        if are_in_use(self._session, self._known.open[gang_id].devices):
            return True
        nominated = self._known.open[gang_id].usage
        return any(not each.used.keys().isdisjoint(nominated) for each in self._terminating)

    @cached_property
    def _terminating(self) -> list[TerminatingPods]:
        """As of the begin of the step."""
        return terminating_pods(self._session)

    def _may_evict_all(self, gang_id: GangId) -> bool:
        """Whether all its victims are terminating or may still be evicted.

        That changes when priorities or guarantees change, or when a victim finishes.
        """
        session, gang = self._session, self._session.gangs[gang_id]
        by_gang: dict[GangId, list[Pod]] = {}
        for pod in self._known.victims_left(gang_id):
            victim = self._known.gang_of(pod).id
            if session.pod_state(pod) is PodState.BOUND and not self._is_moving(victim):
                by_gang.setdefault(victim, []).append(pod)
        victims = [victim_of(candidate(name, session), pods, session) for name, pods in by_gang.items()]
        unmarked = [each.gang for each in victims if not all(map(is_marked_for_eviction, each.pods))]
        return not unmarked or (
            all(may_still_be_evicted(victim, gang, session) for victim in unmarked)
            and not any(self._has_started_since(victim, gang_id) for victim in unmarked)
            and not any(self._is_guaranteed(victim, gang_id) for victim in victims)
        )

    def _has_started_since(self, victim: Gang, gang_id: GangId) -> bool:
        """Whether its devices were ready before its placement could end, so that its run time protects it."""
        session, decided = self._session, self._known.open[gang_id].decided
        until = session.hooks.protected_until(victim, session.gangs[gang_id])
        now = session.snapshot.now
        return until > now and start_time(victim, now) + CLOCK_STEP_MS > decided

    def _is_guaranteed(self, victim: Victim, gang_id: GangId) -> bool:
        """Whether guarantees of another queue cover pods of the victim fully, such as raised ones."""
        session, nomination = self._session, self._known.open[gang_id]
        requested = total_of(charged(nomination.usage))
        sides = session.guarantees.sides(Beneficiary(session.gangs[gang_id], requested), victim.queue)
        if sides is None:
            return False
        covered = session.guarantees.covered_pods(victim.gang, sides.theirs, sides.short, Coverage.FULL)
        return any(pod.uid in covered for pod in victim.pods)


def checked_at(nomination: Nomination) -> int:
    """The time (ms) at which a cycle checks whether the evictions happened."""
    return nomination.decided + EVICTION_CHECK_MS
