"""PodGroups of KAI: `scheduling.run.ai/v2alpha2`, which pods name by an annotation.

docs/dialects/kai.md states what becomes of each field, and what is written.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import to_builtins
from msgspec.structs import replace

from phalanx.model.api.core import Pod
from phalanx.model.api.kai import (
    KaiPodGroup,
    KaiPodGroupSpec,
    KaiSchedulingCondition,
    KaiSubGroup,
    KaiTopologyConstraint,
)
from phalanx.model.api.pod_groups import Disruption, PodGroupSpec, SubGroup, TopologyRequest
from phalanx.model.api.values import duration_ms
from phalanx.model.conversion.pod_groups import (
    PodGroup,
    fields_of_metadata,
    min_member_of,
    subgroup_errors,
    subgroups_of,
)
from phalanx.model.dialects.dialect import (
    Dialect,
    ReportedGang,
    StatusRules,
    StatusWrite,
    annotation,
    label,
    refused_annotations,
    unsupported_field,
)
from phalanx.model.names import LABEL_QUEUE, kai_topology
from phalanx.model.reasons import UNSCHEDULABLE, Objection, Reason

_GROUP: Final = "pod-group-name"
SUBGROUP: Final = "kai.scheduler/subgroup-name"
NODE_POOL: Final = "kai.scheduler/node-pool"
_DEFAULT_NODE_POOL: Final = "default"

_PREEMPTIBLE: Final = "preemptible"
_NON_PREEMPTIBLE: Final = "non-preemptible"
_PROTECTED_FROM: Final = 100
"""Without a preemptibility, groups whose PriorityClass has this value or a higher one are not preemptible."""

_NO_BACKOFF: Final = -1
"""The scheduler tries the group without end, as it does by default."""

_REFUSED_OF_PODS: Final = (
    "gpu-fraction",
    "gpu-fraction-num-devices",
    "gpu-fraction-container-name",
    "gpu-memory",
    "gpu-sm-percentage",
    "gpu-sm-cores",
    "mps",
)
"""Annotations of a pod that ask for a part of a GPU."""

_UNSCHEDULABLE_ON_NODE_POOL: Final = "UnschedulableOnNodePool"


# --- reading ------------------------------------------------------------------------------------------------


def read_kai_pod_group(written: KaiPodGroup) -> PodGroup:
    """Convert one PodGroup.

    Its controller does not count: the pod-grouper of KAI writes the topmost owner, which is an indirect one.
    """
    meta = written.metadata
    spec = _spec(written)
    return PodGroup(
        **fields_of_metadata(KaiPodGroup.__name__, meta),
        spec=spec,
        min_member=min_member_of(spec),
        subgroups=subgroups_of(spec.sub_groups),
        protected_from=None if written.spec.preemptibility else _PROTECTED_FROM,
        records_start=False,
        problems=tuple(_problems(written, spec)),
    )


def _spec(written: KaiPodGroup) -> PodGroupSpec:
    """With subgroups, the minimum follows from them: KAI's scheduler does not use that of the group then."""
    wanted = written.spec
    count = max(wanted.min_member if wanted.min_member is not None else 1, 1)
    return PodGroupSpec(
        min_member=None if wanted.sub_groups else count,
        queue=wanted.queue or written.metadata.labels.get(LABEL_QUEUE) or None,
        priority_class_name=wanted.priority_class_name or None,
        topology=_topology(wanted.topology_constraint),
        sub_groups=tuple(_subgroup(part) for part in wanted.sub_groups),
        min_sub_groups=wanted.min_sub_group if _has_usable_min_sub_group(wanted) else None,
        disruption=_disruption(wanted.preemptibility),
        preemption_delay=wanted.preemption_delay,
    )


def _has_usable_min_sub_group(spec: KaiPodGroupSpec) -> bool:
    return spec.min_sub_group is not None and 1 <= spec.min_sub_group <= _outer(spec)


def _outer(spec: KaiPodGroupSpec) -> int:
    return sum(1 for part in spec.sub_groups if not part.parent)


def _subgroup(part: KaiSubGroup) -> SubGroup:
    constraint = part.topology_constraint
    return SubGroup(
        name=part.name,
        min_member=part.min_member or None,
        parent=(part.parent or "").lower() or None,
        topology=_topology(constraint) if constraint is not None else None,
    )


def _topology(constraint: KaiTopologyConstraint) -> TopologyRequest | None:
    """The Topology with its levels, which are named by their node labels."""
    required, preferred = constraint.required_topology_level, constraint.preferred_topology_level
    if not constraint.topology or not (required or preferred):
        return None
    return TopologyRequest(kai_topology(constraint.topology), required or None, preferred or None)


def _disruption(preemptibility: str) -> Disruption | None:
    return Disruption(preemptible=preemptibility != _NON_PREEMPTIBLE) if preemptibility else None


def _problems(written: KaiPodGroup, spec: PodGroupSpec) -> Iterator[Objection]:
    for path in (*_unsupported(written), *written.unknown_fields):
        yield unsupported_field(path)
    for error in subgroup_errors(spec):
        yield Objection(Reason.INCONSISTENT_GANG, f"PodGroup field {error}")


def _unsupported(written: KaiPodGroup) -> Iterator[str]:
    spec = written.spec
    if spec.preemptibility not in ("", _PREEMPTIBLE, _NON_PREEMPTIBLE):
        yield f"spec.preemptibility: {spec.preemptibility}"
    if spec.min_sub_group is not None and not _has_usable_min_sub_group(spec):
        yield f"spec.minSubGroup: {spec.min_sub_group} beside {_outer(spec)} outer subgroups"
    if spec.mark_unschedulable is False:
        yield "spec.markUnschedulable: false"
    if spec.scheduling_backoff not in (None, _NO_BACKOFF):
        yield f"spec.schedulingBackoff: {spec.scheduling_backoff}"
    if spec.preemption_delay is not None and duration_ms(spec.preemption_delay) is None:
        yield "spec.preemptionDelay"
    if spec.staleness_grace_period is not None and not spec.staleness_grace_period.startswith("-"):
        yield "spec.stalenessGracePeriod"
    yield from _unsupported_topologies(spec)
    yield from _unsupported_of_subgroups(spec)
    if written.metadata.labels.get(NODE_POOL):
        yield f"metadata.labels[{NODE_POOL}]"


def _unsupported_topologies(spec: KaiPodGroupSpec) -> Iterator[str]:
    """Levels without a Topology."""
    constraints = [("spec", spec.topology_constraint)] + [
        (f"spec.subGroups[{index}]", part.topology_constraint)
        for index, part in enumerate(spec.sub_groups)
        if part.topology_constraint is not None
    ]
    for path, constraint in constraints:
        has_levels = constraint.required_topology_level or constraint.preferred_topology_level
        if has_levels and not constraint.topology:
            yield f"{path}.topologyConstraint without topology"


def _unsupported_of_subgroups(spec: KaiPodGroupSpec) -> Iterator[str]:
    for index, part in enumerate(spec.sub_groups):
        inside = sum(1 for other in spec.sub_groups if (other.parent or "").lower() == part.name)
        if not inside and part.min_member == 0:
            yield f"spec.subGroups[{index}].minMember: 0"
        if inside and part.min_member:
            yield f"spec.subGroups[{index}].minMember of a subgroup that contains others"
        if part.min_sub_group is not None and part.min_sub_group != inside:
            yield f"spec.subGroups[{index}].minSubGroup: {part.min_sub_group} of {inside}"


def refused_of_pod(pod: Pod) -> Iterator[str]:
    """The annotations and labels of the pod that are not supported."""
    yield from refused_annotations(pod.metadata.annotations, _REFUSED_OF_PODS)
    if pod.metadata.labels.get(NODE_POOL):
        yield f"metadata.labels[{NODE_POOL}]"


# --- status -------------------------------------------------------------------------------------------------


def _wanted_status(reported: ReportedGang, group: KaiPodGroup) -> StatusWrite | None:
    """The condition that says why the group waits. There is none once it has started."""
    gang, seen = reported.gang, group.status.scheduling_conditions
    if gang.started or gang.reaches_minimum:
        return StatusWrite({"schedulingConditions": []}) if seen else None
    if not reported.reason or not gang.has_waiting:
        return None
    wanted = KaiSchedulingCondition(
        type=_UNSCHEDULABLE_ON_NODE_POOL,
        node_pool=group.metadata.labels.get(NODE_POOL) or _DEFAULT_NODE_POOL,
        reason=UNSCHEDULABLE,
        message=reported.message,
        reasons=({"reason": reported.reason, "message": reported.message},),
        last_transition_time=reported.now,
        status="True",
        transition_id=str(_last_transition(seen) + 1),
    )
    if seen and _without_transition(seen[-1]) == _without_transition(wanted):
        return None
    others = [each for each in seen if each.node_pool != wanted.node_pool]
    return StatusWrite({"schedulingConditions": [to_builtins(each) for each in (*others, wanted)]})


def _last_transition(seen: tuple[KaiSchedulingCondition, ...]) -> int:
    """Conditions are numbered; the last of them is the newest."""
    last = seen[-1].transition_id if seen else ""
    return int(last) if last.isascii() and last.isdigit() else 0


def _without_transition(condition: KaiSchedulingCondition) -> KaiSchedulingCondition:
    return replace(condition, last_transition_time=None, transition_id="")


KAI: Final = Dialect(
    name="scheduling.run.ai",
    kind=KaiPodGroup.__name__,
    field=f"annotation {_GROUP}",
    minimum_field="minMember",
    topology_field="spec.topologyConstraint",
    group_of=annotation(_GROUP),
    group_annotations=(_GROUP,),
    read=read_kai_pod_group,
    subgroup_field=f"label {SUBGROUP}",
    subgroup_of=label(SUBGROUP),
    unsupported=refused_of_pod,
    status=StatusRules(wanted=_wanted_status),
)
