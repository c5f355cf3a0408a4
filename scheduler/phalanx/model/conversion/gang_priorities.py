"""The priority of a gang: of its PodGroup, as far as its members or its queue allow it.

Kubernetes checks who may use a PriorityClass for pods only, not for PodGroups. `docs/tenants.md` states the
rule.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from phalanx.model.conversion.cluster_objects import PriorityLevel, resolve
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.pods import Pod, PodPhase

_NEVER: Final = "Never"


class GangPriority(NamedTuple):
    """`hint`: why the priority is lower than the PodGroup asks for; empty if it is not."""

    level: PriorityLevel
    hint: str = ""


def gang_priority(
    members: Sequence[Pod],
    group: PodGroup | None,
    classes: Mapping[str, PriorityLevel],
    queue_max: int | None,
) -> GangPriority:
    """The priority of the gang of these members, of which there is at least one.

    Members that do not exist yet count like pods without a class. `queue_max`: the priority up to which its
    queue lets PodGroups ignore the priorities of their pods.
    """
    lowest = min(pod.priority for pod in members)
    if group is not None and group.spec.reserves and _lacks_members(members, group):
        lowest = min(lowest, (resolve("", classes) or PriorityLevel()).value)
    never = any(pod.preemption_policy == _NEVER for pod in members)
    allowed = PriorityLevel(lowest, _NEVER) if never else PriorityLevel(lowest)
    if group is None:
        return GangPriority(allowed)
    written = resolve(group.priority_class, classes) if group.priority_class else allowed
    asked = _with_policy(written or PriorityLevel(), group.spec.preemption_policy)
    if group.priority_class and queue_max is not None and asked.value <= queue_max:
        return GangPriority(asked)
    value = min(asked.value, max(lowest, queue_max) if queue_max is not None else lowest)
    hint = ""
    if value < asked.value:
        hint = (
            f"{group.title}: priorityClassName {group.priority_class} ({asked.value}) "
            f"counts as {value}, the most that its pods and its queue allow"
        )
    policy = _NEVER if never else asked.preemption_policy
    return GangPriority(PriorityLevel(value, policy), hint)


def _lacks_members(members: Sequence[Pod], group: PodGroup) -> bool:
    existing = sum(1 for pod in members if not pod.deleting and pod.phase is not PodPhase.FAILED)
    return existing < group.min_member


def _with_policy(level: PriorityLevel, policy: str | None) -> PriorityLevel:
    return level if policy is None else PriorityLevel(level.value, policy)
