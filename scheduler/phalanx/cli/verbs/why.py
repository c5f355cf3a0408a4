"""`phalanx why`: one screen about a gang: state, reason, what would help, place, start, history."""

from collections.abc import Iterator
from typing import Final

from msgspec.json import Decoder
from msgspec.structs import replace

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.formatting import count
from phalanx.cli.verbs.events import FORBIDDEN, Event, read_events
from phalanx.cli.verbs.formatting import age, listed
from phalanx.cli.verbs.jobs import GANG_KINDS, QUIET, STATE_STYLES, since_text, where
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.printing import BAD, BOLD, DIM, GOOD, WARN, Format, Line, Span, line
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.find import Ambiguous, find_gang
from phalanx.cli.verbs.views.gangs import GangRow, State, gang_entries, seconds_since
from phalanx.cli.verbs.views.why import WhyView, why_view
from phalanx.cli.verbs.views.without_pods import kinds_of, why_without_pods
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.decode import Undecodable, decode_leniently
from phalanx.kube.errors import ApiError
from phalanx.model.api.kinds import kind_of_workload
from phalanx.model.api.pod_groups import CertificateStatus, StartStatus
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.texts import did_you_mean


def why(target: str, /, *, options: ViewOptions | None = None) -> int:
    """Say why a gang waits and what would help, or where it runs.

    The exit code is 0 if the gang runs, starts or has finished, 5 if it waits, has failed or is being
    evicted, and 4 if there is no such gang or you may not see it.

    Parameters
    ----------
    target
        A name, or pod/NAME, podgroup/NAME, job/NAME, or another kind of workload with its name.
    """
    options = options or ViewOptions()
    events: list[Event] = []
    clients: list[BlockingClient] = []

    def with_events(client: BlockingClient, seen: Seen) -> Seen:
        found = read_events(client, namespace=seen.namespace, scheduler_name=options.scheduler_name)
        events[:] = found or ()
        clients[:] = [client]
        return seen if found is not None else replace(seen, notes=(*seen.notes, FORBIDDEN))

    def view(seen: Seen) -> WhyView:
        entries = gang_entries(seen)
        try:
            found = find_gang(entries, target)
        except Ambiguous as error:
            raise BadInput(f"why: {error}") from error
        if found is None and seen.namespace:
            for view in _without_pods(clients[0], seen.namespace, target, events, options.scheduler_name):
                return view
        if found is None:
            place = f" in namespace {seen.namespace}" if seen.namespace else ""
            near = did_you_mean(target.rpartition("/")[2], (entry.row.name for entry in entries))
            hint = f"; {near[:1].lower()}{near[1:].strip()}" if near else ""
            raise NotFound(f"no gang of {target}{place}: it has no pods, or you may not read them{hint}")
        return why_view(found, (entry.row for entry in entries), events)

    question = Question(
        name="why",
        kinds=GANG_KINDS,
        view=view,
        lines=_why_lines,
        code=_code,
        needed=("Pod",),
        quiet=QUIET,
        enrich=with_events,
    )
    return ask(options, question)


def _without_pods(
    client: BlockingClient, namespace: str, target: str, events: list[Event], scheduler_name: str
) -> Iterator[WhyView]:
    """The workload of this name, which may have no pods."""
    for kind in kinds_of(target):
        path = kind_of_workload(kind).path(namespace=namespace, name=target.rpartition("/")[2])
        try:
            written = decode_leniently(_decode, client.get(path))
        except (ApiError, Undecodable):
            continue
        view = why_without_pods(kind, written, events, scheduler_name=scheduler_name)
        if view is not None:
            yield view


_decode: Final = Decoder(WorkloadObject).decode


def _code(view: WhyView) -> int:
    runs = view.gang.state in (State.RUNNING, State.STARTING, State.FINISHED)
    return Exit.OK if runs else Exit.WAITS


_CATEGORY_STYLES = {"Waiting": WARN, "Misconfigured": BAD, "Impossible": BAD}
_WIDTH = 11
_EMPTY: Line = ()


def _why_lines(view: WhyView, how: Format) -> list[Line]:
    """State, reason, what would help, place, expected start, history."""
    return list(_lines(view, how))


def _lines(view: WhyView, how: Format) -> Iterator[Line]:
    row = view.gang
    yield line(
        Span(f"{row.kind} {row.namespace}/{row.name}", BOLD),
        "  ",
        Span(row.state.value, STATE_STYLES[row.state]),
        f"  for {since_text(row.since, how.now_ms)}" if row.since else "",
    )
    yield _field("queue", _queue(view))
    yield _field("pods", _pods(row))
    if row.nodes:
        yield _field("where", where(row, is_wide=how.is_wide))
    if view.certificate is not None:
        yield _field("placement", _quality(view.certificate))
    yield from _reason(view)
    if view.expected_start is not None and row.state is State.WAITING:
        yield _EMPTY
        yield _field("starts", _start(view.expected_start, how.now_ms))
    yield from (_field("note", note) for note in view.notes)
    if view.history:
        yield _EMPTY
        yield line(Span("history", BOLD))
        for moment in view.history:
            times = f"  ×{moment.count}" if moment.count > 1 else ""
            ago = since_text(moment.at, how.now_ms)
            yield line(Span(f"  {ago:>7} ago  ", DIM), f"{moment.what}{times}: {moment.text}")


def _reason(view: WhyView) -> Iterator[Line]:
    row = view.gang
    if row.reason:
        style = _CATEGORY_STYLES.get(view.category, WARN)
        yield _EMPTY
        yield line(*_name("reason"), Span(row.reason, style), f"  {row.message}")
    elif row.message:
        yield _EMPTY
        yield _field("reason", row.message)
    for fact in view.evidence:
        yield _field("", f"· {fact}")
    for place, step in enumerate(view.help):
        yield line(*_name("would help" if place == 0 else ""), Span(step, GOOD))
    if row.state is State.WAITING and not row.reason and not row.message:
        yield _EMPTY
        yield _field("reason", "the scheduler has not written one yet; phalanx doctor checks it")


def _queue(view: WhyView) -> str:
    row = view.gang
    parts = [row.queue or "default"]
    if row.position is not None:
        parts.append(f"place {row.position}")
    parts.append(f"priority {row.priority}")
    return " · ".join(parts)


def _pods(row: GangRow) -> str:
    parts = [f"{count(row.pods, 'pod')}, {row.pods_running} running, {row.pods_waiting} waiting"]
    if row.min_member:
        parts.append(f"starts with {row.min_member}")
    if row.requests:
        parts.append(f"requests {listed(row.requests)}")
    return " · ".join(parts)


def _quality(certificate: CertificateStatus) -> str:
    proven = "proven optimal" if certificate.proven else "not proven optimal"
    terms = zip(certificate.terms, certificate.objective, strict=False)
    return f"{proven}: {', '.join(f'{term} {value}' for term, value in terms)}"


def _start(start: StartStatus, now_ms: int) -> str:
    ahead = seconds_since(start.at, now_ms)
    when = f" (in {age(-ahead)})" if ahead is not None and ahead < 0 else ""
    between = f", between {start.earliest} and {start.latest}" if start.earliest and start.latest else ""
    method = f", by {start.method}" if start.method else ""
    return f"{start.at}{when}{between}{method}"


def _field(name: str, text: str) -> Line:
    return line(*_name(name), text)


def _name(name: str) -> tuple[Span]:
    return (Span(f"{name:<{_WIDTH}} ", DIM),)
