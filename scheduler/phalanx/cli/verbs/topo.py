"""`phalanx topo`: the topology tree with free devices, fragmentation, and who is where."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.formatting import amount, folded, names, short
from phalanx.cli.verbs.jobs import QUIET
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS, used_bar
from phalanx.cli.verbs.options import TableOptions
from phalanx.cli.verbs.printing import BAD, DIM, Cell, Format, Line, Span, line
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables import Column, table
from phalanx.cli.verbs.views.topo import DomainRow, TopoView, topo_view


def topo(
    topology: str | None = None,
    /,
    *,
    nodes: Annotated[bool, Parameter(negative="")] = False,
    resource: Annotated[str | None, Parameter(name=["--resource", "-r"])] = None,
    options: TableOptions | None = None,
) -> int:
    """Show the topology as a tree of domains: free devices, fragmentation, and which gangs are where.

    Free is what new pods may use: nodes that are cordoned, faulty or not ready do not count. Gangs of your
    namespace are named, with -A those of all namespaces that you may read.

    Parameters
    ----------
    topology
        The Topology; default: the one named default, else the first one, else the levels of node labels.
    nodes
        Show single nodes too.
    resource
        The resource that is counted; default: the device of which there is most, else cpu.
    """
    fault_of = fault_finder()

    def view(seen: Seen) -> TopoView:
        found = topo_view(seen, fault_of, name=topology, resource=resource, with_nodes=nodes)
        if found is None:
            raise NotFound(f"there is no topology {topology}")
        return found

    question = Question(
        name="topo",
        kinds=(*NODE_KINDS, "Topology"),
        view=view,
        lines=_topo_lines,
        everywhere=EVERYWHERE,
        needed=("Node",),
        quiet=QUIET,
    )
    return ask(options or TableOptions(), question)


def _topo_lines(view: TopoView, how: Format) -> list[Line]:
    name = short(view.resource)
    title = f"Topology {view.topology or '(from node labels)'}: {' > '.join(view.levels) or 'no levels'}"
    columns = (
        *(
            Column("DOMAIN", wraps=True),
            Column("NODES"),
            Column(name),
            Column("UNUSABLE", goes=2),
            Column("FREE"),
        ),
        *(Column("", goes=4), Column("WHOLE"), Column("LARGEST"), Column("SCATTERED", goes=1)),
        Column("GANGS", goes=3, wraps=True),
    )
    rows = [_cells(row, view.resource, how) for row in view.domains]
    rows = _folded(view.domains, rows) if how.folds else rows
    notes = (
        "FREE counts nodes that take pods. WHOLE: nodes that are free altogether.",
        "LARGEST: the most on one node. SCATTERED: the part of FREE on nodes that are partly in use.",
    )
    return [line(title), *table(columns, rows, how), *(line(Span(note, DIM)) for note in notes)]


def _folded(domains: Sequence[DomainRow], rows: Sequence[Sequence[Cell]]) -> list[Sequence[Cell]]:
    """Domains that follow each other and are equal but for the name are one row; its numbers are of each."""
    found: list[Sequence[Cell]] = []
    before: tuple[object, ...] | None = None
    together: list[str] = []
    for place, (domain, cells) in enumerate(zip(domains, rows, strict=True)):
        has_parts = place + 1 < len(domains) and domains[place + 1].depth > domain.depth
        key = None if has_parts else (domain.depth, domain.level, *cells[1:])
        together = [*together, domain.name] if key is not None and key == before else [domain.name]
        if len(together) > 1:
            found.pop()
        title = f"{domain.level} {','.join(folded(together))}".strip()
        number = f" ×{len(together)}" if len(together) > 1 else ""
        found.append(("  " * domain.depth + title + number, *cells[1:]))
        before = key
    return found


def _cells(row: DomainRow, resource: str, how: Format) -> Sequence[Cell]:
    title = f"{row.level} {row.name}".strip()
    used = None if row.free is None else row.total - row.unusable - row.free
    gangs = [f"{gang.namespace}/{gang.name}×{gang.pods}" for gang in row.gangs]
    return (
        "  " * row.depth + title,
        str(row.nodes),
        amount(resource, row.total),
        Span(amount(resource, row.unusable), BAD) if row.unusable else "-",
        _number(row.free, resource),
        used_bar(used, row.total - row.unusable, cells=10),
        "?" if row.free_whole_nodes is None else str(row.free_whole_nodes),
        _number(row.largest_free, resource),
        "?" if row.fragmentation is None else f"{row.fragmentation}%",
        names(gangs, is_wide=how.is_wide) or "-",
    )


def _number(number: int | None, resource: str) -> str:
    return "?" if number is None else amount(resource, number)
