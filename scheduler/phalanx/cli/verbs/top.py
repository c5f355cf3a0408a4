"""`phalanx top`: a live view of queues, nodes, rates and the last decisions."""

import sys

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.verbs.events import Event, read_events
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.printing import Format, Line, as_text, is_terminal
from phalanx.cli.verbs.runner import FAILURES, Question, Session, ask, reporting
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.top import top_lines
from phalanx.cli.verbs.views.top import TopView, top_view
from phalanx.kube.blocking import BlockingClient

_QUIT = frozenset({"q", "Q", "\x1b"})
"""Keys that end the view; the last one is Esc."""


def top(*, options: ViewOptions | None = None) -> int:
    """Show queues, nodes, rates and the last decisions, again and again; q or Ctrl-C ends it.

    Without a terminal, or with -o json or yaml, it prints one frame. What you may not read is left out; with
    -A the gangs of all namespaces are shown that you may read.
    """
    options = options or ViewOptions()
    question = _question(options)
    if options.output in ("json", "yaml") or not is_terminal(sys.stdout) or not sys.stdin.isatty():
        return ask(options, question)
    if options.interval <= 0:
        raise BadInput(f"--interval: expected a number above 0, found {options.interval:g}")

    def live() -> int:
        with Session(options, all_namespaces=options.all_namespaces) as session:
            return _live(session, question, options)

    return reporting("top", live)


def _question(options: ViewOptions) -> Question[TopView]:
    events: list[Event] = []
    fault_of = fault_finder()

    def with_events(client: BlockingClient, seen: Seen) -> Seen:
        found = read_events(client, namespace=seen.namespace, scheduler_name=options.scheduler_name)
        events[:] = found or ()
        return seen

    return Question(
        name="top",
        kinds=NODE_KINDS,
        view=lambda seen: top_view(seen, fault_of, events),
        lines=top_lines,
        everywhere=EVERYWHERE,
        quiet=frozenset({"PriorityClass"}),
        needed=("Pod",),
        enrich=with_events,
    )


def _live(session: Session, question: Question[TopView], options: ViewOptions) -> int:
    """Draw frames until the user ends it. A failed reading is shown, and tried again."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from phalanx.cli.verbs.keyboard import open_keyboard

    console = Console(highlight=False)
    with (
        open_keyboard(sys.stdin.fileno()) as keyboard,
        Live(console=console, screen=True, auto_refresh=False) as screen,
    ):
        lines: list[Line] = []
        while True:
            problem = ""
            try:
                with keyboard.interruptible(), session.collection.paused():
                    seen = session.read(question)
                    how = Format(is_wide=options.output == "wide", all_namespaces=True, now_ms=seen.now_ms)
                    lines = list(question.lines(question.view(seen), how))
            except FAILURES as error:
                problem = f"  {error}"
            title = Text.assemble(("phalanx top", "bold"), "   q ends it", (problem, "red"))
            shown = [as_text(line) for line in lines[: max(console.height - 1, 1)]]
            for text in shown:
                text.no_wrap, text.overflow = True, "ellipsis"
            screen.update(Group(title, *shown), refresh=True)
            if _QUIT.intersection(keyboard.wait(options.interval)):
                return Exit.OK
