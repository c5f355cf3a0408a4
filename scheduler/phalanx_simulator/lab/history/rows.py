"""Rows of a file with a header line; errors name the file, the line and the column."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from phalanx_simulator.lab.history.history import HistoryError


class Row:
    """One row. Each method raises HistoryError for a value that is not as it says."""

    def __init__(self, path: Path, line: int, values: Mapping[str, str | None]) -> None:
        self._path = path
        self._values = values
        self.line = line

    def error(self, column: str, why: str) -> HistoryError:
        """The error of a column of this row."""
        return HistoryError(f"{self._path}, line {self.line}, {column}: {why}")

    def text(self, column: str, otherwise: str = "") -> str:
        """The value without spaces around it; `otherwise` if it is empty or there is no such column."""
        return (self._values.get(column) or "").strip() or otherwise

    def whole(self, column: str, *, least: int = 0) -> int:
        """A whole number that is at least this."""
        text = self.text(column)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or int(text) < least:
            raise self.error(column, f"expected a whole number, {least} or more; found {text!r}")
        return int(text)

    def seconds(self, column: str) -> float:
        """A number of seconds, 0 or more."""
        text = self.text(column)
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not 0 <= found < math.inf:
            raise self.error(column, f"expected a number of seconds, 0 or more; found {text!r}")
        return found

    def time(self, column: str) -> float:
        """A time in seconds since the epoch: ISO 8601, in UTC if it names no zone, or a number of seconds."""
        text = self.text(column)
        if text.isascii() and text.isdecimal():
            return float(text)
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.error(column, f"expected a time such as 2026-01-05T07:01:55, found {text!r}") from None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def rows_of(path: Path, columns: Sequence[str], *, delimiter: str = ",") -> Iterator[Row]:
    """The rows of a file that must have these columns; it may have more. Raises HistoryError and OSError."""
    with path.open(newline="", encoding="utf-8") as file:
        try:
            if delimiter == ",":
                reader = csv.DictReader(file)
            else:
                reader = csv.DictReader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                found = ", ".join(reader.fieldnames or ()) or "nothing"
                raise HistoryError(
                    f"{path}, line 1: expected the columns {', '.join(columns)}; there is no "
                    f"{', '.join(missing)}; found {found}"
                )
            for values in reader:
                if None in values or None in values.values():
                    raise HistoryError(
                        f"{path}, line {reader.line_num}: expected {len(reader.fieldnames or ())} values"
                        f" separated by {delimiter!r}, found another number"
                    )
                yield Row(path, reader.line_num, values)
        except (UnicodeDecodeError, csv.Error) as error:
            raise HistoryError(f"{path}: expected a text file in UTF-8, found: {error}") from None
