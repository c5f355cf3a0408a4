"""Adds the cost of an eviction: the lost run time of the pods, and a fixed cost for each eviction.

The cost of a pod is the number of minutes that it has run, at least one, times its size. The size is eight
per device and one per core, rounded up; a share of a device counts in proportion. A pod that does not run yet
costs nothing. With the annotation `scheduling.phalanx.dev/last-checkpoint` on the pod or its PodGroup, the
minutes count from the last checkpoint. More than seven days count as seven.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.charges import charged_for
from phalanx.model.gangs import Gang
from phalanx.model.gpu_shares import GPU_MEMORY, GPU_SHARE, WHOLE_DEVICE, requests_share
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.resources import CPU

_MINUTES_MAX: Final = 7 * 24 * 60
_SIZE_MAX: Final = 4096
_PER_DEVICE: Final = 8
_SHARES: Final = (GPU_SHARE, GPU_MEMORY)


class RunTimeLostArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the configuration file may set."""

    per_eviction: int = 1000
    """The fixed cost of the eviction of a gang, or of a member that is evicted alone. A device costs 8 for
    each lost minute, a core 1."""


class RunTimeLost(Plugin):
    """Lost minutes times size, summed over the pods."""

    name = "run-time-lost"
    Arguments = RunTimeLostArguments

    def __init__(self, arguments: RunTimeLostArguments) -> None:
        self._per_eviction = arguments.per_eviction

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        """The cost of evicting these pods of the gang together."""
        now = view.now // 1000
        lost = sum(_minutes(pod, gang, now) * _size(pod) for pod in pods)
        return self._per_eviction + lost


def _minutes(pod: Pod, gang: Gang, now: int) -> int:
    if pod.phase is PodPhase.PENDING:
        return 0
    since = max(pod.running_since, pod.checkpointed, gang.checkpointed)
    minutes = (now - since) // 60 if pod.running_since else 0
    return min(_MINUTES_MAX, max(1, minutes))


def _size(pod: Pod) -> int:
    requests = charged_for(pod)
    whole = sum(amount for name, amount in requests.items() if "/" in name and name not in _SHARES)
    devices = whole * WHOLE_DEVICE + _share(pod)
    return min(_SIZE_MAX, max(1, -(-_PER_DEVICE * devices // WHOLE_DEVICE) - (-requests.get(CPU, 0) // 1000)))


def _share(pod: Pod) -> int:
    """Thousandths of a device; a request in bytes counts as a whole device while that is unknown."""
    requests = pod.shape.requests
    if not requests_share(requests):
        return 0
    return pod.device.taken if pod.device is not None else requests.get(GPU_SHARE, WHOLE_DEVICE)
