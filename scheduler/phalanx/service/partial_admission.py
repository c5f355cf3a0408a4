"""Which parallelism a Job with partial admission gets. Pure: the reporter writes it.

docs/workloads.md states the rule.
"""

from typing import Final

from phalanx.kube.job_sizes import JobSize
from phalanx.model.awaited_pods import is_awaited
from phalanx.model.conversion.partial_admission import PartialAdmission
from phalanx.model.conversion.workload_members import Workload
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Reason, Verdict

NO_CAPACITY: Final = frozenset(
    {
        Reason.QUEUE_LIMIT,
        Reason.ABOVE_QUEUE_LIMIT,
        Reason.PLUGIN_LIMIT,
        Reason.ABOVE_PLUGIN_LIMIT,
        Reason.BLOCKED_BY_QUEUE_HEAD,
        Reason.NO_ELIGIBLE_NODE,
        Reason.POD_AFFINITY,
        Reason.POD_ANTI_AFFINITY,
        Reason.TOPOLOGY_SPREAD,
        Reason.INSUFFICIENT_CAPACITY,
        Reason.ABOVE_CLUSTER_CAPACITY,
        Reason.NO_DOMAIN_FITS,
        Reason.ABOVE_DOMAIN_CAPACITY,
        Reason.CELLS_RESERVED,
        Reason.CAPACITY_RESERVED,
        Reason.CAPACITY_NOMINATED,
        Reason.WOULD_DELAY_RESERVATION,
        Reason.NODES_UNAVAILABLE,
    }
)
"""Reasons for which pods that wait may wait long. All others end soon, or by a correction of an object."""


def size_of(workload: Workload, gang: Gang | None, verdict: Verdict | None) -> JobSize | None:
    """The parallelism that the Job gets now, None if it keeps what it has.

    `gang` is that of its pods, None without pods, and `verdict` says why some of them wait.
    """
    partial = workload.partial
    if partial is None:
        return None
    if partial.full is not None:
        is_new = gang is not None and not partial.has_run and _is_new(gang)
        starts_again = partial.suspended or is_new
        return _restored(workload, partial, partial.full) if starts_again else None
    if gang is None or partial.suspended or partial.has_run or verdict is None:
        return None
    return _lowered(workload, partial, gang) if verdict.reason in NO_CAPACITY else None


def _is_new(gang: Gang) -> bool:
    """Whether nothing of it has run: it was suspended and resumed while no scheduler led."""
    pods = gang.members
    return gang.is_untouched and all(pod.is_waiting and not is_awaited(pod.uid) for pod in pods)


def _restored(workload: Workload, partial: PartialAdmission, full: int) -> JobSize:
    parallelism = max(full, partial.parallelism)
    message = f"The Job starts again: the parallelism is {parallelism} again"
    return _size(workload, partial, parallelism, None, message)


def _lowered(workload: Workload, partial: PartialAdmission, gang: Gang) -> JobSize | None:
    """To the pods that have nodes, once all pods exist and no bind is under way."""
    placed = sum(pod.is_stable for pod in gang.members)
    waiting = sum(pod.is_waiting for pod in gang.members)
    is_settled = placed + waiting == len(gang.members) >= partial.pods and not gang.problems
    if not (is_settled and gang.started and waiting and partial.minimum <= placed < partial.parallelism):
        return None
    message = f"Started with {placed} of {partial.pods} pods: there is no capacity for the others"
    return _size(workload, partial, placed, partial.parallelism, message)


def _size(
    workload: Workload, partial: PartialAdmission, parallelism: int, full: int | None, message: str
) -> JobSize:
    group = workload.group
    return JobSize(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        version=partial.version,
        parallelism=parallelism,
        full=full,
        message=message,
    )
