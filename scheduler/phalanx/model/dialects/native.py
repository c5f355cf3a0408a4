"""PodGroups of Kubernetes itself: `scheduling.k8s.io/v1beta1`, which pods name in `spec.schedulingGroup`.

docs/dialects.md states what becomes of each field.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import to_builtins

from phalanx.model.api.core import Pod
from phalanx.model.api.meta import Condition
from phalanx.model.api.native_pod_groups import (
    CompositePodGroupSpec,
    NativePodGroup,
    NativePodGroupSpec,
    SchedulingConstraints,
)
from phalanx.model.api.pod_groups import Disruption, DisruptionMode, PodGroupSpec, TopologyRequest
from phalanx.model.api.values import time_s
from phalanx.model.conversion.conditions import merge_conditions
from phalanx.model.conversion.pod_groups import PodGroup, fields_of_metadata
from phalanx.model.dialects.dialect import Dialect, ReportedGang, StatusRules, StatusWrite, unsupported_field
from phalanx.model.names import LABEL_QUEUE
from phalanx.model.reasons import UNSCHEDULABLE, Objection, Reason

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The condition that becomes True when enough pods are bound, and stays True."""

SCHEDULED: Final = "Scheduled"
"""Its reason from then on."""


def read_native_pod_group(written: NativePodGroup) -> PodGroup:
    """Convert one PodGroup.

    Its controller does not count: the pods name it in a field of their spec, not in a label that pods of
    another workload may carry by mistake.
    """
    meta, spec = written.metadata, written.spec
    wanted = _spec(spec, meta.labels.get(LABEL_QUEUE) or None)
    problems = tuple(_problems(written))
    return PodGroup(
        **fields_of_metadata(NativePodGroup.__name__, meta),
        spec=wanted,
        min_member=wanted.min_member or 1,
        started_at=_started_at(written),
        problems=problems,
        is_gang=bool(problems) or spec.scheduling_policy.gang is not None or not is_unconstrained(spec),
        parent=spec.parent_composite_pod_group_name or "",
    )


def is_unconstrained(spec: NativePodGroupSpec | CompositePodGroupSpec) -> bool:
    """Whether nothing but its policy holds the group together: neither its place nor its end."""
    constraints, mode = spec.scheduling_constraints, spec.disruption_mode
    is_constrained = constraints is not None and bool(constraints.topology)
    return not is_constrained and (mode is None or mode.all is None)


def required_level(constraints: SchedulingConstraints | None) -> TopologyRequest | None:
    """The level that the whole group is in one domain of, named by its node label."""
    keys = [constraint.key for constraint in constraints.topology] if constraints is not None else []
    return TopologyRequest(required=keys[0]) if keys else None


def _spec(spec: NativePodGroupSpec, queue: str | None) -> PodGroupSpec:
    gang = spec.scheduling_policy.gang
    together = spec.disruption_mode is not None and spec.disruption_mode.all is not None
    return PodGroupSpec(
        min_member=max(gang.min_count, 1) if gang is not None else 1,
        queue=queue,
        priority_class_name=spec.priority_class_name or None,
        preemption_policy=spec.preemption_policy,
        topology=required_level(spec.scheduling_constraints),
        disruption=Disruption(mode=DisruptionMode.ALL if together else DisruptionMode.SINGLE),
    )


def _started_at(written: NativePodGroup) -> int:
    """When it was first scheduled. A time that is not one counts as the begin of time: it was scheduled."""
    for condition in written.status.conditions:
        if condition.type == INITIALLY_SCHEDULED and condition.status == "True":
            return max(time_s(condition.last_transition_time) or 0, 1)
    return 0


def _problems(written: NativePodGroup) -> Iterator[Objection]:
    yield from unsupported_fields(_unsupported(written.spec, written.unknown_fields), written.unknown_fields)
    gang = written.spec.scheduling_policy.gang
    if gang is not None and gang.min_count < 1:
        yield Objection(
            Reason.INCONSISTENT_GANG,
            f"PodGroup field spec.schedulingPolicy.gang.minCount: {gang.min_count} is not at least 1",
        )


def unsupported_fields(
    refused: Iterable[str], unknown: Sequence[str], noun: str = "PodGroup"
) -> Iterator[Objection]:
    """The errors of the refused fields, and of the unknown ones that are not inside of them."""
    refused = tuple(refused)
    inside = tuple(f"{path}{sign}" for path in refused for sign in ".[")
    for path in (*refused, *[path for path in unknown if not path.startswith(inside)]):
        yield unsupported_field(path, noun)


def _unsupported(spec: NativePodGroupSpec, unknown: Sequence[str]) -> Iterator[str]:
    """Paths of known fields that have no counterpart, and of those that lack every known alternative."""
    if spec.resource_claims:
        yield "spec.resourceClaims"
    yield from unsupported_alternatives(spec, unknown)


def unsupported_alternatives(
    spec: NativePodGroupSpec | CompositePodGroupSpec, unknown: Sequence[str]
) -> Iterator[str]:
    """Paths of fields that lack every known alternative, or have more than one entry."""
    policy, mode = spec.scheduling_policy, spec.disruption_mode
    has_other_policy = any(path.startswith("spec.schedulingPolicy.") for path in unknown)
    has_other_mode = any(path.startswith("spec.disruptionMode.") for path in unknown)
    if policy.basic is None and policy.gang is None and not has_other_policy:
        yield "spec.schedulingPolicy without basic or gang"
    if mode is not None and mode.single is None and mode.all is None and not has_other_mode:
        yield "spec.disruptionMode without single or all"
    if spec.scheduling_constraints is not None and len(spec.scheduling_constraints.topology) > 1:
        yield "spec.schedulingConstraints.topology[1]"


def _wanted_status(reported: ReportedGang, group: NativePodGroup) -> StatusWrite | None:
    """The condition PodGroupInitiallyScheduled. Once it is True it stays so."""
    gang, seen = reported.gang, group.status.conditions
    if any(each.type == INITIALLY_SCHEDULED and each.status == "True" for each in seen):
        return None
    if gang.started or gang.reaches_minimum:
        bound = "a pod is" if gang.min_member == 1 else f"{gang.min_member} pods are"
        status, reason, message = "True", SCHEDULED, f"{bound} bound"
    elif reported.reason and gang.has_waiting:
        status, reason, message = "False", UNSCHEDULABLE, reported.message
    else:
        return None
    condition = Condition(
        type=INITIALLY_SCHEDULED,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=reported.now,
        observed_generation=group.metadata.generation or None,
    )
    condition = merge_conditions(seen, (condition,))[0]
    if condition in seen:
        return None
    return StatusWrite({"conditions": [to_builtins(condition)]}, is_final=status == "True")


def _group_of(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return group.pod_group_name if group is not None else ""


NATIVE: Final = Dialect(
    name="scheduling.k8s.io",
    kind=NativePodGroup.__name__,
    field="spec.schedulingGroup.podGroupName",
    minimum_field="spec.schedulingPolicy.gang.minCount",
    topology_field="spec.schedulingConstraints.topology",
    group_of=_group_of,
    read=read_native_pod_group,
    status=StatusRules(wanted=_wanted_status, is_built_in=True),
)
