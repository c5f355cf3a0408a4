"""Finish preemptions of which only some evictions happened.

All victims of a gang get a condition before the first one is deleted (`kube/evictor.py`). So an unfinished
preemption is visible on the remaining pods: an earlier leader stopped, or a write was lost. The remaining
pods are evicted even if the capacity is not needed any more, because an incomplete gang does no work.
"""

from collections.abc import Collection

from phalanx.framework.evictions import is_marked_for_eviction, keeps_minimum
from phalanx.framework.session import Session
from phalanx.framework.states import PodState
from phalanx.model.decisions import EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.pods import Pod


def finish(session: Session, nominated: Collection[GangId]) -> dict[GangId, GangId]:
    """Evict the rest of partly evicted gangs; return the beneficiary of each.

    `nominated`: beneficiaries whose victims are evicted by other means.
    """
    found = {}
    for gang_id, by in session.preempted.items():
        gang = session.gangs.get(gang_id)
        left = _left_of(gang, session) if gang is not None and by not in nominated else []
        if gang is not None and left:
            found[gang_id] = by
            with session.statement() as statement:
                statement.evict(
                    gang=gang,
                    pods=left,
                    reason=EvictionReason.PREEMPTED,
                    message="evicted with the rest of its gang, which was preempted",
                )
    return found


def _left_of(gang: Gang, session: Session) -> list[Pod]:
    """The bound pods of a gang below its minimum, if at least one of them is marked for eviction."""
    if gang.is_finishing or keeps_minimum(gang):
        return []
    if any(pod.scheduler_name != session.config.scheduler_name for pod in gang.members):
        return []
    left = [pod for pod in gang.members if session.pod_state(pod) is PodState.BOUND and not pod.assumed]
    return left if any(is_marked_for_eviction(pod) for pod in left) else []
