"""One frame of the live view."""

from collections.abc import Iterator, Mapping

from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import amount, short
from phalanx.cli.verbs.limits import TOP_ROWS
from phalanx.cli.verbs.printing import BAD, BOLD, DIM, Format, Line, Span, line
from phalanx.cli.verbs.tables.gangs import gang_lines, since_text
from phalanx.cli.verbs.tables.nodes import node_lines, used_bar
from phalanx.cli.verbs.tables.queues import queue_lines
from phalanx.cli.verbs.views.nodes import NodesView
from phalanx.cli.verbs.views.top import TopView

_EMPTY: Line = ()


def top_lines(view: TopView, how: Format) -> list[Line]:
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
        yield from queue_lines(view.queues, Format(now_ms=how.now_ms))[: TOP_ROWS + 1]
    if view.waiting:
        yield _EMPTY
        yield from gang_lines(view.waiting[:TOP_ROWS], Format(all_namespaces=True, now_ms=how.now_ms))
        yield from _more(len(view.waiting) - TOP_ROWS, "waiting gang")
    if view.faulty:
        yield _EMPTY
        faulty = NodesView(view.resource, view.faulty[:TOP_ROWS])
        yield from node_lines(faulty, Format(now_ms=how.now_ms))
        yield from _more(len(view.faulty) - TOP_ROWS, "node")
    if view.decisions:
        yield _EMPTY
        yield line(Span("last decisions", BOLD))
        for each in view.decisions:
            ago = since_text(each.moment.at, how.now_ms)
            style = BAD if each.moment.what == "Preempted" else ""
            yield line(
                Span(f"{ago:>7} ago  ", DIM),
                Span(each.moment.what, style),
                f" {each.about}: {each.moment.text}",
            )


def _counts(found: Mapping[str, int]) -> str:
    return "   ".join(f"{number} {name}" for name, number in found.items())


def _more(number: int, noun: str) -> Iterator[Line]:
    if number > 0:
        yield line(Span(f"and {count(number, noun)} more", DIM))
