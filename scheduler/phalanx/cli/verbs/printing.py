"""Lines of text with styles, and columns: what a view becomes before it is printed.

Without a terminal they are printed as plain text, so that `rich` need not be imported and nothing is cut.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from phalanx.model.texts import printable

if TYPE_CHECKING:
    from rich.text import Text


class Span(Struct, frozen=True):
    """A piece of text with a style of rich; empty for none."""

    text: str
    style: str = ""


Line = tuple[Span, ...]
Cell = str | Span

GOOD, BAD, WARN, DIM, BOLD = "green", "red", "yellow", "dim", "bold"

_GAP = "   "


class Format(Struct, frozen=True):
    """How a view is printed for people."""

    is_wide: bool = False
    """Whether all columns are shown."""
    all_namespaces: bool = False
    now_ms: int = 0
    """The time of the reading, which ages are counted from."""


def line(*parts: Cell) -> Line:
    return tuple(_span(part) for part in parts)


def columns(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> list[Line]:
    """Rows below a header, in columns as wide as their widest cell. The last column is as long as it is."""
    spans = [[_span(cell) for cell in row] for row in rows]
    widths = [len(name) for name in header]
    for row in spans:
        for place, cell in enumerate(row):
            widths[place] = max(widths[place], len(cell.text))
    titles = [Span(name, BOLD) for name in header]
    return [tuple(_padded(row, widths)) for row in (titles, *spans)]


def _padded(row: Sequence[Span], widths: Sequence[int]) -> Iterator[Span]:
    last = len(row) - 1
    for place, cell in enumerate(row):
        if place == last:
            yield cell
        else:
            yield cell
            yield Span(" " * (widths[place] - len(cell.text)) + _GAP)


def _span(cell: Cell) -> Span:
    if isinstance(cell, str):
        return Span(printable(cell))
    return Span(printable(cell.text), cell.style)


def plain(lines: Iterable[Line]) -> str:
    """The lines as text without styles."""
    return "".join("".join(span.text for span in each).rstrip() + "\n" for each in lines)


def is_terminal(stream: TextIO) -> bool:
    """Whether people look at this stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show(lines: Sequence[Line], *, wraps: bool) -> None:
    """Print the lines: with colours on a terminal, unless NO_COLOR is set.

    `wraps`: long lines are wrapped there; else they are cut.
    """
    if not is_terminal(sys.stdout):
        sys.stdout.write(plain(lines))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for each in lines:
        text = as_text(each)
        console.print(text, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis", crop=True)


def as_text(line: Line) -> "Text":
    from rich.text import Text

    return Text.assemble(*((span.text, span.style) for span in line))
