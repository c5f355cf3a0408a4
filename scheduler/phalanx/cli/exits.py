"""The exit codes of all commands, and the exception for bad input."""

from enum import IntEnum

from phalanx.limits import BAD_INPUT_LINES_MAX
from phalanx.model.texts import printable


class Exit(IntEnum):
    """Stable exit codes; 130 and 141 are the convention after Ctrl-C and a closed pipe."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    NOT_FOUND = 4
    WAITS = 5
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class BadInput(Exception):
    """The input is invalid; one line for each error."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    def report(self) -> str:
        """Return the first BAD_INPUT_LINES_MAX lines and the number of further ones."""
        shown = [printable(line) for line in self.lines[:BAD_INPUT_LINES_MAX]]
        more = len(self.lines) - len(shown)
        return "\n".join(shown) + (f"\nand {more} more" if more else "")
