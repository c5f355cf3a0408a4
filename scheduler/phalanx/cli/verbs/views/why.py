"""Why a gang waits, or where it runs: everything that is known about it, for one screen."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from phalanx.cli.verbs.views.gangs import GangEntry, GangRow
from phalanx.model.api.pod_groups import CertificateStatus, StartStatus
from phalanx.model.conversion.pod_groups import workload_of
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.reasons import Reason

_EVENTS_SHOWN: Final = 10
"""Distinct events of a gang that `why` lists, the newest ones."""


_CATEGORIES: Final = {reason.value: reason.category.value for reason in Reason}


class Moment(Struct, frozen=True, rename="camel"):
    """A verdict or another event in the life of the gang."""

    at: str
    """When it was seen last."""
    what: str
    """The reason of the event or of the condition."""
    text: str
    count: int = 1
    """How often, on how many pods together."""


class WhyView(Struct, frozen=True, rename="camel"):
    gang: GangRow
    category: str = ""
    """The reaction to the reason: Waiting, Misconfigured or Impossible."""
    evidence: tuple[str, ...] = ()
    """Facts behind the verdict."""
    help: tuple[str, ...] = ()
    """What would help, each of it by itself."""
    waiting_in_queue: int | None = None
    """Gangs that wait in the same queue, among those that the user may see."""
    expected_start: StartStatus | None = None
    certificate: CertificateStatus | None = None
    notes: tuple[str, ...] = ()
    """Fields that are ignored, and pods that differ from the others."""
    history: tuple[Moment, ...] = ()
    """The newest first."""


def why_view(entry: GangEntry, rows: Iterable[GangRow], events: Iterable[Mapping[str, Any]]) -> WhyView:
    """The view of one gang. `rows`: all gangs that the user may see; `events`: objects of events.k8s.io."""
    row, group = entry.row, entry.group
    status = group.status if group is not None else None
    waiting = [each for each in rows if each.queue == row.queue and each.position is not None]
    return WhyView(
        gang=row,
        category=category_of(row.reason),
        evidence=tuple(_evidence(entry)),
        help=tuple(split_steps(row.next_step)),
        waiting_in_queue=len(waiting) if row.position is not None else None,
        expected_start=status.expected_start if status is not None else None,
        certificate=status.certificate if status is not None and row.nodes else None,
        notes=tuple(_notes(entry)),
        history=tuple(_history(entry, events)),
    )


def category_of(reason: str) -> str:
    """The reaction to a reason; empty for texts that are not reasons of Phalanx."""
    return _CATEGORIES.get(reason, "")


def split_steps(text: str) -> Iterator[str]:
    """The alternatives of a next step: `Wait until ...; to start now, ...` is two."""
    for part in text.split("; "):
        step = part.strip().rstrip(".")
        if step:
            yield step[:1].upper() + step[1:]


def _evidence(entry: GangEntry) -> Iterator[str]:
    """The part of the condition's message between the message and the next step, fact by fact."""
    if entry.group is None or not entry.row.reason:
        return
    for condition in entry.group.status.conditions:
        if condition.type == "Scheduled" and condition.status == "False":
            text = condition.message.removeprefix(entry.row.message.rstrip("."))
            if entry.row.next_step:
                text = text.removesuffix(entry.row.next_step)
            yield from filter(None, (part.strip(" .") for part in text.split("; ")))


def _notes(entry: GangEntry) -> Iterator[str]:
    if entry.group is not None:
        for condition in entry.group.status.conditions:
            is_said = condition.message == entry.row.message
            if condition.type != "Scheduled" and condition.status == "True" and not is_said:
                yield f"{condition.type}: {condition.message}"
    if entry.gang is not None:
        yield from _odd_pods(entry.gang.members)


def _odd_pods(members: Sequence[Pod]) -> Iterator[str]:
    """Pods that keep the gang from being whole."""
    failed = [pod.name for pod in members if pod.phase is PodPhase.FAILED]
    deleting = [pod.name for pod in members if pod.deleting]
    gated = [pod.name for pod in members if pod.gated]
    for names, what in ((failed, "failed"), (deleting, "being deleted"), (gated, "held by scheduling gates")):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"{what}: {', '.join(names[:3])}{more}"


def _history(entry: GangEntry, events: Iterable[Mapping[str, Any]]) -> list[Moment]:
    """Also of the objects that control its pods."""
    row, members = entry.row, entry.gang.members if entry.gang is not None else ()
    controllers = {pod.controller.uid for pod in members if pod.controller is not None}
    uids = {pod.uid for pod in members} | controllers
    uids |= {entry.group.metadata.uid} if entry.group is not None else set()
    uids |= {workload_of(entry.gang.id)} - {""} if entry.gang is not None else set()
    return history(events, names={(row.kind, row.name), *(("Pod", pod.name) for pod in members)}, uids=uids)


def history(
    events: Iterable[Mapping[str, Any]], *, names: Collection[tuple[str, str]], uids: Collection[str]
) -> list[Moment]:
    """Events about objects of these UIDs with equal ones together, the newest first.

    `names`: kinds and names of objects, for events that have no UID.
    """
    found: dict[tuple[str, str], Moment] = {}
    for event in events:
        about = event.get("regarding") or {}
        if about.get("uid") in uids or (
            not about.get("uid") and (about.get("kind"), about.get("name")) in names
        ):
            moment = moment_of(event)
            before = found.get((moment.what, moment.text))
            found[moment.what, moment.text] = moment if before is None else _together(before, moment)
    moments = sorted(found.values(), key=lambda moment: moment.at, reverse=True)
    return moments[:_EVENTS_SHOWN]


def moment_of(event: Mapping[str, Any]) -> Moment:
    """The event, with the time at which it was seen last."""
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime")
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return Moment(
        at=str(at or created or ""),
        what=str(event.get("reason") or ""),
        text=str(event.get("note") or ""),
        count=int(series.get("count") or event.get("deprecatedCount") or 1),
    )


def _together(first: Moment, second: Moment) -> Moment:
    return Moment(max(first.at, second.at), first.what, first.text, first.count + second.count)
