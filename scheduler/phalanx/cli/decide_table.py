"""The table output of `phalanx decide`: placed, evicted and waiting groups."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phalanx.limits import SHOWN_NODES
from phalanx.model.decisions import Certificate, CycleResult, Placement
from phalanx.model.reasons import ALSO, Verdict
from phalanx.model.texts import printable

_WIDE: Final = 100
"""Columns of the screen from which on a verdict has four columns."""


def show(results: Sequence[CycleResult], *, ignored: Counter[str]) -> None:
    """Print all cycles as one result. `ignored` counts the waiting pods of other schedulers by name."""
    console = Console(highlight=False)
    placements = [placement for result in results for placement in result.placements]
    evictions = [evict for result in results for evict in result.evictions]
    verdicts = sorted(results[-1].verdicts, key=lambda verdict: verdict.group)
    if placements:
        console.print("[bold]Placed[/bold]", _placed(placements), sep="\n")
    if evictions:
        rows = ((f"{evict.namespace}/{evict.name}", evict.reason, evict.beneficiary) for evict in evictions)
        console.print("[bold]Evicted[/bold]", _table(("Pod", "Reason", "For"), rows), sep="\n")
    if verdicts:
        console.print("[bold]Waiting[/bold]", _waiting(verdicts, console.width), sep="\n")
    if not (placements or evictions or verdicts):
        console.print("Nothing to decide: no waiting pod has the name of this scheduler.")
    for scheduler, count in sorted(ignored.items()):
        console.print(f"{count} waiting pods belong to scheduler {escape(printable(scheduler))}")


def _placed(placements: Iterable[Placement]) -> Table:
    rows = (
        (
            placement.group,
            str(len(placement.binds)),
            f"{placement.level} {placement.domain}".strip(),
            _nodes(placement),
            _quality(placement.certificate),
        )
        for placement in placements
    )
    return _table(("Group", "Pods", "Domain", "Nodes", "Quality"), rows)


def _nodes(placement: Placement) -> str:
    """Format the nodes, with the number of pods where it is not one."""
    counts = Counter(bind.node for bind in placement.binds)
    names = [node if count == 1 else f"{node} ×{count}" for node, count in counts.items()]
    more = len(names) - SHOWN_NODES
    return ", ".join(names[:SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


def _quality(certificate: Certificate) -> str:
    """Format the value of each term, with the bound of the first one that is not proven.

    The bound is lexicographic: later terms have none of their own.
    """
    rows = list(zip(certificate.terms, certificate.objective, certificate.bound, strict=True))
    open_term = next((term for term, value, bound in rows if value != bound), None)
    reached = ", ".join(
        f"{_term(term)} {value} (at least {bound})" if term == open_term else f"{_term(term)} {value}"
        for term, value, bound in rows
    )
    proven = "proven optimal" if certificate.proven else "not proven"
    return f"{proven}: {reached}" if reached else proven


def _term(term: str) -> str:
    """Format a term: `domains:rack` counts racks, `subgroup-domains:rack` the racks of each subgroup.

    `traffic:rack` is what members in different racks send to each other, in the unit of the weights.
    `tightness:rack` is the unused capacity of these racks, in pods of the gang.
    """
    kind, _, level = term.partition(":")
    labels = {
        "domains": f"{level}s",
        "subgroup-domains": f"{level}s of subgroups",
        "traffic": f"traffic between {level}s",
        "node-traffic": "traffic between nodes",
        "tightness": f"unused capacity in {level}s",
        "subgroup-tightness": f"unused capacity in {level}s of subgroups",
    }
    return labels.get(kind, kind)


def _waiting(verdicts: Iterable[Verdict], width: int) -> Table:
    """On a narrow screen the next step stands below the message, and a reason is never broken."""
    if width >= _WIDE:
        rows = ((item.group, item.reason.value, _message(item), item.next_step) for item in verdicts)
        return _table(("Group", "Reason", "Message", "Next step"), rows)
    narrow = (
        (f"{item.group}\n{item.reason.value}", "\n".join(filter(None, (_message(item), item.next_step))))
        for item in verdicts
    )
    return _table(("Group and reason", "Message and next step"), narrow)


def _message(verdict: Verdict) -> str:
    """With the other mistakes, each on a line of its own."""
    others = [f"Also {each.finding}" for each in verdict.evidence if each.subject == ALSO]
    return "\n".join((verdict.message, *others))


def _table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("\n".join(escape(printable(part)) for part in cell.split("\n")) for cell in row))
    return table
