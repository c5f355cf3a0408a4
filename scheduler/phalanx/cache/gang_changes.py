"""What a change of a pod or of its PodGroup means for gangs."""

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from phalanx.model.conversion.pod_groups import GangKey, PodGroup
from phalanx.model.dialects.yunikorn import YUNIKORN
from phalanx.model.gangs import GangKind
from phalanx.model.pods import Pod

_APPLICATION_ENDS_S: Final = 30
"""Seconds without a pod after which an application of YuniKorn has ended: its completing timeout."""


APPLICATION: Final = YUNIKORN.name
"""The dialect of gangs that pods define."""


def other_keys(pod: Pod) -> list[GangKey]:
    """Keys of the PodGroups that it names in addition to its own."""
    return [GangKey(GangKind.POD_GROUP, pod.namespace, name, dialect) for dialect, name in pod.other_groups]


def claims(group: PodGroup | None) -> bool | None:
    """Whether the PodGroup makes its pods a gang; None without one."""
    return group.is_gang if group is not None else None


def queue_of(group: PodGroup | None) -> str | None:
    return group.spec.queue or None if group is not None else None


def eviction_relevant(group: PodGroup | None) -> object:
    """The fields that decide whether its pods may be evicted, and which guarantee covers them."""
    return (group.priority_class, group.spec.disruption) if group is not None else None


def moved_what_it_holds(old: Pod, new: Pod, changes_gang: bool) -> bool:
    """Whether a pod on a node changed its gang or queue, which frees quota of the queue that it left, or is
    charged for fewer devices."""
    if not set(old.charges) <= set(new.charges):
        return True
    named, before = (new.queue, new.charged_queue), (old.queue, old.charged_queue)
    return old.holds_node and (changes_gang or named != before)


def without_status(group: PodGroup) -> PodGroup:
    """A PodGroup without the fields that the scheduler writes, and without the time of its last
    checkpoint."""
    return structs.replace(group, resource_version="", started_at=0, checkpointed=0, ignored="")


def is_application(key: GangKey) -> bool:
    """Whether pods define the gangs of this key."""
    return key.dialect == APPLICATION


def of_earlier_runs(pods: Iterable[Pod]) -> list[Pod]:
    """Pods of earlier applications of the same ID: they had ended some time before all pods were created that
    have not. A CronJob gives all of its Jobs the same ID."""
    pods = list(pods)
    began = min((pod.created for pod in pods if not pod.is_finished), default=0)
    return [pod for pod in pods if pod.is_finished and _end(pod) + _APPLICATION_ENDS_S <= began]


def _end(pod: Pod) -> int:
    """When a pod ended; its creation if that is not known."""
    return max(pod.ended, pod.ran[1] if pod.ran is not None else 0) or pod.created


def as_surplus(pod: Pod) -> Pod:
    """A pod in the gang of an application of which it names no task group: its own fields are no role of the
    application, and not its queue."""
    return structs.replace(pod, role="", queue=None)


def has_same_gang_fields(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod surely have one gang key. Equal labels share an object."""
    return (
        old.scheduler_name == new.scheduler_name
        and old.namespace == new.namespace
        and (old.group, old.dialect, old.min_member) == (new.group, new.dialect, new.min_member)
        and old.other_groups == new.other_groups
        and old.controller == new.controller
        and old.labels is new.labels
        and old.per_pod_labels is new.per_pod_labels
    )
