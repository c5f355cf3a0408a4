"""Delays a gang while scheduling gates hold back members that it needs.

Gated members are never placed. If enough other members are ready, the gang starts without them.
"""

from collections.abc import Sequence

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.reasons import Objection, Reason


class SchedulingGates(Plugin):
    """Objects only if the gang could start without the gates."""

    name = "scheduling-gates"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a gang whose waiting members are all gated, or that lacks gated members to its minimum."""
        waiting = [pod for pod in gang.members if pod.is_waiting]
        gated = sum(1 for pod in waiting if pod.gated)
        if not gated or (gated < len(waiting) and not _lacks_gated_ones(gang, waiting)):
            return None
        verb = "has" if gated == 1 else "have"
        return Objection(
            reason=Reason.SCHEDULING_GATED,
            message=f"{gated} of {len(waiting)} waiting pods {verb} scheduling gates",
            next_step="Remove spec.schedulingGates from the pods; usually their controller does",
        )


def _lacks_gated_ones(gang: Gang, waiting: Sequence[Pod]) -> bool:
    """Whether the minimum is reached with the gated members, but not without them."""
    counted = gang.counted
    ready = [pod for pod in waiting if not pod.gated]
    is_enough = gang.minimum.is_reached
    return not gang.started and is_enough([*counted, *waiting]) and not is_enough([*counted, *ready])
