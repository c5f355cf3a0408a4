"""`phalanx queues`: the tree of queues."""

from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.formatting import amount, bar, listed, short
from phalanx.cli.verbs.options import TableOptions
from phalanx.cli.verbs.printing import BAD, DIM, GOOD, WARN, Cell, Format, Line, Span, line
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables import Column, table
from phalanx.cli.verbs.views.queues import QueueRow, QueuesView, queues_view
from phalanx.model.api.queues import Queue
from phalanx.model.texts import did_you_mean


def queues(
    queue: str | None = None,
    /,
    *,
    resource: Annotated[str | None, Parameter(name=["--resource", "-r"])] = None,
    options: TableOptions | None = None,
) -> int:
    """Show the tree of queues: guarantee, use, share, borrowed and waiting, as bars.

    The amounts include the descendants of a queue. Queues are objects of the cluster, so namespaces do not
    count here.

    Parameters
    ----------
    queue
        Only this queue and its descendants.
    resource
        The resource that is shown; default: the device of which there is most, else cpu.
    """

    def view(seen: Seen) -> QueuesView:
        found = queues_view(seen, resource=resource, only=queue)
        if queue is not None and not found.queues:
            raise no_queue(queue, seen)
        return found

    question = Question(
        name="queues", kinds=("Queue",), view=view, lines=queue_lines, needed=("Queue",), with_gangs=False
    )
    return ask(options or TableOptions(), question)


def no_queue(name: str, seen: Seen) -> NotFound:
    """The error, with the nearest name."""
    near = did_you_mean(name, (each.metadata.name for each in seen.of(Queue)))
    return NotFound(f"there is no queue {name}" + (f"; {near[:1].lower()}{near[1:].strip()}" if near else ""))


_NARROW = 100
"""Columns of a screen on which bars are half as long."""

_OWN, _BORROWED = "█", "▓"
_LEGEND = f"{_OWN} within the guarantee   {_BORROWED} beyond it   · free"
_STATE_STYLES = {"Open": "", "Held": WARN, "Closed": DIM}


def queue_lines(view: QueuesView, how: Format) -> list[Line]:
    """A line for each queue; wide: weights, limits, past use, and all resources in use."""
    if not view.queues:
        return [line("No queues: all gangs are in the queue default, which has no limits.")]
    name = short(view.resource)
    columns = (
        *(Column("QUEUE"), Column(f"{name} USED"), Column("", goes=4)),
        *(Column("GUARANTEE", goes=1), Column("SHARE", goes=3), Column("BORROWED", goes=2)),
        *(Column("WAITING"), Column("STATE")),
        *(Column(title, only_wide=True) for title in ("WEIGHT", "LIMIT", "AVERAGE USE", "PODS WAITING")),
        Column("ALL USED", only_wide=True),
    )
    largest = max(_whole(row, view.resource) for row in view.queues)
    found = table(columns, [_cells(row, view.resource, largest, _bar_cells(how)) for row in view.queues], how)
    for row in view.queues:
        found += [line(Span(f"{row.name}: {problem}", BAD)) for problem in row.problems]
    return [*found, line(Span(_LEGEND, DIM))]


def _bar_cells(how: Format) -> int:
    return 20 if not how.width or how.width > _NARROW else 10


def _cells(row: QueueRow, resource: str, largest: int, bar_cells: int) -> list[Cell]:
    used, borrowed = row.used.get(resource, 0), row.borrowed.get(resource, 0)
    return [
        "  " * row.depth + row.name,
        amount(resource, used),
        _bar(used, borrowed, largest, bar_cells),
        _amount(row.guarantee.get(resource), resource),
        _amount(row.fair_share.get(resource), resource),
        Span(amount(resource, borrowed), WARN) if borrowed else "-",
        Span(str(row.pending_gangs), WARN) if row.pending_gangs else "-",
        Span(row.state, _STATE_STYLES.get(row.state, "")),
        str(row.weight),
        _amount(row.limit.get(resource), resource),
        _amount(row.average_use.get(resource), resource),
        str(row.pending_pods),
        listed(row.used),
    ]


def _amount(number: int | None, resource: str) -> str:
    return "-" if number is None else amount(resource, number)


def _whole(row: QueueRow, resource: str) -> int:
    parts = (row.used, row.guarantee, row.fair_share)
    return max(part.get(resource, 0) for part in parts)


def _bar(used: int, borrowed: int, whole: int, cells: int) -> Span:
    signs = bar([(_OWN, max(used - borrowed, 0)), (_BORROWED, borrowed)], whole, cells=cells)
    return Span("".join(text for text, _ in signs), WARN if borrowed else GOOD)
