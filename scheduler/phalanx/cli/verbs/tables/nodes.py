"""Nodes as a table."""

from collections.abc import Sequence

from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import age, amount, bar, names, short
from phalanx.cli.verbs.printing import BAD, DIM, GOOD, WARN, Cell, Format, Line, Span, columns, line
from phalanx.cli.verbs.views.nodes import NodeCondition, NodeRow, NodesView

CONDITION_STYLES = {
    NodeCondition.READY: GOOD,
    NodeCondition.CORDONED: DIM,
    NodeCondition.FAULTY: BAD,
    NodeCondition.NOT_READY: BAD,
}
_HOUR = 3600


def node_lines(view: NodesView, how: Format) -> list[Line]:
    """A line for each node; wide: all gangs, with what each of them would lose."""
    if not view.nodes:
        return [line("No nodes.")]
    name = short(view.resource)
    header = ("NODE", "STATE", f"{name} USED", "", "GANGS", "LOST IF DRAINED", "FAULTS AND WHY AVOIDED")
    found = columns(header, (_cells(row, view.resource, how) for row in view.nodes))
    if how.is_wide:
        for row in view.nodes:
            found += [line(Span(text, DIM)) for text in losses(row)]
    return found


def _cells(row: NodeRow, resource: str, how: Format) -> Sequence[Cell]:
    total = row.allocatable.get(resource, 0)
    used = None if row.used is None else row.used.get(resource, 0)
    gangs = [f"{gang.namespace}/{gang.name}" for gang in row.gangs]
    return (
        row.name,
        Span(row.condition.value, CONDITION_STYLES[row.condition]),
        f"{'?' if used is None else amount(resource, used)}/{amount(resource, total)}",
        used_bar(used, total),
        names(gangs, is_wide=how.is_wide) or "-",
        lost(row),
        Span(", ".join((*row.faults, *row.avoided)) or "-", BAD if row.faults else WARN),
    )


def used_bar(used: int | None, total: int, cells: int = 8) -> Span:
    """A bar of what is in use; question marks if it is not known."""
    if used is None:
        return Span("?" * cells, DIM)
    return Span("".join(text for text, _ in bar([("█", used)], total, cells=cells)), GOOD)


def lost(row: NodeRow) -> str:
    """What draining the node would cost: gangs that stop, and hours of their devices."""
    if not row.gangs:
        return "nothing"
    stops = sum(gang.stops for gang in row.gangs)
    verb = "stops" if stops == 1 else "stop"
    return f"{count(stops, 'gang')} {verb}, {row.lost_device_seconds / _HOUR:.1f} device h"


def losses(row: NodeRow) -> list[str]:
    """What each gang of the node would lose."""
    return [
        f"{row.name}: {gang.namespace}/{gang.name}: {count(gang.pods, 'pod')} here,"
        f" {'all of it stops' if gang.stops else 'the others go on'},"
        f" loses {age(gang.lost_seconds)} ({gang.lost_device_seconds / _HOUR:.1f} device h)"
        for gang in row.gangs
    ]
