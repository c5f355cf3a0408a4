"""Find the gangs that may be moved so that another gang fits.

A gang is moved whole, and only while it is healthy: all members run, and each has a controller that recreates
it. Its priority must not be higher than that of the other gang. The queues do not matter, since a moved gang
loses no capacity, only its work since the last checkpoint. `disruption`, minimum run times and
PodDisruptionBudgets are respected as in preemption; budgets are hard limits here. A gang is not moved again
before it has run for the configured time.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.consolidation.moves import Moves
from phalanx.actions.demands.demand import START, Demand, Stage, batches_of
from phalanx.actions.preemption.nominations import Nominations
from phalanx.actions.preemption.victims import usage_of_pods
from phalanx.framework.session import Session
from phalanx.framework.statement import Usage
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.supplies.devices.session.session_devices import claimed_devices


def may_be_moved(pod: Pod, gang: Gang, session: Session) -> bool:
    """Whether what is held for the next pod is all that it needs to run again.

    The plan does not model parts of nodes. It must be known which devices its claims can have. What a running
    pod requires near it, and by what it is to be spread, is known only if the cache was made for it. A pod
    that waiting pods require near them must stay. Preferences do not matter.
    """
    shape = pod.shape
    if session.facts.needed_supplies((shape,)):
        return False
    if pod.device_claims and claimed_devices(session).claims_of_next(pod, gang) is None:
        return False
    state, index = shape.affinity_state, session.affinity_index
    if index is None:
        return not (shape.affinity or shape.spread)
    return index.knows_rules_of(shape) and not (state is not None and index.is_wanted(state))


class Movable(Struct, frozen=True):
    """A gang that may be moved: its pods, usage and cost, and its demand afterwards."""

    gang: Gang
    pods: tuple[Pod, ...]
    cost: int
    used: Usage
    booked: Usage
    demand: Demand


class MovablePool:
    """Finds gangs that may be moved in one session; each gang is examined once."""

    def __init__(self, session: Session, nominations: Nominations, moves: Moves) -> None:
        self._session = session
        self._busy = {*moves.open, *session.snapshot.memory.preempted}
        self.nominated_victims = frozenset(pod for each in nominations.open.values() for pod in each.victims)
        self._units: dict[GangId, Movable | None] = {}

    def units_for(self, beneficiary: Gang) -> tuple[Movable, ...]:
        """All gangs that may be moved for this gang; never the gang for which it was evicted itself.

        A gang that requires pods like those of the beneficiary near it stays: it could use more nodes only
        after these have started.
        """
        if self._session.hooks.delayed_until(beneficiary) > self._session.snapshot.now:
            return ()
        offered = _terms_that_select(beneficiary)
        evictor = self._session.snapshot.memory.preempted.get(beneficiary.id)
        found: list[Movable] = []
        for gang in self._session.gangs.values():
            if gang.id in (beneficiary.id, evictor) or gang.priority > beneficiary.priority:
                continue
            unit = self._unit_of(gang)
            if unit is None or (offered and not offered.isdisjoint(terms_near(unit.demand))):
                continue
            if self._protected_until(unit, beneficiary) <= self._session.snapshot.now:
                found.append(unit)
        return tuple(found)

    def _protected_until(self, unit: Movable, beneficiary: Gang) -> int:
        rested = (
            max(pod.running_since for pod in unit.pods) * 1000 + self._session.config.consolidation.rest_ms
        )
        return max(rested, self._session.hooks.protected_until(unit.gang, beneficiary))

    def _unit_of(self, gang: Gang) -> Movable | None:
        if gang.id not in self._units:
            unit = self._made(gang) if self._is_healthy(gang) else None
            is_moved = unit is not None and may_restart(unit.demand, self._session)
            self._units[gang.id] = unit if is_moved else None
        return self._units[gang.id]

    def _is_healthy(self, gang: Gang) -> bool:
        session = self._session
        if gang.id in self._busy or gang.is_finishing or session.assigned_nodes(gang):
            return False
        if session.queues.not_open(gang.queue) is not None:
            return False
        pods = [pod for pod in gang.members if not pod.is_finished]
        if not gang.minimum.is_reached(pods) or not all(self._is_movable(pod, gang) for pod in pods):
            return False
        index = session.affinity_index
        return index is None or not index.preferences.are_required_by_others(pods)

    def _is_movable(self, pod: Pod, gang: Gang) -> bool:
        node, shape = pod.node, pod.shape
        return (
            node in self._session.nodes
            and node not in self._session.faults
            and node not in self._session.facts.suspect_nodes
            and pod.phase is PodPhase.RUNNING
            and pod.running_since > 0
            and pod.controller is not None
            and not (pod.assumed or pod.deleting or pod.uid in self.nominated_victims)
            and pod.scheduler_name == self._session.config.scheduler_name
            and not (pod.problems or shape.unsupported or shape.invalid)
            and may_be_moved(pod, gang, self._session)
        )

    def _made(self, gang: Gang) -> Movable:
        pods = tuple(pod for pod in gang.members if not pod.is_finished)
        used, booked = usage_of_pods(pods, self._session)
        cost = self._session.hooks.eviction_cost(gang, pods)
        return Movable(gang, pods, cost, used, booked, demand_of_recreated(gang, pods, self._session))


def demand_of_recreated(gang: Gang, pods: Sequence[Pod], session: Session) -> Demand:
    """The demand to start all members, as if they had been recreated.

    What they require near them, and by what they are to be spread, counts as far as the session knows it.
    Their claims to devices are made again, or lose their devices, unless other pods use them.
    """
    has_rules = any(pod.shape.affinity or pod.shape.spread or pod.device_claims for pod in pods)
    known = session.snapshot.gangs.get(gang.id) if has_rules else None
    plain = {} if known is None else {pod.uid: pod for pod in known.members}
    members = tuple(_recreated(plain.get(pod.uid, pod), gang, session) for pod in pods)
    recreated = replace(gang, members=members, started=False, starts_over=True)
    if known is not None:
        recreated = session.with_classes(recreated)
        members = recreated.members
    return Demand(recreated, Stage.START, START, batches_of(recreated, members, whole=True))


def may_restart(demand: Demand, session: Session) -> bool:
    """Whether no plugin objects to the recreated gang, and its claims can have devices."""
    gang = demand.gang
    objections = (supply.objection(gang) for supply in session.supplies)
    return session.hooks.check_gang(gang) is None and not any(objections)


def _recreated(pod: Pod, gang: Gang, session: Session) -> Pod:
    claims = claimed_devices(session).claims_of_next(pod, gang) if pod.device_claims else ()
    if claims is None:
        claims = tuple(replace(each, is_renewed=True) for each in pod.device_claims)
    return replace(
        pod, node=None, phase=PodPhase.PENDING, running_since=0, bind_backoff=None, device_claims=claims
    )


def _terms_that_select(gang: Gang) -> set[int]:
    """The terms that select waiting pods of the gang."""
    states = [pod.shape.affinity_state for pod in gang.members if pod.is_waiting]
    return {number for state in states if state is not None for number in state.matched_by}


def terms_near(demand: Demand) -> set[int]:
    """What the pods of the demand require near them."""
    states = [batch.pods[0].shape.affinity_state for batch in demand.batches]
    return {state.affinity for state in states if state is not None and state.affinity is not None}
