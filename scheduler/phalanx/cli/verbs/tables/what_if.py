"""The answer of `what-if` for people: what differs first, then how much is the same."""

from collections.abc import Iterable, Iterator, Sequence

from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import names
from phalanx.cli.verbs.printing import BOLD, DIM, GOOD, WARN, Cell, Format, Line, Span, columns, line
from phalanx.cli.verbs.views.gangs import NodeShare
from phalanx.cli.verbs.views.what_if import WhatIfView


def what_if_lines(view: WhatIfView, how: Format) -> list[Line]:
    """Changes, what starts, who is evicted, what waits; wide: also what happens without the change."""
    return list(_lines(view, how))


def _lines(view: WhatIfView, how: Format) -> Iterator[Line]:
    for change in view.changes:
        yield line(Span("if ", DIM), change)
    starts = [each for each in view.starts if how.is_wide or not each.also_without]
    evicted = [each for each in view.evicted if how.is_wide or not each.also_without]
    waits = [
        each for each in view.waits if how.is_wide or not each.also_without or each.gang in view.submitted
    ]
    yield from _section(
        Span("starts", GOOD),
        ("GANG", "PODS", "WHERE"),
        ((each.gang, str(each.pods), where(each.domain, each.nodes, how)) for each in starts),
    )
    yield from _section(
        Span("evicted", WARN),
        ("GANG", "PODS", "REASON", "FOR"),
        ((each.gang, str(each.pods), each.reason, each.beneficiary or "-") for each in evicted),
    )
    yield from _section(
        Span("waits", WARN),
        ("GANG", "REASON", "MESSAGE"),
        ((each.gang, each.reason, each.message) for each in waits),
    )
    for each in waits:
        for step in each.help:
            yield line(Span(f"  {each.gang}: ", DIM), step)
    if view.no_longer_waiting:
        yield ()
        yield line(Span("no longer waits: ", BOLD), names(view.no_longer_waiting, is_wide=how.is_wide))
    if not (starts or evicted or waits or view.no_longer_waiting):
        yield line("Nothing changes.")
    yield from _same(view, how)


def _same(view: WhatIfView, how: Format) -> Iterator[Line]:
    if how.is_wide:
        return
    starts = sum(each.also_without for each in view.starts)
    waits = sum(each.also_without and each.gang not in view.submitted for each in view.waits)
    counted = ((starts, "start"), (waits, "wait"))
    shown = [(count(number, "gang"), verb, number) for number, verb in counted if number]
    parts = [f"{gangs} {verb}{'' if number > 1 else 's'}" for gangs, verb, number in shown]
    if parts:
        yield line(Span(f"as without it: {' and '.join(parts)} (-o wide shows them)", DIM))


def _section(title: Span, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[Line]:
    listed = list(rows)
    if listed:
        yield ()
        yield (title,)
        for each in columns(header, listed):
            yield (Span("  "), *each)


def where(domain: str, nodes: Sequence[NodeShare], how: Format) -> str:
    """Domain and nodes of a placement."""
    shown = names(
        [each.node if each.pods == 1 else f"{each.node}×{each.pods}" for each in nodes], is_wide=how.is_wide
    )
    return f"{domain}: {shown}" if domain else shown
