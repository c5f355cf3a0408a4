"""The results of a study as text: one table, and what each variant changes."""

from collections.abc import Iterator

from phalanx_simulator.lab.engine.outcome import TenantOutcome
from phalanx_simulator.lab.history.history import counted
from phalanx_simulator.lab.report.results import (
    FIGURES,
    Results,
    VariantResult,
    printable,
    sentences,
    shown_time,
    size_figures,
)


def text_of(results: Results) -> str:
    """The text that the command prints."""
    return "\n".join([*_heading(results), "", *_table(results), *_changes(results)])


def _heading(results: Results) -> Iterator[str]:
    played = results.played
    jobs, days = counted(played.jobs, "job", "jobs"), counted(played.days, "day", "days")
    yield (
        f"{jobs} in {days} from day {played.first_day} of {played.path}, and {played.jobs_before:,} that ran"
        f" before; average demand {played.gpus_wanted:,.1f} GPUs"
    )
    yield from (f"note: {note}" for note in results.notes)


def cells_of(results: Results) -> list[list[str]]:
    """A row of names, and a row for each figure with the value of each variant."""
    rows = [["", *(each.name for each in results.variants)]]
    rows.append(["nodes", *(f"{each.nodes:,}" for each in results.variants)])
    rows.append(["GPUs", *(f"{each.gpus:,}" for each in results.variants)])
    for figure in (*FIGURES, *size_figures(results.variants)):
        values = [figure.read(each.outcome) for each in results.variants]
        rows.append([figure.name, *("-" if value is None else figure.show(value) for value in values)])
    return rows


def tenant_cells(variants: tuple[VariantResult, ...]) -> list[list[str]]:
    """A row of names, and for each queue its mean wait and its share in each variant."""
    rows = [["queue", *(each.name for each in variants)]]
    for tenant in variants[0].outcome.tenants:
        found = [each.outcome.tenants[tenant] for each in variants]
        if any(each.waits is not None or each.share is not None for each in found):
            rows.append([tenant, *map(_tenant_cell, found)])
    return rows


def _tenant_cell(found: TenantOutcome) -> str:
    wait = "-" if found.waits is None else shown_time(found.waits.mean_s)
    return wait if found.share is None else f"{wait}, {100 * found.share:.0f} % of its fair share"


def _table(results: Results) -> Iterator[str]:
    rows = [[printable(cell) for cell in row] for row in cells_of(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield f"{first.strip().ljust(widths[0])}   {'   '.join(rest)}"


def _changes(results: Results) -> Iterator[str]:
    for name, lines in sentences(results):
        yield ""
        yield f"{printable(name)}, compared with {printable(results.variants[0].name)}:"
        yield from (f"  {line}" for line in lines)
