"""Subgroups that follow from the labels of pods, as PodGroups of Volcano describe them.

A policy makes a subgroup of the pods with equal values of its labels. The gang needs `least` subgroups of
each policy, and so many pods in all that its own minimum is reached. This is the minimum of a gang of Phalanx
if all subgroups are needed, or if there is one policy, of which some subgroups are enough. Everything else is
refused.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.api.pod_groups import SUB_GROUPS_MAX
from phalanx.model.conversion.pod_groups import PodGroup, SubgroupPolicy
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import Objection, Reason
from phalanx.model.selectors import labels_match


class _Found(Struct):
    """A subgroup, and how many of its pods count."""

    policy: SubgroupPolicy
    name: str
    values: tuple[str, ...]
    pods: int = 0

    @property
    def is_whole(self) -> bool:
        return self.pods >= self.policy.size


def divided(group: PodGroup, pods: Sequence[Pod]) -> tuple[PodGroup, list[Pod]]:
    """The PodGroup with the subgroups that its pods form by its policies, and the pods with their own."""
    found: dict[str, _Found] = {}
    alone, placed = 0, list[Pod]()
    for pod in pods:
        counts = not pod.deleting and pod.phase is not PodPhase.FAILED
        subgroup = _subgroup_of(pod, group.policies)
        if subgroup is None:
            alone += counts
            placed.append(pod)
            continue
        found.setdefault(subgroup.name, subgroup).pods += counts
        placed.append(replace(pod, subgroup=subgroup.name))
    subgroups = sorted(found.values(), key=lambda each: _rank(each, group.policies))
    return _with_minimum(group, subgroups, alone), placed


def _subgroup_of(pod: Pod, policies: Sequence[SubgroupPolicy]) -> _Found | None:
    """The subgroup by the first policy that selects the pod."""
    labels = dict(pod.all_labels)
    for policy in policies:
        values = tuple(labels.get(key, "") for key in policy.keys)
        if values and all(values) and (policy.selector is None or labels_match(labels, policy.selector)):
            return _Found(policy, f"{policy.name}/{'-'.join(values)}", values)
    return None


def _rank(found: _Found, policies: Sequence[SubgroupPolicy]) -> tuple[int, int, str]:
    """By policy, and by number where the first value is one."""
    first = found.values[0]
    number = int(first) if first.isascii() and first.isdigit() else -1
    return policies.index(found.policy), number, found.name


def _with_minimum(group: PodGroup, subgroups: Sequence[_Found], alone: int) -> PodGroup:
    """`alone`: how many pods are in no subgroup."""
    enough = _enough(group, subgroups, alone)
    needed = sorted(each.policy.size for each in subgroups)[:enough]
    problems = (*group.problems, *_problems(group, subgroups, alone))
    return replace(
        group,
        spec=replace(group.spec, min_sub_groups=enough if enough < len(subgroups) else None),
        min_member=max(group.min_member, sum(needed)),
        subgroups=tuple(_spec(each) for each in subgroups),
        problems=problems,
    )


def _spec(found: _Found) -> SubgroupSpec:
    policy = found.policy
    return SubgroupSpec(
        name=found.name,
        min_member=policy.size,
        required=policy.required,
        preferred=policy.preferred,
        topology=policy.topology,
    )


def _enough(group: PodGroup, subgroups: Sequence[_Found], alone: int) -> int:
    """How many subgroups must start: of one policy the largest, up to the minimum of the gang."""
    if len(group.policies) > 1:
        return len(subgroups)
    sizes = sorted((each.pods for each in subgroups if each.is_whole), reverse=True)
    members = accumulate(sizes, initial=alone)
    count = next((count for count, total in enumerate(members) if total >= group.min_member), len(subgroups))
    return min(max(count, group.policies[0].least, 1), len(subgroups))


def _problems(group: PodGroup, subgroups: Sequence[_Found], alone: int) -> Iterator[Objection]:
    total = alone + sum(each.pods for each in subgroups if each.is_whole)
    if len(subgroups) > SUB_GROUPS_MAX:
        text = f"spec.subGroupPolicy makes {len(subgroups)} subgroups, more than {SUB_GROUPS_MAX}"
        yield Objection(Reason.UNSUPPORTED_FIELD, text, "Use labels with fewer values")
    for policy in group.policies:
        own = [each for each in subgroups if each.policy is policy]
        path = f"spec.subGroupPolicy[{policy.name}]"
        if len(own) < policy.least:
            text = f"{path} needs {policy.least} subgroups, and pods of {len(own)} exist"
            yield Objection(Reason.MEMBERS_MISSING, text, "Create the missing pods, or lower minSubGroups")
        elif _may_be_left_out(policy, group, own, total=total, alone=alone):
            yield Objection(
                Reason.UNSUPPORTED_FIELD,
                f"PodGroup field {path}.minSubGroups: {policy.least} of {len(own)} subgroups is not "
                "supported yet where minMember does not need more of them",
                f"Set minSubGroups to {len(own)}, or raise minMember",
            )


def _may_be_left_out(
    policy: SubgroupPolicy, group: PodGroup, own: Sequence[_Found], *, total: int, alone: int
) -> bool:
    """Whether the gang may start without a subgroup of the policy that a gang of Phalanx would wait for.

    `total`: how many pods may start, `alone`: how many of them are in no subgroup.
    """
    if len(group.policies) == 1:
        return policy.least == 0 and bool(own) and alone >= group.min_member
    sizes = [each.pods for each in own if each.is_whole]
    if len(sizes) < len(own):
        return len(sizes) >= policy.least and total >= group.min_member
    return len(own) > policy.least and total - min(sizes) >= group.min_member
