"""Delays a gang after a failed bind of one of its pods, longer after each failure in a row.

A cause such as an admission webhook would refuse the next bind too. Without a delay the gang would be placed
and refused in every cycle, and would use capacity and API requests that other gangs need.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Objection, Reason


class FailedBinds(Plugin):
    """Checks the back-off of waiting pods after failed binds."""

    name = "failed-binds"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """Refuse a gang until the back-off of its pods has ended."""
        now = view.now
        holds = [
            (pod.bind_backoff.until, pod)
            for pod in gang.members
            if pod.is_waiting and pod.bind_backoff is not None
        ]
        until, pod = max(holds, key=lambda entry: entry[0], default=(now, None))
        if pod is None or pod.bind_backoff is None or until <= now:
            return None
        failures = pod.bind_backoff.failures
        times = "once" if failures == 1 else f"{failures} times"
        return Objection(
            reason=Reason.BACKOFF_AFTER_FAILURE,
            message=f"binding pod {pod} failed {times}: {pod.bind_backoff.why}",
            next_step="Wait for the next attempt; if it fails again, fix what rejects the bind",
            until=min(end for end, _ in holds if end > now),
        )
