"""Why a pod failed, and when, and how long one that succeeded ran: told from its status."""

from typing import Final

from phalanx.model.pods import PodFailure
from phalanx.model.reading.metadata import seconds
from phalanx.model.wire import core
from phalanx.model.wire.meta import ObjectMeta

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


def read_failure(status: core.PodStatus) -> PodFailure | None:
    """The kind of failure of a pod that has failed."""
    if status.phase != _FAILED:
        return None
    if status.reason in REJECTIONS or status.reason.startswith("OutOf"):
        return PodFailure.REJECTED
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    told = bool(read_disruption(status)) or status.reason in NODE_REASONS
    if told or any(each.reason in NODE_REASONS for each in ended):
        return PodFailure.NODE_LOST
    if any(each.exit_code for each in _ended(status.init_container_statuses)):
        return PodFailure.INIT_CONTAINER
    return PodFailure.CONTAINER


def read_disruption(status: core.PodStatus) -> str:
    """Why the pod is to be deleted, as its condition says; empty where none says so."""
    for each in status.conditions:
        if each.type == _DISRUPTION and each.status == "True":
            return each.reason or _DISRUPTION
    return ""


def read_end(meta: ObjectMeta, status: core.PodStatus) -> int:
    """When the pod failed or began to be deleted, in seconds since the epoch; 0 where nobody tells."""
    if meta.deletion_timestamp is not None:
        return max(0, seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0))
    return _last_end(status) if status.phase == _FAILED else 0


def read_run(status: core.PodStatus) -> tuple[int, int] | None:
    """When a pod that has succeeded began and ended, in seconds since the epoch; None where nobody tells."""
    if status.phase != _SUCCEEDED or status.start_time is None:
        return None
    began, ended = seconds(status.start_time), _last_end(status)
    return (began, ended) if ended >= began else None


def _last_end(status: core.PodStatus) -> int:
    ended = [*_ended(status.init_container_statuses), *_ended(status.container_statuses)]
    return max((seconds(each.finished_at) for each in ended), default=0)


def _ended(statuses: tuple[core.ContainerStatus, ...]) -> list[core.Terminated]:
    states = [each.state for each in statuses if each.state is not None]
    return [state.terminated for state in states if state.terminated is not None]
