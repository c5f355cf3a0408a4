"""Rows in columns, of which a screen shows those that fit and matter most, with long texts wrapped."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from phalanx.cli.exits import BadInput
from phalanx.cli.verbs.printing import BOLD, Cell, Format, Line, Span, line

_GAP: Final = 3
_NARROW_GAP: Final = 2
_WRAPPED_MIN: Final = 20
"""The columns of the screen that a wrapped text has at least; fewer are a word a line."""


class Column(Struct, frozen=True):
    title: str
    goes: int = 0
    """If not all columns fit, those with the highest number are left out first. Those with 0 stay."""
    wraps: bool = False
    """Whether its texts may go on below, at spaces and after commas."""
    only_wide: bool = False
    """Whether it is shown only with `-o wide` and if the user names it."""

    @property
    def name(self) -> str:
        """How the user names it."""
        return self.title.lower().replace(" ", "-")


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], how: Format) -> list[Line]:
    """Rows below a header, in columns as wide as their widest cell.

    A screen has the columns that fit, each row in as many lines as it needs. Raises BadInput if the user
    names a column that does not exist.
    """
    cells = [line(*row) for row in rows]
    places = _wanted(columns, how)
    widths = {
        place: max([len(columns[place].title), *(len(row[place].text) for row in cells)]) for place in places
    }
    gap = _GAP
    if how.width and not how.is_wide and _needed(widths.values(), gap) > how.width:
        gap = _NARROW_GAP
        if not how.chosen:
            places = _fitting(columns, cells, places, widths, how.width)
        _shrink(columns, places, widths, how.width)
    titles = tuple(Span(each.title, BOLD) for each in columns)
    return [
        part
        for row in (titles, *cells)
        for part in _lines([row[place] for place in places], [widths[place] for place in places], gap)
    ]


def _wanted(columns: Sequence[Column], how: Format) -> list[int]:
    if not how.chosen:
        return [place for place, each in enumerate(columns) if how.is_wide or not each.only_wide]
    by_name = {each.name: place for place, each in enumerate(columns) if each.title}
    unknown = [name for name in how.chosen if name not in by_name]
    if unknown:
        raise BadInput(f"--columns: there is no column {unknown[0]}; there are {', '.join(by_name)}")
    return [by_name[name] for name in how.chosen]


def _needed(widths: Iterable[int], gap: int) -> int:
    found = list(widths)
    return sum(found) + gap * (len(found) - 1)


def _fitting(
    columns: Sequence[Column], cells: Sequence[Line], places: list[int], widths: dict[int, int], width: int
) -> list[int]:
    """The columns that are kept: those that say nothing go first."""

    def rank(place: int) -> tuple[bool, int]:
        is_empty = all(row[place].text.strip() in ("", "-") for row in cells)
        return (is_empty, columns[place].goes)

    left = list(places)
    for place in sorted((each for each in places if columns[each].goes), key=rank, reverse=True):
        least = [min(widths[each], _WRAPPED_MIN) if columns[each].wraps else widths[each] for each in left]
        if _needed(least, _NARROW_GAP) <= width:
            break
        left.remove(place)
    return left


def _shrink(columns: Sequence[Column], places: Sequence[int], widths: dict[int, int], width: int) -> None:
    """Take what is too much from the widest texts that may be wrapped."""
    texts = [place for place in places if columns[place].wraps]
    excess = _needed([widths[place] for place in places], _NARROW_GAP) - width
    while excess > 0:
        widest = max(texts, key=lambda place: widths[place], default=-1)
        if widest < 0 or widths[widest] <= max(_WRAPPED_MIN, len(columns[widest].title)):
            return
        widths[widest] -= 1
        excess -= 1


def _lines(row: Sequence[Span], widths: Sequence[int], gap: int) -> Iterator[Line]:
    """The lines of a row; the first has what fits in one line."""
    texts = [list(_pieces(cell.text, width)) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, texts))):
        parts: list[Span] = []
        for place, (cell, pieces, width) in enumerate(zip(row, texts, widths, strict=True)):
            piece = pieces[number] if number < len(pieces) else ""
            parts.append(Span(piece, cell.style))
            if place < len(row) - 1:
                parts.append(Span(" " * (width - len(piece) + gap)))
        yield tuple(parts)


def _pieces(text: str, width: int) -> Iterator[str]:
    """The text in pieces of this width; those after the first are indented."""
    left, indent = text, ""
    while len(left) > width:
        ends = [place + 1 for place, sign in enumerate(left[:width]) if sign in " ,"]
        end = next((each for each in reversed(ends) if left[:each].strip()), width)
        yield left[:end].rstrip(" ")
        indent = " "
        left = indent + left[end:].lstrip(" ")
    yield left
