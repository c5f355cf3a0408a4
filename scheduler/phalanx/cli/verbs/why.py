"""`phalanx why`: one screen about a gang: state, reason, what would help, place, start, history."""

from msgspec.structs import replace

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.verbs.events import FORBIDDEN, Event, read_events
from phalanx.cli.verbs.jobs import GANG_KINDS, QUIET
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.why import why_lines
from phalanx.cli.verbs.views.find import Ambiguous, find_gang
from phalanx.cli.verbs.views.gangs import State, gang_entries
from phalanx.cli.verbs.views.why import WhyView, why_view
from phalanx.kube.blocking import BlockingClient


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

    def with_events(client: BlockingClient, seen: Seen) -> Seen:
        found = read_events(client, namespace=seen.namespace, scheduler_name=options.scheduler_name)
        events[:] = found or ()
        return seen if found is not None else replace(seen, notes=(*seen.notes, FORBIDDEN))

    def view(seen: Seen) -> WhyView:
        entries = gang_entries(seen)
        try:
            found = find_gang(entries, target)
        except Ambiguous as error:
            raise BadInput(f"why: {error}") from error
        if found is None:
            place = f" in namespace {seen.namespace}" if seen.namespace else ""
            raise NotFound(f"no gang of {target}{place}: it has no pods, or you may not read them")
        return why_view(found, (entry.row for entry in entries), events)

    question = Question(
        name="why",
        kinds=GANG_KINDS,
        view=view,
        lines=why_lines,
        code=_code,
        needed=("Pod",),
        quiet=QUIET,
        wraps=True,
        enrich=with_events,
    )
    return ask(options, question)


def _code(view: WhyView) -> int:
    runs = view.gang.state in (State.RUNNING, State.STARTING, State.FINISHED)
    return Exit.OK if runs else Exit.WAITS
