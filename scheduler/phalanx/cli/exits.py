"""The exit codes that every command shares, and the exception for bad input."""

from enum import IntEnum

from phalanx.limits import BAD_INPUT_LINES_MAX


class Exit(IntEnum):
    """What a script may rely on. 130 and 141 are what shells expect after Ctrl-C and a closed pipe."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class BadInput(Exception):
    """What the user gave cannot be used. One line for each thing that is wrong."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    def report(self) -> str:
        """The first BAD_INPUT_LINES_MAX lines, and how many there are beyond them."""
        shown = [_printable(line) for line in self.lines[:BAD_INPUT_LINES_MAX]]
        more = len(self.lines) - len(shown)
        return "\n".join(shown) + (f"\nand {more} more" if more else "")


def _printable(line: str) -> str:
    """What the user's files contain must not break lines or steer the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
