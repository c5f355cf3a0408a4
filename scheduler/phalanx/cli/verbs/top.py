"""`phalanx top`: a live view of queues, nodes, rates and the last decisions."""

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.formatting import count
from phalanx.cli.verbs.events import Event, read_events
from phalanx.cli.verbs.formatting import amount, short
from phalanx.cli.verbs.jobs import SUSPENDED_KINDS, gang_lines, since_text
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS, node_lines, used_bar
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.printing import BAD, BOLD, DIM, Format, Line, Span, as_text, is_terminal, line, wrapped
from phalanx.cli.verbs.queues import queue_lines
from phalanx.cli.verbs.runner import FAILURES, Question, Session, ask, reporting
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.nodes import NodesView
from phalanx.cli.verbs.views.top import TopView, top_view
from phalanx.kube.blocking import BlockingClient

_TOP_ROWS: Final = 12
"""Rows of each part of a frame of `top`, for the same reason."""


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
        kinds=(*NODE_KINDS, *SUSPENDED_KINDS),
        view=lambda seen: top_view(seen, fault_of, events),
        lines=_top_lines,
        everywhere=EVERYWHERE,
        quiet=frozenset({"PriorityClass", *SUSPENDED_KINDS}),
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
                    how = Format(all_namespaces=True, now_ms=seen.now_ms, width=console.width)
                    lines = list(question.lines(question.view(seen), how))
            except FAILURES as error:
                problem = f"  {error}"
            title = Text.assemble(("phalanx top", "bold"), "   q ends it", (problem, "red"))
            fitting = [part for each in lines for part in wrapped(each, console.width)]
            shown = [as_text(each) for each in fitting[: max(console.height - 1, 1)]]
            for text in shown:
                text.no_wrap, text.overflow = True, "ellipsis"
            screen.update(Group(title, *shown), refresh=True)
            if _QUIT.intersection(keyboard.wait(options.interval)):
                return Exit.OK


_EMPTY: Line = ()


def _top_lines(view: TopView, how: Format) -> list[Line]:
    """Totals, queues, waiting gangs, nodes that take no pods, last decisions."""
    return list(_lines(view, how))


def _lines(view: TopView, how: Format) -> Iterator[Line]:
    yield line(Span("gangs  ", BOLD), _counts(view.gangs) or "none")
    binds, starts = count(view.binds_per_minute, "bind"), count(view.starts_per_minute, "start")
    yield line(Span("rates  ", BOLD), f"{binds} and {starts} in the last minute")
    if view.total is not None:
        used = "?" if view.used is None else amount(view.resource, view.used)
        name = short(view.resource)
        yield line(
            Span(f"{name:<7}", BOLD),
            used_bar(view.used, view.total, cells=30),
            f" {used} of {amount(view.resource, view.total)} in use",
        )
        yield line(Span("nodes  ", BOLD), _counts(view.nodes) or "none")
    if view.queues.queues:
        yield _EMPTY
        yield from queue_lines(view.queues, Format(now_ms=how.now_ms, width=how.width))[: _TOP_ROWS + 1]
    if view.waiting:
        yield _EMPTY
        yield from gang_lines(
            view.waiting[:_TOP_ROWS], Format(all_namespaces=True, now_ms=how.now_ms, width=how.width)
        )
        yield from _more(len(view.waiting) - _TOP_ROWS, "waiting gang")
    if view.faulty:
        yield _EMPTY
        faulty = NodesView(view.resource, view.faulty[:_TOP_ROWS])
        yield from node_lines(faulty, Format(now_ms=how.now_ms, width=how.width))
        yield from _more(len(view.faulty) - _TOP_ROWS, "node")
    if view.decisions:
        yield _EMPTY
        yield line(Span("last decisions", BOLD))
        for each in view.decisions:
            ago = since_text(each.moment.at, how.now_ms)
            times = f" ×{each.moment.count}" if each.moment.count > 1 else ""
            style = BAD if each.moment.what == "Preempted" else ""
            yield line(
                Span(f"{ago:>7} ago  ", DIM),
                Span(each.moment.what, style),
                f" {each.about}{times}: {each.moment.text}",
            )


def _counts(found: Mapping[str, int]) -> str:
    return "   ".join(f"{number} {name}" for name, number in found.items())


def _more(number: int, noun: str) -> Iterator[Line]:
    if number > 0:
        yield line(Span(f"and {count(number, noun)} more", DIM))
