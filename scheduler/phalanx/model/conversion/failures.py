"""Why a pod failed, and when, and how long one that succeeded ran: told from its status."""

from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.conversion.metadata import seconds
from phalanx.model.pods import PodFailure

NODE_REASONS: Final = frozenset({"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Evicted"})
"""Reasons of pods and of containers that speak of the node and not of the work on it."""

REJECTIONS: Final = frozenset(
    {
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "InsufficientResources",
    }
)
"""Reasons of a kubelet that does not take a pod; those of a lack of room begin with OutOf."""

_FAILED: Final = "Failed"
_SUCCEEDED: Final = "Succeeded"
_DISRUPTION: Final = "DisruptionTarget"
_SCHEDULED: Final = "PodScheduled"


def read_failure(status: core.PodStatus) -> PodFailure | None:
    """The kind of failure of a pod that has failed."""
    if status.phase != _FAILED:
        return None
    if status.reason in REJECTIONS or status.reason.startswith("OutOf"):
        return PodFailure.REJECTED
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    told = any(read_disruption(status)) or status.reason in NODE_REASONS
    if told or any(each.reason in NODE_REASONS for each in ended):
        return PodFailure.NODE_LOST
    if any(each.exit_code for each in _ended(status.init_container_statuses)):
        return PodFailure.INIT_CONTAINER
    return PodFailure.CONTAINER


def read_disruption(status: core.PodStatus) -> tuple[str, int]:
    """Why the pod is to be deleted, as its condition says, and since when it says so; empty where none does.

    In seconds since the epoch, 0 where nobody tells.
    """
    for each in status.conditions:
        if each.type == _DISRUPTION and each.status == "True":
            return each.reason or _DISRUPTION, seconds(each.last_transition_time)
    return "", 0


def read_end(meta: ObjectMeta, status: core.PodStatus) -> int:
    """When the pod failed or began to be deleted, in seconds since the epoch; 0 where nobody tells.

    By the clock of the API server, which stamps creations too, as far as that can be told.
    """
    if meta.deletion_timestamp is not None:
        return max(0, seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0))
    return _failed_at(status) if status.phase == _FAILED else 0


def read_run(status: core.PodStatus) -> tuple[int, int] | None:
    """When a pod that has succeeded began and ended, in seconds since the epoch; None where nobody tells."""
    if status.phase != _SUCCEEDED or status.start_time is None:
        return None
    began, ended = seconds(status.start_time), _last_end(status)
    return (began, ended) if ended >= began else None


def _failed_at(status: core.PodStatus) -> int:
    """The bind, which the API server stamped, and for how long the kubelet had the pod, by the node's clock.

    Only the kubelet says when containers ended, and the node's clock may be off. Right after the bind it says
    when it took the pod.
    """
    ended, bound = _last_end(status), _bound_at(status)
    if not ended or not bound or status.start_time is None:
        return ended
    return bound + max(0, ended - seconds(status.start_time))


def _bound_at(status: core.PodStatus) -> int:
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
