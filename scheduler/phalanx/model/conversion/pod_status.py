"""What the status of a pod says: why it failed, whose decision its end is, when it ended and how long it ran.

Reasons and messages are those of kubelets and controllers of Kubernetes 1.36. docs/faults.md has the table.
"""

from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.values import seconds
from phalanx.model.decisions import EvictionReason
from phalanx.model.pod_failures import FailedContainer, PodFailure

_FAILED: Final = "Failed"
_SUCCEEDED: Final = "Succeeded"
_DISRUPTION: Final = "DisruptionTarget"
_SCHEDULED: Final = "PodScheduled"

_BY_KUBELET: Final = "TerminationByKubelet"
_CLEARED: Final = frozenset({"DeletionByTaintManager", "DeletionByPodGC", EvictionReason.MEMBER_REPLACED})
"""Reasons of the DisruptionTarget condition of pods whose node was tainted, deleted or lost."""

_NODE_REASONS: Final = frozenset({"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Evicted"})
"""Failure reasons of pods and containers that the node caused, not the work."""

_FOR_CRITICAL_POD: Final = "Preempting"
"""Failure reason of a pod that its kubelet ended for a critical one."""

_OWN_EXCESS: Final = (
    "EmptyDir volume",
    "ephemeral local storage usage",
    "ephemeral storage limit",
    "was using",
)
"""Texts of a kubelet that evicts a pod that used more than it may, or more than it requests."""

_UNPREPARED: Final = "UnexpectedAdmissionError"
_TOO_FEW: Final = ("devices unavailable", "not enough")
"""Texts of this error where others hold what the pod requests."""

_REJECTIONS: Final = frozenset(
    {
        _UNPREPARED,
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "InsufficientResources",
    }
)
"""Reasons of a kubelet that rejects a pod. Those for insufficient resources start with OutOf."""


def read_failure(status: core.PodStatus) -> PodFailure | None:
    """The kind of failure of a failed pod."""
    if status.phase != _FAILED:
        return None
    if status.reason in _REJECTIONS or status.reason.startswith("OutOf"):
        is_node = status.reason == _UNPREPARED and not _says(status, _TOO_FEW)
        return PodFailure.NOT_PREPARED if is_node else PodFailure.REJECTED
    disruption, _ = read_disruption(status)
    if disruption in _CLEARED:
        return PodFailure.NODE_CLEARED
    if disruption not in ("", _BY_KUBELET) or status.reason == _FOR_CRITICAL_POD:
        return PodFailure.DISRUPTED
    if status.reason == "Evicted" and _says(status, _OWN_EXCESS):
        return PodFailure.CONTAINER
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    is_reported = bool(disruption) or status.reason in _NODE_REASONS
    if is_reported or any(each.reason in _NODE_REASONS for each in ended):
        return PodFailure.NODE_LOST
    container = failed_container(status)
    is_init = container is not None and container.is_init
    return PodFailure.INIT_CONTAINER if is_init else PodFailure.CONTAINER


def failed_container(status: core.PodStatus) -> FailedContainer | None:
    """The first container of a failed pod that ended with an error, init containers first."""
    if status.phase != _FAILED:
        return None
    for is_init, statuses in ((True, status.init_container_statuses), (False, status.container_statuses)):
        for each in statuses:
            for end in _ended((each,)):
                if end.exit_code:
                    return FailedContainer(each.name or "?", end.exit_code, end.reason, is_init)
    return None


def _says(status: core.PodStatus, texts: tuple[str, ...]) -> bool:
    return any(text in status.message for text in texts)


def read_disruption(status: core.PodStatus) -> tuple[str, int]:
    """Reason and time of the DisruptionTarget condition; an empty reason without one.

    The time is in seconds since the epoch, 0 if unknown.
    """
    for each in status.conditions:
        if each.type == _DISRUPTION and each.status == "True":
            return each.reason or _DISRUPTION, seconds(each.last_transition_time)
    return "", 0


def read_end(meta: ObjectMeta, status: core.PodStatus) -> int:
    """When the pod failed or its deletion started, in seconds since the epoch; 0 if unknown.

    It is by the clock of the API server, which also sets creation times, as far as that is possible.
    """
    if meta.deletion_timestamp is not None:
        return max(0, seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0))
    return _failed_at(status) if status.phase == _FAILED else 0


def read_run(status: core.PodStatus) -> tuple[int, int] | None:
    """Start and end of a succeeded pod, in seconds since the epoch; None if unknown."""
    if status.phase != _SUCCEEDED or status.start_time is None:
        return None
    began, ended = seconds(status.start_time), _last_end(status)
    return (began, ended) if ended >= began else None


def _failed_at(status: core.PodStatus) -> int:
    """The time of the bind by the API server's clock, plus the run time of the pod by the node's clock.

    Only the kubelet reports when containers ended, and the node's clock may be wrong. The kubelet reports
    right after the bind when it accepted the pod.
    """
    ended, bound = _last_end(status), bound_at(status)
    if not ended or not bound or status.start_time is None:
        return ended
    return bound + max(0, ended - seconds(status.start_time))


def bound_at(status: core.PodStatus) -> int:
    """When it got its node, in seconds since the epoch; 0 if unknown."""
    for each in status.conditions:
        if each.type == _SCHEDULED and each.status == "True":
            return seconds(each.last_transition_time)
    return 0


def _last_end(status: core.PodStatus) -> int:
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    return max((seconds(each.finished_at) for each in ended), default=0)


def _ended(statuses: tuple[core.ContainerStatus, ...]) -> list[core.Terminated]:
    states = [each.state for each in statuses if each.state is not None]
    return [state.terminated for state in states if state.terminated is not None]
