"""Adds the cost of an eviction: the lost run time of the pods.

The cost of a pod is the number of minutes that it has run, at least one, times its size. The size is eight
per device and one per core, rounded up; a share of a device counts in proportion. A pod that does not run yet
costs nothing. With the annotation `scheduling.phalanx.dev/last-checkpoint` on the pod or its PodGroup, the
minutes count from the last checkpoint. More than seven days count as seven.
"""

from collections.abc import Sequence
from typing import Final

from phalanx.framework.evictions import size_of
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod, PodPhase

_MINUTES_MAX: Final = 7 * 24 * 60


class RunTimeLost(Plugin):
    """Lost minutes times size, summed over the pods."""

    name = "run-time-lost"

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        """The cost of evicting these pods of the gang together."""
        now = view.now // 1000
        return sum(_minutes(pod, gang, now) * size_of(pod) for pod in pods)


def _minutes(pod: Pod, gang: Gang, now: int) -> int:
    if pod.phase is PodPhase.PENDING:
        return 0
    since = max(pod.running_since, pod.checkpointed, gang.checkpointed)
    minutes = (now - since) // 60 if pod.running_since else 0
    return min(_MINUTES_MAX, max(1, minutes))
