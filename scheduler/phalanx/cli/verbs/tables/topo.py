"""The topology as a tree."""

from collections.abc import Sequence

from phalanx.cli.verbs.formatting import amount, names, short
from phalanx.cli.verbs.printing import DIM, Cell, Format, Line, Span, columns, line
from phalanx.cli.verbs.tables.nodes import used_bar
from phalanx.cli.verbs.views.topo import DomainRow, TopoView


def topo_lines(view: TopoView, how: Format) -> list[Line]:
    """A line for each domain."""
    name = short(view.resource)
    title = f"Topology {view.topology or '(from node labels)'}: {' > '.join(view.levels) or 'no levels'}"
    header = ("DOMAIN", "NODES", name, "FREE", "", "WHOLE NODES FREE", "LARGEST FREE", "SCATTERED", "GANGS")
    table = columns(header, (_cells(row, view.resource, how) for row in view.domains))
    note = "FREE counts nodes that take pods. SCATTERED is the part of it on nodes that are partly in use."
    return [line(title), *table, line(Span(note, DIM))]


def _cells(row: DomainRow, resource: str, how: Format) -> Sequence[Cell]:
    title = f"{row.level} {row.name}".strip()
    unusable = f" ({amount(resource, row.unusable)} unusable)" if row.unusable else ""
    used = None if row.free is None else row.total - row.unusable - row.free
    gangs = [f"{gang.namespace}/{gang.name}×{gang.pods}" for gang in row.gangs]
    return (
        "  " * row.depth + title,
        str(row.nodes),
        amount(resource, row.total) + unusable,
        _number(row.free, resource),
        used_bar(used, row.total - row.unusable, cells=10),
        "?" if row.free_whole_nodes is None else str(row.free_whole_nodes),
        _number(row.largest_free, resource),
        "?" if row.fragmentation is None else f"{row.fragmentation}%",
        names(gangs, is_wide=how.is_wide) or "-",
    )


def _number(number: int | None, resource: str) -> str:
    return "?" if number is None else amount(resource, number)
