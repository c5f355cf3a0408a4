"""Builds programs that tests run, each once, and prints progress on standard error."""

import sys

from phalanx_controlplane.programs import Program, ProgramMissing

MISSING = 2
"""Exit code of a command that builds programs, if one cannot be built."""


def build_all(*programs: Program) -> int:
    """Build what is missing; the exit code of the command."""
    try:
        for program in programs:
            program.build(report)
    except ProgramMissing as missing:
        report(str(missing))
        return MISSING
    return 0


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
