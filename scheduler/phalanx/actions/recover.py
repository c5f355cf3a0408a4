"""Step 4: help started gangs that lost members, as their `recovery` asks, once their grace is over.

Replace evicts the members on lost nodes, so that their controller makes new ones; those are placed beside the
members that stay. Restart evicts all members, and the gang starts anew, whole, at its place in the queue. A
member without a controller is not evicted, since nobody would make it again: it is held, and the verdict says
so. The DisruptionTarget condition, which is written before a pod is deleted, lets its controller tell an
infrastructure fault from a failure of the work.
"""

from msgspec.structs import replace

from phalanx.actions import formatting
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
    """Evict for every loss whose grace period is over."""
    session, now = cycle.session, cycle.session.snapshot.now
    for gang_id, losses in cycle.member_losses.items():
        for loss in losses:
            if loss.due <= now and session.may_evict:
                _help(session.gangs[gang_id], loss, session)
    since = {
        gang_id: {loss.kind: loss.since for loss in losses}
        for gang_id, losses in sorted(cycle.member_losses.items())
    }
    cycle.memory = replace(cycle.memory, member_losses=since)
    ends = [loss.due for losses in cycle.member_losses.values() for loss in losses if loss.due > now]
    cycle.wake_at(min(ends, default=None))


def _help(gang: Gang, loss: MemberLoss, session: Session) -> None:
    """A restart takes all members or none: what has no controller would never join the others again."""
    victims = [pod for pod in loss.victims if session.pod_state(pod) is PodState.BOUND]
    held = [pod for pod in victims if pod.controller is None]
    evictable = [pod for pod in victims if pod.controller is not None]
    if held and gang.id not in session.verdicts:
        session.refuse(gang, _held_verdict(gang, loss, held))
    restarts = loss.mode is RecoveryMode.RESTART
    if evictable and not (restarts and held):
        reason = EvictionReason.GANG_RESTARTED if restarts else EvictionReason.MEMBER_REPLACED
        with session.statement() as statement:
            statement.evict(gang=gang, pods=evictable, reason=reason, message=_message(gang, loss))


def _message(gang: Gang, loss: MemberLoss) -> str:
    what = "restarted" if loss.mode is RecoveryMode.RESTART else "replaced"
    whom = f"{gang} is" if loss.mode is RecoveryMode.RESTART else "the member is"
    return f"{whom} {what} after {loss.cause}"


def _held_verdict(gang: Gang, loss: MemberLoss, held: list[Pod]) -> Verdict:
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.UNMANAGED_PODS,
        message=f"cannot evict {formatting.pods(len(held))} without controller after {loss.cause}",
        evidence=tuple(Evidence(subject=str(pod), finding=f"holds node {pod.node}") for pod in held),
        next_step="Delete these pods and create them again",
    )
