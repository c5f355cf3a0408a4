"""A workload that has no pods at present: it is suspended, has ended, or an eviction has failed it."""

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.cli.verbs.views.find import kind_named
from phalanx.cli.verbs.views.gangs import RESUMED, GangRow, State, is_suspended_by_eviction, split_message
from phalanx.cli.verbs.views.why import Moment, WhyView, category_of, history
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.workloads import read_workload
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.kind import WorkloadKind, value_at
from phalanx.model.workloads.known import WORKLOADS

_NO_PODS = "NoPods"


def kinds_of(target: str) -> list[WorkloadKind]:
    """The kinds of workloads that the user may mean. A name alone may be that of a Job."""
    written = target.rpartition("/")[0] or JOB.kind
    return [kind for kind in WORKLOADS.values() if kind.kind.lower() == kind_named(written)]


def why_without_pods(
    kind: WorkloadKind, written: WorkloadObject, events: Iterable[Mapping[str, Any]], *, scheduler_name: str
) -> WhyView | None:
    """What is known of the workload; None if it does not name this scheduler, which did nothing for it."""
    workload = read_workload(kind, scheduler_name, written)
    meta, group = written.metadata, workload.group
    moments = history(events, names={(kind.kind, meta.name)}, uids={meta.uid})
    if not moments and not any(role.ours for role in workload.roles):
        return None
    state, reason, message, step = _state(kind, written, moments)
    row = GangRow(
        namespace=meta.namespace,
        name=meta.name,
        kind=kind.kind,
        state=state,
        queue=group.spec.queue or "",
        since=meta.creation_timestamp or "",
        reason=reason,
        message=message,
        next_step=step,
        min_member=group.min_member,
    )
    return WhyView(
        gang=row, category=category_of(reason), help=(step,) if step else (), history=tuple(moments)
    )


def _state(
    kind: WorkloadKind, written: WorkloadObject, moments: Iterable[Moment]
) -> tuple[State, str, str, str]:
    """State, reason, message, and what would help."""
    fields = {"spec": written.spec, "status": written.status}
    conditions = value_at(fields, "status.conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        type_, is_true = value_at(condition, "type"), value_at(condition, "status") == "True"
        if is_true and type_ == "Failed":
            why = f"the {kind.kind} has failed: {value_at(condition, 'message') or ''}"
            step = "Create it again: its controller makes no more pods for this one"
            return State.FAILED, str(value_at(condition, "reason") or type_), why, step
        if is_true and type_ in ("Complete", "Completed", "Succeeded"):
            return State.FINISHED, "", f"the {kind.kind} has succeeded", ""
    if value_at(fields, kind.suspended) is True:
        if is_suspended_by_eviction(kind, written):
            texts = (moment.text for moment in moments if moment.what == "FailedScheduling")
            reason, message = split_message(next(texts, ""))
            message = message or f"the {kind.kind} was suspended to evict its pods"
            return State.WAITING, reason or _NO_PODS, message, RESUMED
        step = f"Resume it: set {kind.suspended} to false"
        return State.WAITING, _NO_PODS, f"the {kind.kind} is suspended", step
    step = f"See why its controller makes none: kubectl describe {kind.plural} {written.metadata.name}"
    return State.WAITING, _NO_PODS, f"the {kind.kind} has no pods", step
