"""`phalanx decide -o table`: what went where, what goes, what waits and why, for people."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phalanx.limits import SHOWN_NODES
from phalanx.model.decisions import Certificate, CycleResult, Placement
from phalanx.model.reasons import Verdict


def show(results: Sequence[CycleResult], *, ignored: Counter[str]) -> None:
    """Print all cycles as one outcome. `ignored` counts waiting pods of other schedulers by its name."""
    console = Console(highlight=False)
    placements = [placement for result in results for placement in result.placements]
    evictions = [evict for result in results for evict in result.evictions]
    verdicts = sorted(results[-1].verdicts, key=lambda verdict: verdict.group)
    if placements:
        console.print("[bold]Placed[/bold]", _placed(placements), sep="\n")
    if evictions:
        rows = ((f"{each.namespace}/{each.name}", each.reason, each.beneficiary) for each in evictions)
        console.print("[bold]Evicted[/bold]", _table(("Pod", "Reason", "For"), rows), sep="\n")
    if verdicts:
        console.print("[bold]Waiting[/bold]", _waiting(verdicts), sep="\n")
    if not (placements or evictions or verdicts):
        console.print("Nothing to decide: no pod that waits names this scheduler.")
    for scheduler, count in sorted(ignored.items()):
        console.print(f"{count} waiting pods left to scheduler {escape(scheduler)}")


def _placed(placements: Iterable[Placement]) -> Table:
    rows = (
        (
            placement.group,
            str(len(placement.binds)),
            f"{placement.level} {placement.domain}".strip(),
            _nodes(placement),
            _in_words(placement.certificate),
        )
        for placement in placements
    )
    return _table(("Group", "Pods", "Inside", "Nodes", "How good"), rows)


def _nodes(placement: Placement) -> str:
    """Each node with its number of pods where that is not one."""
    counts = Counter(bind.node for bind in placement.binds)
    names = [node if count == 1 else f"{node} ×{count}" for node, count in counts.items()]
    more = len(names) - SHOWN_NODES
    return ", ".join(names[:SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


def _in_words(certificate: Certificate) -> str:
    """What was reached per term; what was not proven is not claimed."""
    reached = ", ".join(
        f"{_term(term)} {value}" if value == bound else f"{_term(term)} {value} (at least {bound})"
        for term, value, bound in zip(
            certificate.terms, certificate.objective, certificate.bound, strict=True
        )
    )
    proven = "proven best" if certificate.proven else "not proven"
    return f"{proven}: {reached}" if reached else proven


def _term(term: str) -> str:
    """`domains:rack` counts racks, `subgroup-domains:rack` those of each subgroup that prefers few.

    `tightness:rack` is what the racks hold of such pods.
    """
    kind, _, level = term.partition(":")
    words = {
        "domains": f"{level}s",
        "subgroup-domains": f"{level}s of subgroups",
        "room": f"room in {level}s",
    }
    return words.get(kind, kind)


def _waiting(verdicts: Iterable[Verdict]) -> Table:
    rows = ((each.group, each.reason.value, each.message, each.next_step) for each in verdicts)
    return _table(("Group", "Reason", "Why", "Next step"), rows)


def _table(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
