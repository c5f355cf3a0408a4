"""Lets a gang wait while scheduling gates hold back members that it needs.

Members with a gate are never placed. Where enough others are ready, the gang starts without them.
"""

from typing import Final

from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Problem, Reason


class SchedulingGates:
    """Speaks up only where opening the gates would let the gang go on."""

    name: Final = "scheduling-gates"

    def refuse_gang(self, gang: Gang, session: Session) -> Problem | None:
        """Refuse a gang that has nothing else to place, or too little for its minimum."""
        waiting = [pod for pod in gang.members if pod.is_waiting]
        gated = sum(1 for pod in waiting if pod.gated)
        if not gated:
            return None
        ready = len(waiting) - gated
        needed = 0 if gang.started else gang.min_member - gang.active
        if ready and not ready < needed <= len(waiting):
            return None
        return Problem(
            reason=Reason.SCHEDULING_GATED,
            message=f"{gated} of {len(waiting)} waiting pods carry scheduling gates",
            next_step="Remove spec.schedulingGates from the pods, which is up to whoever set them",
        )
