"""The results of a study as one HTML page that needs nothing else: no script, no request."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from phalanx_simulator.lab.history.history import counted
from phalanx_simulator.lab.report.plots import Plot
from phalanx_simulator.lab.report.results import Results, printable, sentences
from phalanx_simulator.lab.report.table import cells_of, tenant_cells

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --card: #fff; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 62rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
figure { margin: 1rem 0; }
figure img { width: 100%; background: var(--card); border-radius: .25rem; }
"""


def page_of(results: Results, plots: Iterable[Plot]) -> str:
    """The page. Names in it come from files and are shown as text."""
    return "\n".join(_lines(results, plots)) + "\n"


def _lines(results: Results, plots: Iterable[Plot]) -> Iterator[str]:
    title = f"Phalanx laboratory: {Path(results.played.path).name}"
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_text(_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{_text(title)}</h1>"
    yield f"<p>{_text(_played(results))}</p>"
    if results.notes:
        yield f"<ul>{''.join(f'<li>{_text(note)}</li>' for note in results.notes)}</ul>"
    yield from _answers(results)
    yield from _section("Side by side", _table(cells_of(results)))
    for plot in plots:
        yield from _section(plot.title, _image(plot))
    yield from _section("Waits and shares of queues", _table(tenant_cells(results.variants)))
    yield "</main></body></html>"


def _text(text: str) -> str:
    return escape(printable(text))


def _played(results: Results) -> str:
    played = results.played
    jobs, days = counted(played.jobs, "job", "jobs"), counted(played.days, "day", "days")
    return (
        f"{jobs} in {days} from day {played.first_day} after the first job, and {played.jobs_before:,} that"
        f" ran before. If each job ran from its submission, they would use {played.gpus_wanted:,.1f} GPUs on"
        f" average. Each variant is one run of the scheduler in virtual time, which decides at most every"
        f" {played.period_s} s."
    )


def _answers(results: Results) -> Iterator[str]:
    for name, lines in sentences(results):
        yield f"<section><h2>What would “{_text(name)}” have changed?</h2>"
        yield f"<p>Compared with “{_text(results.variants[0].name)}”:</p>"
        yield f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul></section>"


def _section(title: str, content: str) -> Iterator[str]:
    yield f"<section><h2>{_text(title)}</h2>{content}</section>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    heads = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in head)
    body = "".join(f"<tr>{_row(cells)}</tr>" for cells in rest)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


def _row(cells: Sequence[str]) -> str:
    first, *rest = (_text(cell) for cell in cells)
    return f'<th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}'


def _image(plot: Plot) -> str:
    data = b64encode(plot.svg.encode()).decode()
    return f'<figure><img alt="{_text(plot.description)}" src="data:image/svg+xml;base64,{data}"></figure>'
