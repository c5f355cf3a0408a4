"""Lets a gang wait while scheduling gates hold back members that it needs.

Members with a gate are never placed. Where enough others are ready, the gang starts without them.
"""

from collections.abc import Sequence

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason


class SchedulingGates(Plugin):
    """Speaks up only where opening the gates would let the gang go on."""

    name = "scheduling-gates"

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a gang that has nothing else to place, or too little for its minimum."""
        waiting = [pod for pod in gang.members if pod.is_waiting]
        gated = sum(1 for pod in waiting if pod.gated)
        if not gated or (gated < len(waiting) and not _lacks_gated_ones(gang, waiting)):
            return None
        return Objection(
            reason=Reason.SCHEDULING_GATED,
            message=f"{gated} of {len(waiting)} waiting pods have scheduling gates",
            next_step="Remove spec.schedulingGates from the pods; usually their controller does",
        )


def _lacks_gated_ones(gang: Gang, waiting: Sequence[Pod]) -> bool:
    """Whether its minimum could start with those that have a gate, and cannot without."""
    counted = [pod for pod in gang.members if pod.counts_for_gang]
    ready = [pod for pod in waiting if not pod.gated]
    is_enough = gang.minimum.is_reached
    return not gang.started and is_enough([*counted, *waiting]) and not is_enough([*counted, *ready])
