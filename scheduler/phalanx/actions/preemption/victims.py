"""Find the pods that may be evicted for a demand, in which units, and what each unit holds and costs.

A gang loses members beyond its minimum, or it is evicted whole. Each member beyond the minimum is a unit of
its own; if there are many, several form one unit. With `disruption` mode Single each member is a unit. Pods
that terminate anyway are no victims, nor are members of other schedulers. Pods of other schedulers that are
in no gang are units of their own (`framework/evictable_pods.py`). Assumed pods are no victims: they are not
evicted before the API server confirms them. But a gang of which all pods wait for devices is one unit:
nothing is deleted, its placement ends. Starts of this cycle are given up instead (`starts.py`).
"""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.problems.capacity_holders import AssignedPod, total_of, usage_of
from phalanx.framework.evictable_pods import candidate, candidates
from phalanx.framework.evictions import Beneficiary, surplus_members
from phalanx.framework.member_units import units_of
from phalanx.framework.plugin import NEVER
from phalanx.framework.retry import FRESH_VICTIMS_MS
from phalanx.framework.session import Session
from phalanx.framework.statement import Statement, Usage
from phalanx.framework.states import PodState
from phalanx.model.api.pod_groups import DisruptionMode
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources

SURPLUS_UNITS_MAX: Final = 64
"""Units of a gang that may be evicted one by one: members beyond its minimum, several together in larger
gangs."""

GRACE_PERIOD_MS_MAX: Final = 14_400_000
"""Milliseconds of a grace period during which capacity is held. Capacity that is freed later is not held."""


class Victim(Struct, frozen=True):
    """Pods of one gang that are evicted together."""

    gang: Gang
    pods: tuple[Pod, ...]
    whole: bool
    """Whether the gang cannot continue without them."""
    lost: int
    """The loss, by the plugins."""
    used: Usage
    """What their eviction frees on nodes."""
    booked: Usage
    """The part of it that is charged to the queue."""
    total: Resources
    """The sum of `booked`."""
    holders: frozenset[PodUid] = frozenset()
    """All members of the gang that hold nodes and are not terminating."""
    is_start: bool = False
    """Whether this cycle has placed them, so that they are given up and not evicted."""
    runs: bool = True
    """Whether their eviction ends something that runs."""
    importance: int = 0
    """Victims of less importance are evicted first (`objective.py`)."""
    cost: int = 0
    """What their eviction adds to the objective, by which sets of victims compare."""

    @property
    def queue(self) -> QueueName:
        """The queue that is charged for it."""
        return self.gang.queue

    def booked_on(self, nodes: frozenset[NodeName] | None) -> Resources:
        """The part of `total` on these nodes; None for all nodes."""
        if nodes is None:
            return self.total
        return total_of({node: amounts for node, amounts in self.booked.items() if node in nodes})


class EvictableUnits(Struct, frozen=True):
    """The victims that may be evicted now."""

    victims: tuple[Victim, ...]
    next_at: int | None
    """The next time (ms) at which other gangs may be evicted, if any."""


class VictimPool:
    """Finds the victims of one session; the units of each gang are computed once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._units: dict[GangId, list[Victim]] = {}

    def victims_for(self, beneficiary: Beneficiary) -> EvictableUnits:
        """The units that may be evicted for this gang; units of one gang are adjacent, `whole` ones last."""
        session = self._session
        delayed_until = session.hooks.delayed_until(beneficiary.gang)
        if delayed_until > session.snapshot.now:
            return EvictableUnits((), delayed_until if delayed_until < NEVER else None)
        found: list[Victim] = []
        later: list[int] = []
        for gang in candidates(session):
            new_nodes = session.assigned_nodes(gang)
            if not (gang.nodes or new_nodes) or not is_allowed(gang, beneficiary, session):
                continue
            if new_nodes or any(pod.assumed and not pod.awaits_devices for pod in gang.members):
                later.append(session.snapshot.now + FRESH_VICTIMS_MS)
                continue
            until = session.hooks.protected_until(gang, beneficiary.gang)
            runs = not any(pod.awaits_devices for pod in gang.members)
            if until <= session.snapshot.now or (until < NEVER and not runs):
                protected = session.hooks.protected_pods(gang, beneficiary)
                found.extend(_unprotected(self._units_of(gang), protected))
            elif until < NEVER:
                later.append(until)
        return EvictableUnits(tuple(found), min(later, default=None))

    def _units_of(self, gang: Gang) -> list[Victim]:
        if gang.id not in self._units:
            self._units[gang.id] = list(_units_of(gang, self._session))
        return self._units[gang.id]


def not_taken(units: Iterable[Victim], taken: Container[PodUid]) -> list[Victim]:
    """The units of which no pod is taken by another decision."""
    return [unit for unit in units if not any(pod.uid in taken for pod in unit.pods)]


def _unprotected(units: Sequence[Victim], protected: Collection[PodUid]) -> Iterator[Victim]:
    """The units without protected pods."""
    return (unit for unit in units if not any(pod.uid in protected for pod in unit.pods))


class TerminatingPods(Struct, frozen=True):
    """Pods of one gang that are being evicted or deleted, and what they will free.

    Pods that exist long after their grace period free nothing on nodes, since the time of their end is
    unknown; their queue is not charged for them any more.
    """

    queue: QueueName
    pods: tuple[Pod, ...]
    used: Usage
    booked: Usage


def terminating_pods(session: Session) -> list[TerminatingPods]:
    """The terminating pods of all gangs. `pods` does not contain those that are long overdue."""
    stuck_before = session.snapshot.now - session.config.retry.nomination_ms
    found = []
    evicted = {each.gang for each in session.evictions}
    changed = {gang.id for gang in session.incomplete} | evicted
    changed |= {name for name, gang in session.evictable_pods.items() if gang.has_deleting}
    for gang in [candidate(name, session) for name in sorted(changed)]:
        pods = [
            pod for pod in gang.members if pod.holds_node and session.pod_state(pod) is PodState.RELEASING
        ]
        if pods:
            ending = tuple(
                pod for pod in pods if not pod.deleting or termination_deadline(pod) > stuck_before
            )
            used, _ = usage_of_pods(ending, session)
            _, booked = usage_of_pods(pods, session)
            found.append(TerminatingPods(gang.queue, ending, used, booked))
    return found


def termination_deadline(pod: Pod) -> int:
    """The end (ms) of the grace period of a pod that is being deleted, which is cut to a few hours."""
    return min(pod.ended * 1000 + GRACE_PERIOD_MS_MAX, (pod.ended + pod.grace) * 1000)


def assume_terminated(session: Session, trial: Statement) -> None:
    """Assume that all terminating pods have terminated."""
    for each in terminating_pods(session):
        trial.assume_ended(queue=each.queue, used=each.used, booked=each.booked, gone=each.pods)


def is_allowed(gang: Gang, beneficiary: Beneficiary, session: Session) -> bool:
    """Whether the rights of the beneficiary allow to evict pods of the gang."""
    if gang.id == beneficiary.gang.id:
        return False
    if session.preempted.get(beneficiary.gang.id) == gang.id:
        return False
    return session.hooks.may_evict(gang, beneficiary)


def may_still_be_evicted(gang: Gang, beneficiary: Gang, session: Session) -> bool:
    """Whether a chosen victim that has no condition yet may still be evicted for this gang.

    For a victim of another queue, shares are not compared again: its own eviction changes them.
    """
    until = session.hooks.protected_until(gang, beneficiary)
    is_finishing = session.records.of(gang).record.finishing_since > 0
    if until >= NEVER or (is_finishing and until > session.snapshot.now):
        return False
    is_judged_again = gang.queue == beneficiary.queue or gang.id in session.evictable_pods
    return not is_judged_again or session.hooks.may_evict(gang, Beneficiary(beneficiary, requested={}))


def _units_of(gang: Gang, session: Session) -> Iterator[Victim]:
    is_foreign = gang.id in session.evictable_pods
    holders = [
        pod
        for pod in gang.members
        if pod.holds_node and (is_foreign or _is_ours(pod, session)) and not _is_terminating(pod, session)
    ]
    if not holders or any(pod.assumed for pod in holders):
        if holders and all(pod.awaits_devices for pod in holders):
            yield replace(victim_of(gang, holders, session), runs=False, holders=_uids(holders))
        return
    is_single = gang.disruption.eviction_mode is DisruptionMode.SINGLE
    alone = [[pod] for pod in holders] if is_single else _surplus_parts(gang, holders)
    names = {pod.uid for part in alone for pod in part}
    together = [pod for pod in holders if pod.uid not in names]
    known = _uids(holders)
    for part in alone:
        victim = victim_of(gang, part, session, whole=len(holders) == len(part))
        yield replace(victim, holders=known)
    if together:
        yield replace(victim_of(gang, together, session), holders=known)


def _surplus_parts(gang: Gang, holders: Sequence[Pod]) -> list[Sequence[Pod]]:
    """Surplus members in parts that are evicted together; units of hosts stay whole."""
    surplus = surplus_members(gang, holders)
    whole = [list(unit) for unit in units_of(gang, surplus)]
    inside = {pod.uid for unit in whole for pod in unit}
    return [*in_parts([pod for pod in surplus if pod.uid not in inside]), *whole]


def _uids(pods: Sequence[Pod]) -> frozenset[PodUid]:
    return frozenset(pod.uid for pod in pods)


def in_parts(surplus: Sequence[Pod]) -> list[Sequence[Pod]]:
    """Surplus members in at most SURPLUS_UNITS_MAX parts that are evicted together."""
    size = max(1, -(-len(surplus) // SURPLUS_UNITS_MAX))
    return [surplus[first : first + size] for first in range(0, len(surplus), size)]


def _is_terminating(pod: Pod, session: Session) -> bool:
    """Whether it is being deleted, or this cycle evicts it."""
    return pod.deleting or session.pod_state(pod) is PodState.RELEASING


def _is_ours(pod: Pod, session: Session) -> bool:
    return pod.scheduler_name == session.config.scheduler_name


def victim_of(gang: Gang, pods: Sequence[Pod], session: Session, *, whole: bool = True) -> Victim:
    """These pods of the gang as one unit."""
    used, booked = usage_of_pods(pods, session)
    return Victim(
        gang=gang,
        pods=tuple(pods),
        whole=whole,
        lost=session.hooks.eviction_cost(gang, pods),
        used=used,
        booked=booked,
        total=total_of(booked),
    )


def usage_of_pods(pods: Sequence[Pod], session: Session) -> tuple[Usage, Usage]:
    """What the pods use on nodes, and the part of it that is charged to their queue."""
    assigned = [AssignedPod(pod, pod.node, pod.device) for pod in pods if pod.node is not None]
    booked = usage_of([each for each in assigned if _is_ours(each.pod, session)])
    plain = not session.facts.needed_supplies(each.pod.shape for each in assigned) and not any(
        each.pod.shape.supplied or each.pod.charges for each in assigned
    )
    if plain and all(_is_ours(each.pod, session) for each in assigned):
        return booked, booked
    return usage_of(assigned, with_devices=True), booked
