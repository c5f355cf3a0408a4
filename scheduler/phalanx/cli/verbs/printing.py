"""Lines of text with styles: what a view becomes before it is printed.

Without a terminal they are printed as plain text, so that `rich` need not be imported and nothing is cut.
"""

import os
import shutil
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


class Format(Struct, frozen=True):
    """How a view is printed for people."""

    is_wide: bool = False
    """Whether all columns are shown."""
    all_namespaces: bool = False
    now_ms: int = 0
    """The time of the reading, which ages are counted from."""
    width: int = 0
    """Columns of the screen; 0 if lines may have any length."""
    chosen: tuple[str, ...] = ()
    """The names of the columns that the user wants, in this order; empty for those that fit."""

    @property
    def folds(self) -> bool:
        """Whether equal rows are one."""
        return bool(self.width) and not self.is_wide


def line(*parts: Cell) -> Line:
    return tuple(_span(part) for part in parts)


def _span(cell: Cell) -> Span:
    if isinstance(cell, str):
        return Span(printable(cell))
    return Span(printable(cell.text), cell.style)


def wrapped(shown: Line, width: int) -> Iterator[Line]:
    """The line as lines of this width. They go on below what follows its label: a first span that is dim.

    A number stays with the word after it.
    """
    indent = len(shown[0].text) if len(shown) > 1 and shown[0].style == DIM else 0
    if sum(len(span.text) for span in shown) <= width or indent >= width // 2:
        yield shown
        return
    parts: list[Span] = [shown[0]] if indent else []
    at = indent
    for span in shown[1:] if indent else shown:
        for word in _words(span.text):
            shown_word = word
            if at > indent and at + len(word.rstrip()) > width:
                yield tuple(parts)
                parts, at, shown_word = [Span(" " * indent)], indent, word.lstrip()
            parts.append(Span(shown_word, span.style))
            at += len(shown_word)
    yield tuple(parts)


def _words(text: str) -> Iterator[str]:
    """The words, each with the space before it; a number and the word after it are one."""
    found = ""
    for place, part in enumerate(text.split(" ")):
        if found.strip() and not found.strip().replace(".", "", 1).isdigit():
            yield found
            found = ""
        found += f" {part}" if place else part
    yield found


def plain(lines: Iterable[Line]) -> str:
    """The lines as text without styles."""
    return "".join("".join(span.text for span in each).rstrip() + "\n" for each in lines)


def is_terminal(stream: TextIO) -> bool:
    """Whether people look at this stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of_screen() -> int:
    """Its columns; 0 without a terminal, where lines may have any length."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else 0


def show(lines: Sequence[Line], *, width: int) -> None:
    """Print the lines: with colours on a terminal, unless NO_COLOR is set.

    `width`: what they are wrapped to; 0 for nothing.
    """
    fitting = [part for each in lines for part in wrapped(each, width)] if width else lines
    if not is_terminal(sys.stdout):
        sys.stdout.write(plain(fitting))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for each in fitting:
        console.print(as_text(each), no_wrap=True, overflow="ellipsis", crop=True)


def as_text(line: Line) -> "Text":
    from rich.text import Text

    return Text.assemble(*((span.text, span.style) for span in line))
