"""`phalanx nodes`: state, faults, why avoided, who is there, and what would be _lost by draining."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from cyclopts import Parameter
from msgspec.structs import replace

from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import age, amount, bar, folded, names, short
from phalanx.cli.verbs.jobs import GANG_KINDS, QUIET
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.options import TableOptions
from phalanx.cli.verbs.printing import BAD, DIM, GOOD, WARN, Cell, Format, Line, Span, line
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables import Column, table
from phalanx.cli.verbs.views.nodes import NodeCondition, NodeRow, NodesView, nodes_view

NODE_KINDS = (*GANG_KINDS, "Node")
EVERYWHERE = frozenset({"Pod", "PodGroup"})
"""Pods of all namespaces use the nodes."""


class Sort(StrEnum):
    """What rows may be sorted by."""

    NAME = "name"
    USED = "used"
    FREE = "free"
    LOST = "lost"


_SORT_KEYS: Final[Mapping[Sort, Callable[[NodeRow, str], Any]]] = {
    Sort.NAME: lambda row, _: row.name,
    Sort.USED: lambda row, resource: -(row.used or {}).get(resource, 0),
    Sort.FREE: lambda row, resource: -(row.free or {}).get(resource, 0),
    Sort.LOST: lambda row, _: -row.lost_device_seconds,
}


def nodes(
    *node: str,
    resource: Annotated[str | None, Parameter(name=["--resource", "-r"])] = None,
    sort: Sort | None = None,
    options: TableOptions | None = None,
) -> int:
    """Show nodes: state, faults, why they are avoided, who is there, and what would be _lost by draining.

    Lost is the run time of the gangs that would stop since their start or their last checkpoint, times their
    devices. Nodes with faults come first. Pods of all namespaces count that you may read.

    Parameters
    ----------
    node
        Only these nodes.
    resource
        The resource that is shown; default: the device of which there is most, else cpu.
    sort
        What the nodes are sorted by: the most used and the greatest loss first. Default: nodes with faults
        first.
    """
    fault_of = fault_finder()

    def view(seen: Seen) -> NodesView:
        found = nodes_view(seen, fault_of, resource=resource, only=node)
        missing = sorted(set(node) - {row.name for row in found.nodes})
        if missing:
            raise NotFound(f"there is no node {', '.join(missing)}")
        if sort is None:
            return found
        key = _SORT_KEYS[sort]
        return replace(found, nodes=tuple(sorted(found.nodes, key=lambda row: key(row, found.resource))))

    question = Question(
        name="nodes",
        kinds=NODE_KINDS,
        view=view,
        lines=node_lines,
        everywhere=EVERYWHERE,
        needed=("Node",),
        quiet=QUIET,
    )
    return ask(options or TableOptions(), question)


_CONDITION_STYLES = {
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
    columns = (
        *(Column("NODE", wraps=True), Column("NODES"), Column("STATE")),
        *(Column(f"{short(view.resource)} USED"), Column("", goes=3), Column("GANGS", goes=1, wraps=True)),
        *(Column("LOST IF DRAINED", goes=2, wraps=True), Column("FAULTS AND WHY AVOIDED", wraps=True)),
    )
    rows = [_cells(row, view.resource, how) for row in view.nodes]
    if how.folds:
        found = table(columns, _folded(view.nodes, rows), how)
    else:
        found = table([columns[0], *columns[2:]], rows, how)
    if how.is_wide:
        for row in view.nodes:
            found += [line(Span(text, DIM)) for text in _losses(row)]
    return found


def _folded(nodes: Sequence[NodeRow], rows: Sequence[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
    """Nodes of which all is equal are one row, with their number."""
    equal: dict[tuple[Cell, ...], list[str]] = {}
    for node, cells in zip(nodes, rows, strict=True):
        equal.setdefault(tuple(cells[1:]), []).append(node.name)
    for cells, names_of in equal.items():
        yield (",".join(folded(names_of)), str(len(names_of)), *cells)


def _cells(row: NodeRow, resource: str, how: Format) -> Sequence[Cell]:
    total = row.allocatable.get(resource, 0)
    used = None if row.used is None else row.used.get(resource, 0)
    gangs = [f"{gang.namespace}/{gang.name}" for gang in row.gangs]
    return (
        row.name,
        Span(row.condition.value, _CONDITION_STYLES[row.condition]),
        f"{'?' if used is None else amount(resource, used)}/{amount(resource, total)}",
        used_bar(used, total),
        names(gangs, is_wide=how.is_wide) or "-",
        _lost(row),
        Span(", ".join((*row.faults, *row.avoided)) or "-", BAD if row.faults else WARN),
    )


def used_bar(used: int | None, total: int, cells: int = 8) -> Span:
    """A bar of what is in use; question marks if it is not known."""
    if used is None:
        return Span("?" * cells, DIM)
    return Span("".join(text for text, _ in bar([("█", used)], total, cells=cells)), GOOD)


def _lost(row: NodeRow) -> str:
    """What draining the node would cost: gangs that stop, and hours of their devices."""
    if not row.gangs:
        return "nothing"
    stops = sum(gang.stops for gang in row.gangs)
    verb = "stops" if stops == 1 else "stop"
    return f"{count(stops, 'gang')} {verb}, {row.lost_device_seconds / _HOUR:.1f} device h"


def _losses(row: NodeRow) -> list[str]:
    """What each gang of the node would lose."""
    return [
        f"{row.name}: {gang.namespace}/{gang.name}: {count(gang.pods, 'pod')} here,"
        f" {'all of it stops' if gang.stops else 'the others go on'},"
        f" loses {age(gang.lost_seconds)} ({gang.lost_device_seconds / _HOUR:.1f} device h)"
        for gang in row.gangs
    ]
