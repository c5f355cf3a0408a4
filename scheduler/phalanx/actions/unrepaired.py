"""Find started gangs that cannot be repaired in their required domain, and fit elsewhere as a whole.

Such a gang has lost members whose replacements wait, and no node of the domain in which the others run has
capacity for them. If its `recovery` requests a restart for some kind of loss, it is restarted as a whole: its
owner has said that a restart is better than to wait. That is decided only if the gang fits at once where it
does not run, with all its rules and all its members, and if its replacements do not fit the domain even
without the pods that terminate anyway. Its claims to devices lose them with its pods.
"""

from collections.abc import Iterator
from typing import Final

from phalanx.actions.consolidation.movable_gangs import demand_of_recreated, may_restart
from phalanx.actions.context import Cycle
from phalanx.actions.demands.demand import Demand, Stage
from phalanx.actions.member_losses import MemberLoss
from phalanx.actions.outcome import Failure
from phalanx.actions.preemption.victims import assume_terminated, usage_of_pods
from phalanx.actions.problems.placer import Placer
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.actions.reservations.reservations import hold
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.limits import NODE_LOSS_GRACE_MS
from phalanx.model.api.pod_groups import RecoveryMode
from phalanx.model.gangs import Gang
from phalanx.model.memory import LossKind
from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.supplies.devices.session.session_devices import claimed_devices

UNREPAIRED_TRIED_MAX: Final = 8
"""Gangs that cannot be repaired in their domain and are tried elsewhere in one cycle; each solves twice."""


def find(cycle: Cycle) -> list[tuple[MemberLoss, Gang]]:
    """The gangs that wait for a repair and may be restarted for it, with the pods to evict then.

    The victims are empty until the grace period is over, and if the gang fits nowhere else: the period then
    begins again.
    """
    found = []
    trials = _Trials(cycle)
    for failure in cycle.outcome.failures.values():
        gang = failure.demand.gang
        if _waits_for_repair(failure, cycle):
            found.append((_loss(gang, failure.demand, trials, cycle.session), gang))
    return found


def _waits_for_repair(failure: Failure, cycle: Cycle) -> bool:
    demand, gang = failure.demand, failure.demand.gang
    if demand.stage is not Stage.REPAIR or not gang.started or gang.is_finishing or not failure.tried:
        return False
    if failure.objection is not None or failure.blocked_by is not None:
        return False
    recovery = gang.recovery
    if RecoveryMode.RESTART not in (recovery.member_failure_mode, recovery.node_loss_mode):
        return False
    has_domain = gang.topology.required is not None or any(each.required for each in gang.subgroups)
    is_served = gang.id in cycle.member_losses or gang.id in cycle.nominations.open
    return has_domain and not is_served and not cycle.moves.is_moving(gang.id)


def _loss(gang: Gang, demand: Demand, trials: "_Trials", session: Session) -> MemberLoss:
    now, memory = session.snapshot.now, session.snapshot.memory
    grace = NODE_LOSS_GRACE_MS if gang.recovery.grace_ms is None else gang.recovery.grace_ms
    since = min(now, memory.member_losses.get(gang.id, {}).get(LossKind.UNREPAIRED, now))
    victims: tuple[Pod, ...] = ()
    if since + grace <= now and session.may_evict:
        victims = trials.victims(gang, demand)
        since = since if victims else now
    return MemberLoss(
        LossKind.UNREPAIRED,
        RecoveryMode.RESTART,
        since,
        max(since + grace, now if victims else now + 1),
        victims,
        "the loss of members that find no node in the required domain",
    )


class _Trials:
    """Tries gangs of one session elsewhere, after all placements, up to the limit of a cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self._session = cycle.session
        self._outcome = cycle.outcome
        self._placer = Placer(cycle.session, ProblemBuilder(cycle.session, may_grow=True))
        self._left = UNREPAIRED_TRIED_MAX

    def victims(self, gang: Gang, demand: Demand) -> tuple[Pod, ...]:
        """All members with a node if the whole gang fits without them; else none."""
        holders = tuple(
            pod for pod in gang.members if pod.holds_node and self._session.pod_state(pod) is PodState.BOUND
        )
        pods = (*holders, *(pod for batch in demand.batches for pod in batch.pods))
        if not self._left or not holders or not all(_is_known(pod, gang, self._session) for pod in pods):
            return ()
        self._left -= 1
        is_better = self._outcome.isolate_errors(
            lambda: self._fits_elsewhere(gang, demand, holders, pods), about=f"restart of {gang}"
        )
        return holders if is_better else ()

    def _fits_elsewhere(
        self, gang: Gang, demand: Demand, holders: tuple[Pod, ...], pods: tuple[Pod, ...]
    ) -> bool:
        """Whether the whole gang fits without its present pods, but not the replacements beside them."""
        session = self._session
        with session.respecting_nominations(gang), session.statement() as trial:
            hold(self._outcome.reserved_for_others(gang.id), trial)
            assume_terminated(session, trial)
            fits = False
            if self._placer.place_whole(demand) is None:
                used, booked = usage_of_pods(holders, session)
                trial.assume_ended(queue=gang.queue, used=used, booked=booked, gone=holders)
                again = demand_of_recreated(gang, pods, session)
                fits = may_restart(again, session) and self._placer.place_whole(again) is not None
            trial.roll_back()
        return fits


def _is_known(pod: Pod, gang: Gang, session: Session) -> bool:
    """Whether it is known what the pod needs when it is created again.

    So it must be which devices its claims can have then. The session knows what waiting pods require near
    them and by what they are to be spread. It knows this of pods that run only if the cache was made for
    moves.
    """
    shape, index = pod.shape, session.affinity_index
    if pod.is_placeholder:
        return False
    if pod.holds_node and pod.device_claims and claimed_devices(session).claims_of_next(pod, gang) is None:
        return False
    return not (shape.affinity or shape.spread) or (index is not None and index.knows_rules_of(shape))


def since(losses: list[tuple[MemberLoss, Gang]]) -> Iterator[tuple[GangId, dict[LossKind, int]]]:
    """What the memory keeps: since when each of these gangs waits for its repair."""
    return ((gang.id, {loss.kind: loss.since}) for loss, gang in losses)
