"""Which pods wait, and why; which are not decided, or do not end."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation
from phalanx.cli.doctor.limits import TERMINATING_S, VERDICT_S
from phalanx.cli.formatting import count
from phalanx.model.api.core import Pod
from phalanx.model.names import LABEL_GANG, LABEL_POD_GROUP
from phalanx.model.reasons import Category, Reason

_SCHEDULED: Final = "PodScheduled"
_ACTIONS: Final = {
    Category.MISCONFIGURED: "Correct the object that the message names.",
    Category.IMPOSSIBLE: "Change the gang or the cluster: it does not fit even the empty cluster.",
}


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each cause of waiting, for pods without a verdict, and for those that do not end."""
    ours = [pod for pod in seen.pods if seen.is_ours(pod)]
    waiting = [pod for pod in ours if not pod.spec.node_name and not pod.spec.scheduling_gates]
    undecided = [
        pod
        for pod in waiting
        if not _message(pod) and _is_past(pod.metadata.creation_timestamp, VERDICT_S, seen)
    ]
    if undecided:
        yield Finding(
            Severity.ERROR,
            f"scheduler {seen.scheduler_name}",
            f"{count(len(undecided), 'pod')} without a verdict for more than {VERDICT_S} s:"
            f" {names(map(_name, undecided))}.",
            "See the findings about the Lease and the rights, and the log of the leader.",
        )
    yield from _waiting_gangs([pod for pod in waiting if _message(pod)])
    # the time of deletion in the metadata is the end of the grace period
    staying = [
        pod
        for pod in ours
        if pod.spec.node_name and _is_past(pod.metadata.deletion_timestamp, TERMINATING_S, seen)
    ]
    if staying:
        yield Finding(
            Severity.WARNING,
            "terminating pods",
            f"{count(len(staying), 'pod')} still there more than {TERMINATING_S} s after the grace period:"
            f" {names(map(_name, staying))}.",
            "They hold the capacity of their nodes. Look at the kubelet of the node and at finalizers.",
        )


def _waiting_gangs(pods: list[Pod]) -> Iterator[Finding]:
    """One note for all gangs that only wait; of the others one for each reason, with the first message."""
    gangs: dict[str, list[Pod]] = {}
    for pod in pods:
        gangs.setdefault(_gang(pod), []).append(pod)
    by_reason: dict[tuple[Category, str], dict[str, list[Pod]]] = {}
    for gang, members in sorted(gangs.items()):
        message = _message(members[0])
        category = _category(message)
        reason = "" if category is Category.WAITING else message.partition(":")[0]
        by_reason.setdefault((category, reason), {})[gang] = members
    for (category, _), found in sorted(by_reason.items(), key=lambda each: each[0]):
        yield _waiting(category, found)


def _waiting(category: Category, gangs: dict[str, list[Pod]]) -> Finding:
    messages = [_message(members[0]) for members in gangs.values()]
    pods = count(sum(map(len, gangs.values())), "pod")
    if len(gangs) == 1:
        about, problem = next(iter(gangs)), f"{pods} waiting: {messages[0]}"
    elif category is Category.WAITING:
        reasons = Counter(message.partition(":")[0] for message in messages)
        listed = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        about, problem = f"{len(gangs)} gangs", f"{pods} waiting: {listed}: {names(gangs)}."
    else:
        about, problem = f"{len(gangs)} gangs", f"{pods} waiting: {names(gangs)}. The first: {messages[0]}"
    severity = Severity.NOTE if category is Category.WAITING else Severity.WARNING
    return Finding(
        severity, about, problem, _ACTIONS.get(category, "They start when what they wait for happens.")
    )


def _gang(pod: Pod) -> str:
    """What users know the gang by: its PodGroup, its gang label, its controller, or the pod itself."""
    meta = pod.metadata
    for label, kind in ((LABEL_POD_GROUP, "PodGroup"), (LABEL_GANG, "gang")):
        if label in meta.labels:
            return f"{kind} {meta.namespace}/{meta.labels[label]}"
    owner = next((each for each in meta.owner_references if each.controller), None)
    return f"{owner.kind} {meta.namespace}/{owner.name}" if owner else f"Pod {_name(pod)}"


def _message(pod: Pod) -> str:
    conditions = (
        each for each in pod.status.conditions if each.type == _SCHEDULED and each.status == "False"
    )
    return next((each.message or each.reason for each in conditions), "")


def _category(message: str) -> Category:
    """The category of the reason with which the messages of the scheduler start."""
    reason = message.partition(":")[0]
    known = {each.value: each.category for each in Reason}
    return known.get(reason, Category.WAITING)


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _is_past(written: str | None, seconds: int, seen: Installation) -> bool:
    """Whether more than these seconds have passed since this time of the API."""
    return (seen.seconds_since(written) or 0) > seconds
