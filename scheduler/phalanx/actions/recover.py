"""Recover started gangs that lost members, as their `recovery` requests, once the grace period is over.

`Replace` evicts the members on lost nodes, so that their controller creates new ones, which are placed beside
the remaining members. `Restart` evicts all members, and the gang starts again as a whole in the order of its
queue. A gang that may be restarted, and cannot be repaired inside the domain that it requires, is restarted
too if it fits elsewhere (`unrepaired.py`). A member without a controller is not evicted, since nothing would
recreate it; the verdict reports that. The DisruptionTarget condition is written before a pod is deleted, so
that its controller can distinguish an infrastructure fault from a failure of the workload.
"""

from msgspec.structs import replace

from phalanx.actions import formatting, unrepaired
from phalanx.actions.context import Cycle
from phalanx.actions.member_losses import MemberLoss
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.api.pod_groups import RecoveryMode
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence, Reason, Verdict


def execute(cycle: Cycle) -> None:
    """Evict the victims of every loss whose grace period is over."""
    session, now = cycle.session, cycle.session.snapshot.now
    for gang_id, losses in cycle.member_losses.items():
        for loss in losses:
            if loss.grace_end <= now and session.may_evict:
                _recover(session.gangs[gang_id], loss, session)
    waiting = unrepaired.find(cycle)
    for loss, gang in waiting:
        if loss.victims:
            _recover(gang, loss, session)
    since = {
        gang_id: {loss.kind: loss.since for loss in losses} for gang_id, losses in cycle.member_losses.items()
    }
    since.update(unrepaired.since(waiting))
    cycle.memory = replace(cycle.memory, member_losses=dict(sorted(since.items())))
    ends = [loss.grace_end for losses in cycle.member_losses.values() for loss in losses]
    ends += [loss.grace_end for loss, _ in waiting]
    cycle.wake_at(min((end for end in ends if end > now), default=None))


def _recover(gang: Gang, loss: MemberLoss, session: Session) -> None:
    """Evict the victims of a loss. In a restart, evict none if one has no controller to recreate it."""
    victims = [pod for pod in loss.victims if session.pod_state(pod) is PodState.BOUND]
    unmanaged = [pod for pod in victims if pod.controller is None]
    evictable = [pod for pod in victims if pod.controller is not None]
    if unmanaged and gang.id not in session.verdicts:
        session.refuse(gang, _unmanaged_verdict(gang, loss, unmanaged))
    restarts = loss.mode is RecoveryMode.RESTART
    if evictable and not (restarts and unmanaged):
        reason = EvictionReason.GANG_RESTARTED if restarts else EvictionReason.MEMBER_REPLACED
        with session.statement() as statement:
            statement.evict(gang=gang, pods=evictable, reason=reason, message=_message(gang, loss))


def _message(gang: Gang, loss: MemberLoss) -> str:
    verb = "restarted" if loss.mode is RecoveryMode.RESTART else "replaced"
    subject = f"{gang} is" if loss.mode is RecoveryMode.RESTART else "the member is"
    return f"{subject} {verb} after {loss.cause}"


def _unmanaged_verdict(gang: Gang, loss: MemberLoss, unmanaged: list[Pod]) -> Verdict:
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.UNMANAGED_PODS,
        message=f"cannot evict {formatting.pods(len(unmanaged))} without controller after {loss.cause}",
        evidence=tuple(Evidence(str(pod), formatting.holds_node(pod)) for pod in unmanaged),
        next_step="Delete these pods and create them again",
    )
